# cython: language_level=3, annotation_typing=False
"""The messages of foreign-key joins (KIP-213, KIP-1104), and the key under which subscriptions are stored.

C types are in `foreign_key.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple, Protocol

from barnabas.errors import UnsupportedVersionError
from barnabas.streams.serdes.serde import Headers, Serde, set_if_unset
from barnabas.streams.serdes.serde_calls import EngineSerde

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import (
        byte,
        bytes_between,
        field,
        int_at,
        int_bytes,
        joined,
        long_at,
        named_pair,
        named_tuple,
        with_numbers,
    )
    from barnabas.streams.serdes.serde_calls import CompiledSerde, SerdeCalls

#: Names the topic that a serde is told, or gives it when it is asked: generated names are known late.
TopicName = str | Callable[[], str]

Hash = tuple[int, int]

_HASH = Struct(">qq")
_INT = Struct(">i")
_NO_HASH = 0x80


class HasKeySerde(Protocol):
    """What knows a serde for keys where none is given."""

    @property
    def key_serde(self) -> Any:
        """The default one."""


class Instruction(IntEnum):
    """What the foreign table's side does with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


_INSTRUCTIONS = tuple(Instruction)


class SubscriptionWrapper(NamedTuple):
    """The primary table's side asks for the values of a foreign key; `hash` is that of its own value."""

    hash: Hash | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int | None
    version: int = 1


class SubscriptionResponseWrapper(NamedTuple):
    """The foreign table's side answers with its value."""

    original_value_hash: Hash | None
    foreign_value: Any
    primary_partition: int | None
    version: int = 0


class CombinedKey(NamedTuple):
    """A foreign key and the primary key that subscribed to it."""

    foreign_key: Any
    primary_key: Any


def _name(topic: TopicName) -> str:
    return topic() if callable(topic) else topic


def _checked(version: int, highest: int, what: str) -> int:
    if not 0 <= version <= highest:
        raise UnsupportedVersionError(f"{what} is of an incompatible version: {version}")
    return version


@cython.final
@cython.cclass
class TopicSerde:
    """A serde and the topic that it is told, whose name is found out only for a serde that may want it."""

    def __init__(self, serde: Any, topic: TopicName) -> None:
        self._calls = SerdeCalls(serde)
        self._topic = topic

    def serialize(self, value: Any, headers: Headers) -> Any:
        """Return the bytes of a value. Raises what the serde raises."""
        data = self._calls.written(value)
        return self._calls.serialize(_name(self._topic), value, headers) if data is None else data

    def deserialize(self, data: bytes, headers: Headers) -> Any:
        """Return the value that bytes stand for. Raises what the serde raises."""
        value = self._calls.read(data)
        return self._calls.deserialize(_name(self._topic), data, headers) if value is None else value


def _appended(head: bytes, key: Any, tail: bytes) -> bytes:
    """Return what stands before a key, the key and what stands behind; a serializer may return what only has bytes."""
    return joined(head, key, tail) if type(key) is bytes else head + key + tail


def _hash_at(data: bytes, at: int) -> Hash:
    """Return the hash at a position. Raises `struct.error` when bytes are missing."""
    if at + 16 > len(data):
        return _HASH.unpack_from(data, at)  # it says so
    return long_at(data, at), long_at(data, at + 8)


def _int_at(data: bytes, at: int) -> int:
    """Return the number in the four bytes at a position. Raises `struct.error` when bytes are missing."""
    if at < 0 or at + 4 > len(data):
        return _INT.unpack_from(data, at)[0]  # type: ignore[no-any-return]  # it says so
    return int_at(data, at)


@cython.cclass
class _Subscriptions(CompiledSerde):
    def __init__(self, keys: TopicSerde) -> None:
        self._keys = keys

    def serialize(self, topic: str, value: SubscriptionWrapper | None, headers: Headers) -> bytes | None:
        """Write a subscription."""
        if value is None:
            return None
        hashed, version = field(value, 0), field(value, 4)
        key: bytes = self._keys.serialize(field(value, 2), headers)
        head = byte(version | (_NO_HASH if hashed is None else 0)) + byte(field(value, 1))
        if hashed is not None:
            head = with_numbers(head, hashed[0], hashed[1], 8)
        return _appended(head, key, int_bytes(field(value, 3)) if version > 0 else b"")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> SubscriptionWrapper | None:
        """Read a subscription. Raises `UnsupportedVersionError` for a newer one."""
        if data is None:
            return None
        raw = data
        first = raw[0]
        version = _checked(first & 0x7F, 1, "SubscriptionWrapper")
        hash_, at = None, 2
        if not first & _NO_HASH:
            hash_, at = _hash_at(raw, 2), 18
        end = len(raw) - (4 if version else 0)
        key = self._keys.deserialize(bytes_between(raw, at, end), headers)
        partition = _int_at(raw, end) if version else None
        code = raw[1]
        instruction = _INSTRUCTIONS[code] if code < len(_INSTRUCTIONS) else Instruction(code)
        found: SubscriptionWrapper = named_tuple(SubscriptionWrapper, (hash_, instruction, key, partition, version))
        return found


