"""Serdes: a serializer and a deserializer in one object."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from barnabas.client.serializers import apply_serializer, resolve_serializer

T = TypeVar("T")

Headers = list[tuple[str, bytes | None]]


class Serde(Generic[T]):
    """A serializer and a deserializer; each may be all that `barnabas.serializers` takes.

    Raises `ConfigError` for what is neither.
    """

    #: Whether values are immutable, so that a store may keep the value beside its bytes.
    immutable = False

    def __init__(self, serializer: Any, deserializer: Any) -> None:
        self._serializer = resolve_serializer(serializer, "serializer")
        self._deserializer = resolve_serializer(deserializer, "deserializer")

    def serialize(self, topic: str, value: T | None, headers: Headers) -> bytes | None:
        """Return the bytes of a value. Raises `SerializationError` where the serializer cannot write it."""
        if self._serializer is None:
            return as_bytes(value)
        return apply_serializer(self._serializer, topic, value, headers, "stream's")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> T | None:
        """Return the value that bytes stand for. Raises what the deserializer raises."""
        if data is None:
            return None
        if self._deserializer is None:
            return data  # type: ignore[return-value]  # bytes as they are
        with_topic = getattr(self._deserializer, "deserialize", None)
        value: T = self._deserializer(data) if with_topic is None else with_topic(topic, data, headers)
        return value

    def __repr__(self) -> str:
        return type(self).__name__


def as_bytes(value: Any) -> bytes | None:
    """Return bytes of what is like bytes, None for None. Raises TypeError for anything else."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a serde of bytes cannot write {type(value).__name__}: {value!r}")


def set_if_unset(serde: Any, key_serde: Any, value_serde: Any) -> Any:
    """Give a wrapping serde the default ones for what it was built without, and return it."""
    wrapping = getattr(serde, "set_if_unset", None)
    if wrapping is not None:
        wrapping(key_serde, value_serde)
    return serde
