# cython: language_level=3, annotation_typing=False
"""What all state stores have in common: name, context, serdes, changelog. C types are in `store.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.streams.errors import InvalidStateStoreError, StreamsError
from barnabas.streams.serdes.serde import set_if_unset

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import named_pair
    from barnabas.streams.serdes.record_context import ContextHolder
    from barnabas.streams.serdes.serde_calls import SerdeCalls
    from barnabas.streams.state.changelog_record import changelog_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.record_context import RecordContext
    from barnabas.streams.serdes.serde import Headers
    from barnabas.streams.state.changelog_record import ChangelogRecord

K = TypeVar("K")
V = TypeVar("V")

#: No version or window is kept for the record: it came too late.
NOT_PUT = -(2**63)
#: The version that was put is the latest.
VALID_TO_UNDEFINED = -1


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and the timestamp, in milliseconds, of the record that it came with."""

    value: V
    timestamp: int


def value_and_timestamp(value: Any, timestamp: int) -> ValueAndTimestamp[Any]:
    """Return the pair; its own constructor costs an interpreter's call."""
    return named_pair(ValueAndTimestamp, value, timestamp)  # type: ignore[no-any-return]


class ValueTimestampHeaders(NamedTuple, Generic[V]):
    """A value, the timestamp in milliseconds of the record that it came with, and headers (KIP-1271)."""

    value: V
    timestamp: int
    headers: Headers


class AggregationWithHeaders(NamedTuple, Generic[V]):
    """The aggregation of a session, and headers (KIP-1271)."""

    aggregation: V
    headers: Headers


class VersionedRecord(NamedTuple, Generic[V]):
    """A value that was valid from `timestamp` on, until `valid_to` if that is known."""

    value: V
    timestamp: int
    valid_to: int | None = None


class StoreContext(Protocol):
    """What stores take from the engine."""

    key_serde: Any
    value_serde: Any
    record_context: RecordContext | None

    def changelog_topic(self, store: str) -> str:
        """Return the name of the topic that serdes are told."""

    def record_dropped(self) -> None:
        """Count a record that came too late."""


@cython.cclass
class StateStore:
    """A store of one task.

    `logged` stores keep what changed until `changes()` takes it. A store of your own (`StoreBuilder.of`) calls `log` at
    each change, and takes the records back in `restore` when its task starts anew.
    """

    def __init__(self, name: str, *, logged: bool = True) -> None:
        self.name = name
        #: Whether its entries survive the process.
        self.persistent = False
        self.logged = logged
        #: Whether the last change of a key makes those before it superfluous.
        self.last_change_counts = False
        self.is_open = False
        self.context: Any = None
        self._holder: ContextHolder | None = None
        self.topic = name
        self._changes: list[Any] = []

    def init(self, context: StoreContext) -> None:
        """Open the store for a task."""
        self.context = context
        #: The context once more, if it is a task's own.
        self._holder = context if isinstance(context, ContextHolder) else None
        self.topic = context.changelog_topic(self.name)
        self.is_open = True

    def log(self, key: bytes, value: bytes | None) -> None:
        """Note a change for the changelog, with the time of the record that is being processed; None: a deletion."""
        if self.logged:
            self._changes.append(changelog_record(key, value, self._timestamp(), None))

    def changes(self) -> list[ChangelogRecord]:
        """Return what was changed since the last call, as records of the changelog."""
        changes = self._changes
        if changes:
            self._changes = []
        return changes

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog, in order. None of them is logged again."""
        raise NotImplementedError

    def times(self) -> dict[str, int]:
        """Return what the store keeps beside its entries: the time that it has seen, numbers of its own."""
        return {}

    def restore_times(self, times: dict[str, int]) -> None:
        """Take what `times` returned, after the entries were restored."""

    def enable_cache(self, shared: Any, segment_interval_ms: int) -> None:
        """Hold updates back until a commit; a store of a kind that has no cache does not."""

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Let `listener` take the records of changes when a cache lets them go; False when there is no cache."""
        return False

    def flush(self) -> None:
        """Send on what a cache holds back, and log what is logged late. Called at each commit."""

    def close(self) -> None:
        """Close the store; its entries stay where the backend keeps them."""
        self.is_open = False

    def _timestamp(self) -> Any:
        context = self.context.record_context if self._holder is None else self._holder.record_context
        return context.timestamp  # type: ignore[union-attr]  # changes are made while a record is processed

    def _headers(self) -> Any:
        context = self.context.record_context if self._holder is None else self._holder.record_context
        return [] if context is None else context._own_headers()

    def _header_list(self) -> Headers | None:
        """Return the headers of the record that is being processed, None for none: what is kept of them."""
        context = self.context.record_context if self._holder is None else self._holder.record_context
        return None if context is None else context.header_list


