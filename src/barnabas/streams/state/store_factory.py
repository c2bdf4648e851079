"""From the description of a store in a topology to a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.join_side import LeftOrRightValueSerde, TimestampedKeyAndJoinSideSerde
from barnabas.streams.state.in_memory_session import InMemorySessions
from barnabas.streams.state.in_memory_window import InMemoryWindows
from barnabas.streams.state.join_list import JoinListStore
from barnabas.streams.state.key_value import KeyValueStore, LRUStore, TimestampedKeyValueStore
from barnabas.streams.state.memory import Backend, BytesMap, MemoryBackend, OrderedBytes, Taken
from barnabas.streams.state.segmented_caching import IN_MEMORY_INTERVAL_MS
from barnabas.streams.state.session import SessionBytes, SessionStore
from barnabas.streams.state.session_bytes import SessionSegments, TimeOrderedSessionSegments
from barnabas.streams.state.store import StateStore
from barnabas.streams.state.time_ordered_buffer import TimeOrderedChangeBuffer, TimeOrderedKeyValueBuffer
from barnabas.streams.state.value_format import HeadersFormat, TimestampedFormat
from barnabas.streams.state.versioned import VersionedKeyValueStore
from barnabas.streams.state.window import JoinWindowStore, TimestampedWindowStore, WindowBytes, WindowStore
from barnabas.streams.state.window_bytes import TimeOrderedWindowSegments, WindowSegments
from barnabas.streams.topology.stores import StoreBuilder, StoreKind, segment_interval_ms


def make_store(builder: StoreBuilder, backend: Backend) -> StateStore:
    """Return the store that a builder describes, its bytes in `backend` unless it is to be in memory, or the user's."""
    if builder.get is not None and builder.kind is not StoreKind.OWN:
        backend = _SuppliedBackend(builder.get)
    elif not builder.persistent:
        backend = MemoryBackend()
    return _MAKERS[builder.kind](builder, backend)


class _SuppliedMap(OrderedBytes):
    """A map of the user's."""

    def __init__(self, made: BytesMap) -> None:
        self._made = made

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""
        return self._made.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        self._made.put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        return self._made.delete(key)

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return entries from `first` to `last`."""
        return self._made.range(first, last, reverse, open_end)

    def __len__(self) -> int:
        return len(self._made)


class _SuppliedBackend:
    """A store of the user's: restored from its changelog whenever a task starts, as those in memory."""

    persistent = False

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def open(self, name: str) -> OrderedBytes:
        """Return what the user made for the store."""
        return _SuppliedMap(_checked(self.make(), BytesMap, name))

    def drop(self, name: str) -> None:
        """Do nothing: the user's store is one map."""

    def names(self, prefix: str) -> list[str]:
        """Return none, as above."""
        return []

    def gathering(self, taken: Taken) -> None:
        """Return nothing: in which order the user's store likes its keys is not known."""


def _checked(made: Any, kind: type, store: str) -> Any:
    """Return what a supplier made. Raises `StreamsError` unless it has the methods of `kind`."""
    wanted = {name for name in vars(kind) if not name.startswith("_")} | set(kind.__annotations__)
    missing = sorted(name for name in wanted if not hasattr(made, name))
    if missing:
        raise StreamsError(
            f"The supplier of store {store} made {made!r}, which is no {kind.__name__}: it has no {', '.join(missing)}"
        )
    return made


def cache_interval_ms(builder: StoreBuilder) -> int:
    """Return the interval by which a store's cache sorts its keys: that of its segments."""
    if not builder.persistent:
        return IN_MEMORY_INTERVAL_MS
    return builder.segment_interval_ms or segment_interval_ms(builder.retention_ms or 0)


def _key_value(builder: StoreBuilder, backend: Backend) -> StateStore:
    serdes = builder.key_serde, builder.value_serde
    if builder.max_entries is not None:
        return LRUStore(builder.name, *serdes, backend, builder.max_entries, logged=builder.logging)
    return KeyValueStore(builder.name, *serdes, backend, logged=builder.logging)


def _timestamped(builder: StoreBuilder, backend: Backend) -> StateStore:
    return TimestampedKeyValueStore(
        builder.name,
        builder.key_serde,
        builder.value_serde,
        backend,
        logged=builder.logging,
        value_format=HeadersFormat() if builder.headers else TimestampedFormat(logs_headers=builder.logs_headers),
    )


