"""What the compiled modules ask of C, in Python for the uncompiled form. `native.pxd` holds the C side.

A C pointer to bytes is, uncompiled, the buffer itself; so every function takes a position beside it.
"""

from __future__ import annotations


def view_address(view: memoryview) -> memoryview:
    """Return the address of the first byte of a contiguous `memoryview` of bytes; valid as long as the view lives."""
    return view


def bytearray_address(array: bytearray) -> bytearray:
    """Return the address of the first byte of a bytearray; valid until its size changes."""
    return array


def new_bytearray(size: int) -> bytearray:
    """Return a bytearray of `size` bytes that may hold anything; not touching them saves a pass over the memory."""
    return bytearray(size)


def new_buffer(size: int) -> bytearray:
    """Return a buffer of `size` bytes that may hold anything, to become `bytes` without a copy.

    In C it is a `bytes` already, which no other code may see before it is finished.
    """
    return bytearray(size)


def buffer_address(buffer: bytearray) -> bytearray:
    """Return the address of the first byte of a `new_buffer`; valid as long as the buffer lives."""
    return buffer


def hold(buffer: bytearray) -> bytearray:
    """Return a buffer from `new_buffer`, held for `finished`.

    Its owner drops it in between, so that no other object refers to it.
    """
    return buffer


def finished(held: bytearray, size: int) -> bytes:
    """Return the first `size` bytes of a held buffer."""
    return bytes(memoryview(held)[:size])


def int32_address(array: bytearray) -> memoryview:
    """Return the same as an array of 32-bit integers in the machine's byte order."""
    return memoryview(array).cast("i")


def int64_address(array: bytearray) -> memoryview:
    """Return the same as an array of 64-bit integers in the machine's byte order."""
    return memoryview(array).cast("q")


def int32_view_address(view: memoryview) -> memoryview:
    """Return a `memoryview` of bytes as an array of 32-bit integers in the machine's byte order."""
    return view.cast("i")


def int64_view_address(view: memoryview) -> memoryview:
    """Return a `memoryview` of bytes as an array of 64-bit integers in the machine's byte order."""
    return view.cast("q")


def take_bytes(source: bytearray | memoryview, position: int, size: int) -> bytes:
    """Return a new `bytes` of `size` bytes from `position`; the caller has checked the bounds."""
    return bytes(source[position : position + size])


def copy_bytes(target: bytearray | memoryview, position: int, source: bytes, size: int) -> None:
    """Write the first `size` bytes of `source` at `position`; the caller has checked the bounds."""
    target[position : position + size] = source


def copy_range(
    target: bytearray | memoryview,
    target_position: int,
    source: bytearray | memoryview,
    source_position: int,
    size: int,
) -> None:
    """Copy `size` bytes from one buffer to another; the caller has checked the bounds of both."""
    target[target_position : target_position + size] = source[source_position : source_position + size]


def number_size(number: int) -> int:
    """Return the size in bytes of a zigzag varint of up to 64 bits."""
    rest = (number << 1) ^ (number >> 63)
    return max(1, (rest.bit_length() + 6) // 7)


def int64_sum(first: int, second: int) -> int:
    """Return the sum of two signed 64-bit integers, which wraps around where it does not fit, as in Java."""
    return ((first + second + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def int64_to_bytes(number: int) -> bytes:
    """Return a signed 64-bit integer, big-endian; the caller has checked that it fits."""
    return number.to_bytes(8, "big", signed=True)


def int64_from_bytes(data: bytes) -> int:
    """Return the signed 64-bit integer that the first 8 bytes are, big-endian; the caller has checked the length."""
    return int.from_bytes(data[:8], "big", signed=True)


def untrack(item: object) -> None:
    """Take an object that refers to nothing but strings and numbers away from the cycle collector."""


def expose_fields(cls: type, names: tuple[str, ...]) -> None:
    """Make the first fields of a compiled class, all objects, readable under these names, as `__slots__` are.

    The interpreter reads such a field by itself, where it would have to call a property.
    """
