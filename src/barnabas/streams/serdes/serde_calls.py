# cython: language_level=3, annotation_typing=False
"""Calls of a serde by compiled code: bytes, texts and longs are read and written without the interpreter.

What does not fit goes to the serde itself, whose errors are the same. C types are in `serde_calls.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.streams.serdes.primitives import BytesSerde, LongSerde, StringSerde
from barnabas.streams.serdes.serde import Serde

if not cython.compiled:
    from barnabas.records.native import int64_from_bytes, int64_to_bytes
    from barnabas.streams.serdes.key_bytes import text_bytes

if TYPE_CHECKING:
    from barnabas.streams.serdes.serde import Headers

T = TypeVar("T")


@cython.cclass
class CompiledSerde:
    """The part of an `EngineSerde` that is called without the interpreter."""

    def serialize(self, topic: str, value: Any, headers: Headers) -> bytes | None:
        """Return the bytes of a value."""
        raise NotImplementedError

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        """Return the value that bytes stand for."""
        raise NotImplementedError


class EngineSerde(Serde[T]):
    """A serde of the engine's own. What it has as attributes tells Spark's checkpoints one serde from another."""

    def __init__(self) -> None:
        pass

    def compiled(self) -> CompiledSerde:
        """Return what writes and reads."""
        raise NotImplementedError

    def serialize(self, topic: str, value: T | None, headers: Headers) -> bytes | None:
        """Return the bytes of a value."""
        return self.compiled().serialize(topic, value, headers)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> T | None:
        """Return the value that bytes stand for."""
        value: T | None = self.compiled().deserialize(topic, data, headers)
        return value


@cython.final
@cython.cclass
class SerdeCalls:
    """`serialize` and `deserialize` of a serde, which may lack one of the two."""

    def __init__(self, serde: Any) -> None:
        self._serialize: Any = getattr(serde, "serialize", None)
        self._deserialize: Any = getattr(serde, "deserialize", None)
        self._compiled = serde.compiled() if isinstance(serde, EngineSerde) else None
        self._is_bytes = type(serde) is BytesSerde
        self._is_text = type(serde) is StringSerde
        self._is_long = type(serde) is LongSerde

    def serialize(self, topic: str, value: Any, headers: Headers) -> bytes | None:
        """Return the bytes of a value. Raises what the serde raises."""
        if self._compiled is not None:
            return self._compiled.serialize(topic, value, headers)
        data = self.written(value)
        return self._serialize(topic, value, headers) if data is None else data

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        """Return the value that bytes stand for. Raises what the serde raises."""
        if self._compiled is not None:
            return self._compiled.deserialize(topic, data, headers)
        value = self.read(data)
        return self._deserialize(topic, data, headers) if value is None else value

    def written(self, value: Any) -> bytes | None:
        """Return the bytes of bytes, a text or a long, for which neither topic nor headers matter; else None."""
        if self._is_text and type(value) is str:
            return text_bytes(value)
        if self._is_bytes and type(value) is bytes:
            return value
        if self._is_long and type(value) is int:
            try:
                return int64_to_bytes(value)
            except OverflowError:
                return None  # the serde says so
        return None

    def read(self, data: bytes | None) -> Any:
        """Return the bytes, the text or the long that bytes stand for; None where the serde must be asked."""
        if type(data) is bytes:
            if self._is_text:
                return bytes_to_text(data)
            if self._is_bytes:
                return data
            if self._is_long and len(data) == 8:
                return int64_from_bytes(data)
        return None


def bytes_to_text(data: bytes) -> str:
    """Return the text that bytes in UTF-8 are, as `StringSerde` reads it."""
    return data.decode("utf-8", "replace")