@cython.cclass
class SerdeStore(StateStore):
    """A store with a serde of keys and one of values."""

    def __init__(self, name: str, key_serde: Any, value_serde: Any, *, logged: bool = True) -> None:
        super().__init__(name, logged=logged)
        self.last_change_counts = True
        self.key_serde = key_serde
        self.value_serde = value_serde
        self._key_calls = SerdeCalls(None)
        self._value_calls = SerdeCalls(None)
        self._keeps_key = False
        self._last_key: Any = None
        self._last_data: Any = None

    def init(self, context: StoreContext) -> None:
        """Open the store; serdes that were not given are the application's."""
        super().init(context)
        keys, values = context.key_serde, context.value_serde
        self.key_serde = set_if_unset(keys if self.key_serde is None else self.key_serde, keys, values)
        self.value_serde = set_if_unset(values if self.value_serde is None else self.value_serde, keys, values)
        self._key_calls, self._value_calls = SerdeCalls(self.key_serde), SerdeCalls(self.value_serde)
        self._keeps_key = bool(getattr(self.key_serde, "immutable", False))

    def _key(self, key: Any) -> bytes:
        if key is None:
            raise TypeError("key cannot be null")
        if self._keeps_key and key is self._last_key:
            # A lookup and the update that follows it write the key once.
            return self._last_data  # type: ignore[no-any-return]
        data = self._key_calls.written(key)
        if data is None:
            try:
                data = self._key_calls.serialize(self.topic, key, self._headers())
            except TypeError as problem:
                raise self._incompatible(self.key_serde, "key", key) from problem
        self._last_key = key
        self._last_data = data
        return data  # type: ignore[return-value]  # keys are not None

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self._key(key)

    def _value(self, value: Any, headers: Headers | None = None) -> bytes | None:
        if value is None:
            return None
        data = self._value_calls.written(value)
        if data is not None:
            return data
        try:
            given = self._headers() if headers is None else headers
            data = self._value_calls.serialize(self.topic, value, given)
        except TypeError as problem:
            raise self._incompatible(self.value_serde, "value", value) from problem
        return data

    def _read_key(self, data: bytes) -> Any:
        key = self._key_calls.read(data)
        return self._key_calls.deserialize(self.topic, data, self._headers()) if key is None else key

    def _read_value(self, data: bytes | None) -> Any:
        if data is None:
            return None
        value = self._value_calls.read(data)
        return self._value_calls.deserialize(self.topic, data, self._headers()) if value is None else value

    def _incompatible(self, serde: Any, what: str, thing: Any) -> StreamsError:
        return StreamsError(
            f"A serializer ({serde!r}) is not compatible to the actual {what} type ({what} type: "
            f"{type(thing).__name__}) of store {self.name}. Change the default Serdes in StreamConfig or provide "
            f"correct Serdes via method parameters."
        )


class StoreIterator(Generic[K, V]):
    """Entries of a store, one after the other; close it, or use it in a `with`, when it is not read to its end."""

    __slots__ = ("_entries", "_next")

    def __init__(self, entries: Iterator[tuple[K, V]]) -> None:
        self._entries: Iterator[tuple[K, V]] | None = entries
        self._next: tuple[K, V] | None = None

    def __iter__(self) -> StoreIterator[K, V]:
        return self

    def __next__(self) -> tuple[K, V]:
        if not self.has_next():
            raise StopIteration
        found, self._next = self._next, None
        return found  # type: ignore[return-value]

    def has_next(self) -> bool:
        """Tell whether there is another entry. Raises `InvalidStateStoreError` after `close()`."""
        if self._next is None:
            if self._entries is None:
                raise InvalidStateStoreError("The iterator of the store has already been closed.")
            self._next = next(self._entries, None)
        return self._next is not None

    def peek_next_key(self) -> K:
        """Return the key of the next entry. Raises StopIteration when there is none."""
        if not self.has_next():
            raise StopIteration
        return self._next[0]  # type: ignore[index]

    def close(self) -> None:
        """Give the iterator back."""
        self._entries = None
        self._next = None

    def __enter__(self) -> StoreIterator[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
