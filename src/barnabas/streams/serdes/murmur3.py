# cython: language_level=3, annotation_typing=False
"""Murmur3, 128 bits, as Kafka's foreign-key joins use it to know whether a value has changed.

Source: Austin Appleby's MurmurHash3 (public domain), variant x64_128 with Kafka's seed 104729.

C types are in `murmur3.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import as_signed, word_at

_MASK = 0xFFFFFFFFFFFFFFFF
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_M1 = 0xFF51AFD7ED558CCD
_M2 = 0xC4CEB9FE1A85EC53
_SEED = 104729


def _rotate(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & _MASK


def _mix_first(k: int) -> int:
    return _rotate(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(k: int) -> int:
    return _rotate(k * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(k: int) -> int:
    k ^= k >> 33
    k = k * _M1 & _MASK
    k ^= k >> 33
    k = k * _M2 & _MASK
    return k ^ (k >> 33)


def hash128(data: bytes) -> tuple[int, int]:
    """Return the hash as two signed 64-bit numbers."""
    h1 = h2 = _SEED
    size = len(data)
    end = size - size % 16
    for at in range(0, end, 16):
        h1 = (_rotate(h1 ^ _mix_first(word_at(data, at, 8)), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotate(h2 ^ _mix_second(word_at(data, at + 8, 8)), 31) + h1) * 5 + 0x38495AB5 & _MASK
    if size > end + 8:
        h2 ^= _mix_second(word_at(data, end + 8, size - end - 8))
    if size > end:
        h1 ^= _mix_first(word_at(data, end, min(size - end, 8)))
    h1 ^= size
    h2 ^= size
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return as_signed(h1), as_signed(h2)
