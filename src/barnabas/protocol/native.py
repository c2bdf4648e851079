"""What the codec does to memory, for running uncompiled. `native.pxd` has the same functions in C: change both."""

from __future__ import annotations

from operator import index
from struct import Struct, unpack_from
from typing import Any

_I16 = Struct(">h")
_U16 = Struct(">H")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I64 = Struct(">q")
_F64 = Struct(">d")


def slot_of(cls: type, name: str) -> Any:
    """Return the handle of a slot: its member descriptor here, its offset in C."""
    return getattr(cls, name)


def new_object(cls: type) -> Any:
    """Return a new instance; no slot is set."""
    return object.__new__(cls)


def set_slot(instance: object, slot: Any, value: object) -> None:
    """Set a slot of an instance of the class that the handle came from."""
    slot.__set__(instance, value)


def get_slot(instance: object, slot: Any) -> Any:
    """Read a slot of an instance of the class that the handle came from; `AttributeError` when it is not set."""
    return slot.__get__(instance)


def pause_collector() -> bool:
    """Let no garbage collection start, and tell whether one might have; only C code can promise to resume it."""
    return False


def resume_collector(was_on: bool) -> None:
    """Undo `pause_collector`."""


def pointer(view: Any) -> Any:
    """Return the start of a buffer."""
    return view


def load_i8(data: Any, at: int) -> int:
    """Return a signed byte."""
    value: int = data[at]
    return value - 256 if value > 127 else value


def load_u8(data: Any, at: int) -> int:
    """Return an unsigned byte."""
    value: int = data[at]
    return value


def load_u16(data: Any, at: int) -> int:
    """Return an unsigned big-endian integer of 2 bytes."""
    value: int = _U16.unpack_from(data, at)[0]
    return value


def load_i16(data: Any, at: int) -> int:
    """Return a signed big-endian integer of 2 bytes."""
    value: int = _I16.unpack_from(data, at)[0]
    return value


def load_u32(data: Any, at: int) -> int:
    """Return an unsigned big-endian integer of 4 bytes."""
    value: int = _U32.unpack_from(data, at)[0]
    return value


def load_i32(data: Any, at: int) -> int:
    """Return a signed big-endian integer of 4 bytes."""
    value: int = _I32.unpack_from(data, at)[0]
    return value


def load_i64(data: Any, at: int) -> int:
    """Return a signed big-endian integer of 8 bytes."""
    value: int = _I64.unpack_from(data, at)[0]
    return value


def load_int32s(data: Any, at: int, count: int) -> list[int]:
    """Signed big-endian integers of 4 bytes, one after the other."""
    return list(unpack_from(f">{count}i", data, at))


def load_f64(data: Any, at: int) -> float:
    """Return a big-endian IEEE 754 double."""
    value: float = _F64.unpack_from(data, at)[0]
    return value


def text(data: Any, at: int, size: int) -> str:
    """Return a string; `UnicodeDecodeError` when the bytes are not UTF-8."""
    return str(data[at : at + size], "utf-8")


def octets(data: Any, at: int, size: int) -> bytes:
    """Return a copy of some bytes."""
    return bytes(data[at : at + size])


def allocated(size: int) -> Any:
    """Fresh memory."""
    return bytearray(size)


def resized(memory: Any, size: int) -> Any:
    """Return the memory, made larger; what lay in it stays."""
    memory.extend(bytes(size - len(memory)))
    return memory


def released(memory: Any) -> None:
    """Give the memory back."""


def store_8(memory: Any, at: int, value: int) -> None:
    """Store the lowest byte of an integer."""
    memory[at] = value & 0xFF


def store_16(memory: Any, at: int, value: int) -> None:
    """Store the lowest 2 bytes of an integer, big-endian."""
    _U16.pack_into(memory, at, value & 0xFFFF)


def store_32(memory: Any, at: int, value: int) -> None:
    """Store the lowest 4 bytes of an integer, big-endian."""
    _U32.pack_into(memory, at, value & 0xFFFFFFFF)


def store_64(memory: Any, at: int, value: int) -> None:
    """Store an integer of 8 bytes, big-endian."""
    _I64.pack_into(memory, at, value)


def store_f64(memory: Any, at: int, value: float) -> None:
    """Store a double, big-endian."""
    _F64.pack_into(memory, at, value)


def store_octets(memory: Any, at: int, source: Any) -> None:
    """Store the bytes of a buffer, contiguous and of single bytes."""
    memory[at : at + len(source)] = source


def integer(value: Any) -> int:
    """Return an integer from anything that is one; `TypeError` for what is not, `OverflowError` beyond 64 bits."""
    number = index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("the integer does not fit into 64 bits")
    return number


def stored(memory: Any, size: int) -> bytes:
    """Return a copy of the first `size` bytes."""
    return bytes(memory[:size])