def _versioned(builder: StoreBuilder, backend: Backend) -> StateStore:
    if builder.get is not None:
        raise StreamsError(f"Store {builder.name} is versioned; a supplier of your own cannot keep versions")
    return VersionedKeyValueStore(
        builder.name,
        builder.key_serde,
        builder.value_serde,
        builder.history_retention_ms or 0,
        builder.segment_interval_ms,
        backend,
        logged=builder.logging,
    )


def _windows(builder: StoreBuilder, backend: Backend) -> WindowBytes:
    retention = builder.retention_ms or 0
    if builder.get is not None:
        made: WindowBytes = _checked(builder.get(), WindowBytes, builder.name)
        return made
    if not builder.persistent:
        return InMemoryWindows(retention, retain_duplicates=builder.retain_duplicates)
    interval = builder.segment_interval_ms or segment_interval_ms(retention)
    if builder.time_ordered:
        return TimeOrderedWindowSegments(builder.name, retention, interval, backend, indexed=builder.indexed)
    return WindowSegments(builder.name, retention, interval, backend)


def _window(kind: type[WindowStore]) -> Callable[[StoreBuilder, Backend], StateStore]:
    def make(builder: StoreBuilder, backend: Backend) -> StateStore:
        chosen = JoinWindowStore if kind is WindowStore and builder.logs_headers else kind
        return chosen(
            builder.name,
            builder.key_serde,
            builder.value_serde,
            _windows(builder, backend),
            builder.window_size_ms or 0,
            retain_duplicates=builder.retain_duplicates,
            logged=builder.logging,
            persistent=backend.persistent,
            **({"with_headers": builder.headers} if kind is TimestampedWindowStore else {}),
        )

    return make


def _session(builder: StoreBuilder, backend: Backend) -> StateStore:
    retention = builder.retention_ms or 0
    interval = builder.segment_interval_ms or segment_interval_ms(retention)
    sessions: SessionBytes
    if builder.get is not None:
        sessions = _checked(builder.get(), SessionBytes, builder.name)
    elif not builder.persistent:
        sessions = InMemorySessions(retention)
    elif builder.time_ordered:
        sessions = TimeOrderedSessionSegments(builder.name, retention, interval, backend)
    else:
        sessions = SessionSegments(builder.name, retention, interval, backend)
    return SessionStore(
        builder.name,
        builder.key_serde,
        builder.value_serde,
        sessions,
        logged=builder.logging,
        persistent=backend.persistent,
        with_headers=builder.headers,
    )


def _own(builder: StoreBuilder, backend: Backend) -> StateStore:
    made = None if builder.get is None else builder.get()
    if not isinstance(made, StateStore) or made.name != builder.name:
        raise StreamsError(f"The builder of store {builder.name} must make a StateStore of that name, not {made!r}")
    made.logged = builder.logging
    return made


def _join_list(builder: StoreBuilder, backend: Backend) -> StateStore:
    return JoinListStore(
        builder.name,
        TimestampedKeyAndJoinSideSerde(builder.key_serde),
        LeftOrRightValueSerde(builder.value_serde, builder.other_value_serde),
        backend,
        logged=builder.logging,
    )


def _key_value_buffer(builder: StoreBuilder, backend: Backend) -> StateStore:
    return TimeOrderedKeyValueBuffer(
        builder.name,
        builder.key_serde,
        builder.value_serde,
        builder.grace_ms or 0,
        backend,
        logged=builder.logging,
    )


def _change_buffer(builder: StoreBuilder, backend: Backend) -> StateStore:
    return TimeOrderedChangeBuffer(
        builder.name, builder.key_serde, builder.value_serde, backend, logged=builder.logging
    )


_MAKERS: dict[Any, Callable[[StoreBuilder, Backend], StateStore]] = {
    StoreKind.KEY_VALUE: _key_value,
    StoreKind.TIMESTAMPED_KEY_VALUE: _timestamped,
    StoreKind.VERSIONED_KEY_VALUE: _versioned,
    StoreKind.WINDOW: _window(WindowStore),
    StoreKind.TIMESTAMPED_WINDOW: _window(TimestampedWindowStore),
    StoreKind.SESSION: _session,
    StoreKind.OWN: _own,
    StoreKind.JOIN_LIST: _join_list,
    StoreKind.TIME_ORDERED_KEY_VALUE_BUFFER: _key_value_buffer,
    StoreKind.TIME_ORDERED_CHANGE_BUFFER: _change_buffer,
}
