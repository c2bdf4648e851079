# cython: language_level=3, annotation_typing=False
"""Murmur3, 128 bits, as Kafka's foreign-key joins use it to know whether a value has changed.

Source: Austin Appleby's MurmurHash3 (public domain), variant x64_128 with Kafka's seed 104729.

C types are in `murmur3.pxd`.
"""

from __future__ import annotations

from struct import unpack_from

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


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def hash128(data: bytes, seed: int = _SEED) -> tuple[int, int]:
    """Return the hash as two signed 64-bit numbers."""
    h1 = h2 = seed & _MASK
    blocks = len(data) // 16
    for at in range(0, blocks * 16, 16):
        k1, k2 = unpack_from("<QQ", data, at)
        h1 = (_rotate(h1 ^ _mix_first(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotate(h2 ^ _mix_second(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[blocks * 16 :]
    if len(tail) > 8:
        h2 ^= _mix_second(int.from_bytes(tail[8:], "little"))
    if tail:
        h1 ^= _mix_first(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _signed(h1), _signed(h2)
