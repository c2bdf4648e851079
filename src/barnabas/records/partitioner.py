# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The partition of a serialized key, as Kafka's own producers choose it (BuiltInPartitioner.partitionForKey).

It is murmur2 with the sign bit cleared, modulo all partitions of the topic. C types are in `partitioner.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in


def murmur2_at(data: cython.p_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> int:
    """Kafka's hash of `size` bytes from `start` on, as an unsigned number of 32 bits; for callers in C."""
    # Local, so that the C compiler folds them.
    mask: cython.uint = 0xFFFFFFFF
    multiplier: cython.uint = 0x5BD1E995
    seed: cython.uint = 0x9747B28C
    at: cython.Py_ssize_t = start
    whole: cython.Py_ssize_t = start + (size & ~3)
    left: cython.Py_ssize_t = size & 3
    word: cython.uint
    state: cython.uint = (seed ^ size) & mask
    while at < whole:
        word = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | cython.cast(cython.uint, data[at + 3]) << 24
        word = (word * multiplier) & mask
        word = ((word ^ (word >> 24)) * multiplier) & mask
        state = ((state * multiplier) & mask) ^ word
        at += 4
    if left == 3:
        state ^= data[at + 2] << 16
    if left >= 2:
        state ^= data[at + 1] << 8
    if left >= 1:
        state = ((state ^ data[at]) * multiplier) & mask
    state = ((state ^ (state >> 13)) * multiplier) & mask
    return state ^ (state >> 15)


def murmur2(data: bytes) -> int:
    """Kafka's hash of a serialized key, as Java's signed 32-bit integer."""
    unsigned: cython.longlong = murmur2_at(data, 0, len(data))  # type: ignore[arg-type]  # the stub's p_uchar is no bytes
    return unsigned - 0x100000000 if unsigned >= 0x80000000 else unsigned


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a serialized key: murmur2 with the sign bit cleared, modulo all partitions."""
    unsigned: cython.uint = murmur2_at(key, 0, len(key))  # type: ignore[arg-type]  # as in `murmur2`
    return (unsigned & 0x7FFFFFFF) % partition_count