@cython.cclass
class _Responses(CompiledSerde):
    def __init__(self, values: SerdeCalls) -> None:
        self._values = values

    def serialize(self, topic: str, value: SubscriptionResponseWrapper | None, headers: Headers) -> bytes | None:
        """Write a response."""
        if value is None:
            return None
        hash_, foreign = field(value, 0), field(value, 1)
        data: bytes | None = None if foreign is None else self._values.serialize(topic, foreign, headers)
        head = byte(field(value, 3) | (_NO_HASH if hash_ is None else 0))
        if hash_ is not None:
            head = with_numbers(head, hash_[0], hash_[1], 8)
        return _appended(head, data, b"") if data else head

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> SubscriptionResponseWrapper | None:
        """Read a response. Raises `UnsupportedVersionError` for a newer one."""
        if data is None:
            return None
        raw = data
        first = raw[0]
        version = _checked(first & 0x7F, 0, "SubscriptionResponseWrapper")
        hash_, at = None, 1
        if not first & _NO_HASH:
            hash_, at = _hash_at(raw, 1), 17
        rest = bytes_between(raw, at, len(raw))
        value = self._values.deserialize(topic, rest, headers) if rest else None
        found: SubscriptionResponseWrapper = named_tuple(SubscriptionResponseWrapper, (hash_, value, None, version))
        return found


class SubscriptionWrapperSerde(EngineSerde[SubscriptionWrapper]):
    """Version (highest bit: no hash), instruction, hash, primary key, and from version 1 on its partition."""

    def __init__(self, primary_key_topic: TopicName, primary_key_serde: Serde[Any] | None = None) -> None:
        self._topic = primary_key_topic
        self.inner: Any = primary_key_serde
        self._keys = TopicSerde(self.inner, self._topic)

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of keys where none was given."""
        self.inner = set_if_unset(key_serde if self.inner is None else self.inner, key_serde, value_serde)
        self._keys = TopicSerde(self.inner, self._topic)

    def compiled(self) -> CompiledSerde:
        """Return what writes and reads. Reading raises `UnsupportedVersionError` for a newer one."""
        return _Subscriptions(self._keys)


class SubscriptionResponseWrapperSerde(EngineSerde[SubscriptionResponseWrapper]):
    """Version (highest bit: no hash), hash, foreign value. The partition is not written."""

    def __init__(self, foreign_value_serde: Serde[Any] | None = None) -> None:
        self.inner: Any = foreign_value_serde
        self._values = SerdeCalls(self.inner)

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of values where none was given."""
        self.inner = set_if_unset(value_serde if self.inner is None else self.inner, key_serde, value_serde)
        self._values = SerdeCalls(self.inner)

    def compiled(self) -> CompiledSerde:
        """Return what writes and reads. Reading raises `UnsupportedVersionError` for a newer one."""
        return _Responses(self._values)


@cython.cclass
class CombinedKeySchema:
    """The key of a subscription in its store: length of the foreign key, foreign key, primary key."""

    def __init__(
        self,
        foreign_key_topic: TopicName,
        foreign_key_serde: Serde[Any] | None,
        primary_key_topic: TopicName,
        primary_key_serde: Serde[Any] | None,
    ) -> None:
        self._foreign_topic = foreign_key_topic
        self._primary_topic = primary_key_topic
        self._foreign: Any = foreign_key_serde
        self._primary: Any = primary_key_serde
        self._foreigns = TopicSerde(foreign_key_serde, foreign_key_topic)
        self._primaries = TopicSerde(primary_key_serde, primary_key_topic)

    def init(self, context: HasKeySerde) -> None:
        """Take the default serde of keys where none was given."""
        default = context.key_serde
        self._foreign = default if self._foreign is None else self._foreign
        self._primary = default if self._primary is None else self._primary
        self._foreigns = TopicSerde(self._foreign, self._foreign_topic)
        self._primaries = TopicSerde(self._primary, self._primary_topic)

    def prefix_bytes(self, foreign_key: Any, headers: Headers) -> bytes:
        """Return what the keys of all subscriptions to a foreign key begin with."""
        return self._key(foreign_key, b"", headers)

    def to_bytes(self, foreign_key: Any, primary_key: Any, headers: Headers) -> bytes:
        """Return the key of a subscription."""
        primary = self._primaries.serialize(primary_key, headers)
        return self._key(foreign_key, primary, headers)

    def _key(self, foreign_key: Any, primary: Any, headers: Headers) -> bytes:
        foreign = self._foreigns.serialize(foreign_key, headers)
        if type(foreign) is bytes and type(primary) is bytes:
            return joined(int_bytes(len(foreign)), foreign, primary)
        data: bytes = int_bytes(len(foreign)) + foreign + primary
        return data

    def from_bytes(self, data: bytes, headers: Headers) -> CombinedKey:
        """Return the keys that bytes stand for."""
        end = 4 + _INT.unpack_from(data)[0]
        foreign = self._foreigns.deserialize(data[4:end], headers)
        found: CombinedKey = named_pair(CombinedKey, foreign, self._primaries.deserialize(data[end:], headers))
        return found
