"""What a grouped table sends through its repartition topic: the new value, the old one, or both (KIP-904)."""

from __future__ import annotations

from typing import Any

from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.change import Change
from barnabas.streams.serdes.reader import unzigzag, zigzag
from barnabas.streams.serdes.serde import Headers, Serde, set_if_unset

_OLD, _NEW, _BOTH = 0, 1, 2
_OLD_LATEST, _NEW_LATEST, _BOTH_LATEST = 3, 4, 5


class ChangedSerde(Serde[Change]):
    """Changes: values, a flag that says which. Reads also the form that newer versions may write, with isLatest."""

    def __init__(self, inner: Serde[Any] | None = None) -> None:
        self.inner: Any = inner

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of values where none was given."""
        self.inner = set_if_unset(value_serde if self.inner is None else self.inner, key_serde, value_serde)

    def serialize(self, topic: str, value: Change | None, headers: Headers) -> bytes | None:
        """Write a change. Raises `StreamsError` when both values are None."""
        if not isinstance(value, Change):
            raise TypeError(f"ChangedSerde cannot write {type(value).__name__}: {value!r}")
        new: bytes = self.inner.serialize(topic, value.new_value, headers)
        old: bytes = self.inner.serialize(topic, value.old_value, headers)
        if value.new_value is not None and value.old_value is not None:
            return b"".join((zigzag(len(new)), new, old, bytes((_BOTH,))))
        if value.new_value is not None:
            return new + bytes((_NEW,))
        if value.old_value is not None:
            return old + bytes((_OLD,))
        raise StreamsError("Both old and new values are null in ChangeSerializer, which is not allowed.")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Change | None:
        """Read a change. Raises `StreamsError` for an unknown flag."""
        if not data:
            raise StreamsError("A change in a repartition topic has no bytes; its last byte is the encoding flag")
        new, old, is_latest = self._parts(data)
        return Change(self._value(topic, new, headers), self._value(topic, old, headers), is_latest)

    def _value(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        return None if data is None else self.inner.deserialize(topic, data, headers)

    def _parts(self, data: bytes) -> tuple[bytes | None, bytes | None, bool]:
        flag = data[-1]
        is_latest = True
        end = len(data) - 1
        if flag in (_OLD_LATEST, _NEW_LATEST, _BOTH_LATEST):
            end -= 1
            if end < 0 or data[end] > 1:
                raise StreamsError("Encountered unexpected byte value for isLatestFlag in ChangedDeserializer.")
            is_latest = data[end] == 1
            flag -= _OLD_LATEST
        if flag == _OLD:
            return None, data[:end], is_latest
        if flag == _NEW:
            return data[:end], None, is_latest
        if flag == _BOTH:
            length, begin = unzigzag(data)
            if not begin <= begin + length <= end:
                raise StreamsError(f"A change of {len(data)} bytes cannot have a new value of {length}")
            return data[begin : begin + length], data[begin + length : end], is_latest
        raise StreamsError(f"Encountered unknown byte value `{flag}` for encodingFlag in ChangedDeserializer.")
