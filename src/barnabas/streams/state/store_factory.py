"""From the description of a store in a topology to a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from barnabas.streams.serdes.join_side import LeftOrRightValueSerde, TimestampedKeyAndJoinSideSerde
from barnabas.streams.state.in_memory_window import InMemoryWindows
from barnabas.streams.state.join_list import JoinListStore
from barnabas.streams.state.key_value import KeyValueStore, LRUStore, TimestampedKeyValueStore
from barnabas.streams.state.memory import Backend, MemoryBackend
from barnabas.streams.state.segmented_caching import IN_MEMORY_INTERVAL_MS
from barnabas.streams.state.session import SessionBytes, SessionStore
from barnabas.streams.state.session_bytes import InMemorySessions, SessionSegments, TimeOrderedSessionSegments
from barnabas.streams.state.store import StateStore
from barnabas.streams.state.time_ordered_buffer import TimeOrderedChangeBuffer, TimeOrderedKeyValueBuffer
from barnabas.streams.state.versioned import VersionedKeyValueStore
from barnabas.streams.state.window import JoinWindowStore, TimestampedWindowStore, WindowBytes, WindowStore
from barnabas.streams.state.window_bytes import TimeOrderedWindowSegments, WindowSegments
from barnabas.streams.topology.stores import StoreBuilder, StoreKind, segment_interval_ms


def with_settings(builder: StoreBuilder, *, in_memory: bool, with_headers: bool) -> StoreBuilder:
    """Return the builder with what it leaves to the settings: `dsl.store.suppliers.class` and `dsl.store.format`."""
    if in_memory and builder.persistent is None:
        builder = replace(builder, persistent=False)
    if with_headers and builder.headers is None and builder.persistent is not False:
        builder = replace(builder, headers=True)
    return builder


def make_store(builder: StoreBuilder, backend: Backend) -> StateStore:
    """Return the store that a builder describes, its bytes in `backend` unless it is to be in memory."""
    if builder.persistent is False:
        backend = MemoryBackend()
    return _MAKERS[builder.kind](builder, backend)


def cache_interval_ms(builder: StoreBuilder) -> int:
    """Return the interval by which a store's cache sorts its keys: that of its segments."""
    if builder.persistent is False:
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
        with_headers=bool(builder.headers),
    )


def _versioned(builder: StoreBuilder, backend: Backend) -> StateStore:
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
    if builder.persistent is False:
        return InMemoryWindows(retention, retain_duplicates=builder.retain_duplicates)
    interval = builder.segment_interval_ms or segment_interval_ms(retention)
    if builder.time_ordered:
        return TimeOrderedWindowSegments(builder.name, retention, interval, backend, indexed=builder.indexed)
    return WindowSegments(builder.name, retention, interval, backend)


def _window(kind: type[WindowStore]) -> Callable[[StoreBuilder, Backend], StateStore]:
    def make(builder: StoreBuilder, backend: Backend) -> StateStore:
        # Users' stores have no headers; what joins of streams keep leaves the format to the settings.
        chosen = JoinWindowStore if kind is WindowStore and builder.headers is not False else kind
        return chosen(
            builder.name,
            builder.key_serde,
            builder.value_serde,
            _windows(builder, backend),
            builder.window_size_ms or 0,
            retain_duplicates=builder.retain_duplicates,
            logged=builder.logging,
            persistent=backend.persistent,
            **({"with_headers": bool(builder.headers)} if kind is TimestampedWindowStore else {}),
        )

    return make


def _session(builder: StoreBuilder, backend: Backend) -> StateStore:
    retention = builder.retention_ms or 0
    interval = builder.segment_interval_ms or segment_interval_ms(retention)
    sessions: SessionBytes
    if builder.persistent is False:
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
        logs_tombstone_headers=bool(builder.headers),
    )


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
    StoreKind.JOIN_LIST: _join_list,
    StoreKind.TIME_ORDERED_KEY_VALUE_BUFFER: _key_value_buffer,
    StoreKind.TIME_ORDERED_CHANGE_BUFFER: _change_buffer,
}
