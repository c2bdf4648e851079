"""Stores and caches that count and time what processors do with them. Source: Kafka's Metered... stores, NamedCache.

Processors are given these at level DEBUG only; the task's own stores are the plain ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from barnabas.streams.engine.measuring import AGES, TIMES, Measuring
from barnabas.streams.state.record_cache import CacheEntry, DirtyEntry, NamedCache, RecordCache
from barnabas.streams.state.store import StateStore, StoreIterator
from barnabas.streams.topology.sensors import RecordingLevel, Sensor, Stat
from barnabas.streams.topology.stores import StoreBuilder, StoreKind

#: The calls of each kind of store, and the sensor that Kafka has for them.
_KEY_VALUE = {
    "get": "get", "get_with_timestamp": "get", "put": "put", "put_with_timestamp": "put",
    "put_if_absent": "put-if-absent", "put_all": "put-all", "delete": "delete", "range": "range",
    "reverse_range": "range", "all": "all", "reverse_all": "all", "prefix_scan": "prefix-scan",
}  # fmt: skip
_WINDOW = {
    "put": "put", "put_with_timestamp": "put", "get": "fetch", "of_key": "fetch", "fetch": "fetch",
    "backward_fetch": "fetch", "fetch_all": "fetch", "backward_fetch_all": "fetch", "all": "fetch",
    "backward_all": "fetch",
}  # fmt: skip
_SESSION = {
    "put": "put", "remove": "remove", "fetch_session": "fetch", "near": "fetch", "find_sessions": "fetch",
    "backward_find_sessions": "fetch", "fetch": "fetch", "backward_fetch": "fetch",
}  # fmt: skip
_CALLS = {
    StoreKind.KEY_VALUE: _KEY_VALUE,
    StoreKind.TIMESTAMPED_KEY_VALUE: _KEY_VALUE,
    StoreKind.VERSIONED_KEY_VALUE: _KEY_VALUE,
    StoreKind.JOIN_LIST: _KEY_VALUE,
    StoreKind.WINDOW: _WINDOW,
    StoreKind.TIMESTAMPED_WINDOW: _WINDOW,
    StoreKind.SESSION: _SESSION,
}

#: Calls that return a list here, and in Kafka an iterator that is read to its end.
_LISTS = frozenset({"of_key", "near"})
#: Sensors after which the age of the record is told at level TRACE.
_UPDATES = frozenset({"put", "put-if-absent"})
_BUFFER_CALLS = ("put", "evict_while", "evict_until")

_SUFFIX = {StoreKind.WINDOW: "-window", StoreKind.TIMESTAMPED_WINDOW: "-window", StoreKind.SESSION: "-session"}


def metrics_scope(kind: StoreKind, *, persistent: bool, lru: bool = False) -> str:
    """Return what the tag of a store begins with, before `-state-id`: Kafka's, with lmdb in the place of rocksdb."""
    if kind is StoreKind.TIME_ORDERED_CHANGE_BUFFER:
        return "in-memory-suppression"
    if lru:
        return "in-memory-lru"
    return ("lmdb" if persistent else "in-memory") + _SUFFIX.get(kind, "")


def scope_of(builder: StoreBuilder) -> str:
    """Return the scope of a store as its topology describes it."""
    return metrics_scope(builder.kind, persistent=bool(builder.persistent), lru=builder.max_entries is not None)


class _MeasuredIterator(StoreIterator[Any, Any]):
    """Tells once when it was read to its end or closed."""

    __slots__ = ("_ended", "_inner")

    def __init__(self, inner: StoreIterator[Any, Any], ended: Callable[[], None]) -> None:
        super().__init__(inner)
        self._inner = inner
        self._ended: Callable[[], None] | None = ended

    def has_next(self) -> bool:
        """See `StoreIterator`."""
        more = super().has_next()
        if not more:
            self._end()
        return more

    def close(self) -> None:
        """See `StoreIterator`."""
        super().close()
        self._inner.close()
        self._end()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()


class MeasuredStore:
    """A store as processors are given it: what they call is counted and timed, the rest is the store's own."""

    def __init__(self, store: StateStore, builder: StoreBuilder, measuring: Measuring) -> None:
        self._store = store
        self._measuring = measuring
        self._subject = measuring.of_store(store.name, scope_of(builder))
        #: When each iterator was made that is open, in milliseconds of the wall clock.
        self._open: list[int] = []
        calls = _CALLS.get(builder.kind, {})
        sensors = {sensor: self._timed(sensor) for sensor in dict.fromkeys(calls.values())}
        #: Commits of the store, and restorations; None for kinds that have no such sensors.
        self.committed: Sensor | None = None
        self.restored: Sensor | None = None
        if calls:
            self.committed, self.restored = self._timed("commit"), self._timed("restore")
            self._timed("flush")  # Kafka's, too, is only there for who looks for it
            self._durations = self._sensor("iterator-duration", TIMES)
            self._open_iterators = self._sensor("num-open-iterators", (Stat.VALUE,))
            self._open_iterators.record(0)
            self._oldest = self._sensor("oldest-iterator-open-since-ms", (Stat.VALUE,))
            self._oldest.record(math.nan)
            self._ages = self._sensor("record-e2e-latency", AGES, RecordingLevel.TRACE)
        for method, sensor in calls.items():
            if hasattr(store, method):
                setattr(self, method, self._call(method, sensors[sensor], sensor in _UPDATES))
        if builder.kind is StoreKind.TIME_ORDERED_CHANGE_BUFFER:
            self._measure_buffer()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _sensor(self, name: str, stats: tuple[Stat, ...], level: RecordingLevel = RecordingLevel.DEBUG) -> Sensor:
        return self._measuring.sensor(self._subject, name, {name: stats}, level)

    def _timed(self, name: str) -> Sensor:
        metrics = {name: (Stat.INVOCATION_RATE,), f"{name}-latency": TIMES}
        return self._measuring.sensor(self._subject, name, metrics)

    def _call(self, method: str, sensor: Sensor, is_update: bool) -> Callable[..., Any]:
        call, clock, is_list = getattr(self._store, method), self._measuring.clock, method in _LISTS

        def measured(*args: Any, **named: Any) -> Any:
            began = clock()
            found = call(*args, **named)
            if isinstance(found, StoreIterator):
                return self._iterator(found, sensor, began)
            took = clock() - began
            sensor.record(took)
            if is_list:
                self._durations.record(took)
            if is_update:
                self._record_age()
            return found

        return measured

    def _iterator(self, found: StoreIterator[Any, Any], sensor: Sensor, began: int) -> StoreIterator[Any, Any]:
        made_ms = self._measuring.now_ms()

        def ended() -> None:
            took = self._measuring.clock() - began
            sensor.record(took)
            self._durations.record(took)
            self._open.remove(made_ms)
            self._tell_open()

        self._open.append(made_ms)
        self._tell_open()
        return _MeasuredIterator(found, ended)

    def _tell_open(self) -> None:
        self._open_iterators.record(len(self._open))
        self._oldest.record(min(self._open, default=math.nan))

    def _record_age(self) -> None:
        context = self._store.context.record_context
        if self._ages.records and context is not None:
            self._ages.record(self._measuring.now_ms() - context.timestamp)

    def _measure_buffer(self) -> None:
        store: Any = self._store
        count, size = (self._sensor(f"suppression-buffer-{what}", TIMES) for what in ("count", "size"))
        count.record(0)
        size.record(0)

        def measured(call: Callable[..., Any]) -> Callable[..., Any]:
            def recorded(*args: Any) -> Any:
                before = store.num_records, store.buffer_size
                result = call(*args)
                if call is put or (store.num_records, store.buffer_size) != before:
                    count.record(store.num_records)
                    size.record(store.buffer_size)
                return result

            return recorded

        put = store.put
        for method in _BUFFER_CALLS:
            setattr(self, method, measured(put if method == "put" else getattr(store, method)))


def measured_of(store: StateStore, builder: StoreBuilder, measuring: Measuring) -> MeasuredStore | None:
    """Return a store for processors that measures; None for kinds of which Kafka measures nothing, a user's own too."""
    has_sensors = builder.kind in _CALLS or builder.kind is StoreKind.TIME_ORDERED_CHANGE_BUFFER
    return MeasuredStore(store, builder, measuring) if has_sensors else None


class MeasuredRecordCache(RecordCache):
    """A task's cache whose parts tell how often they had what was looked up."""

    def __init__(self, max_bytes: int, measuring: Measuring) -> None:
        super().__init__(max_bytes)
        self._measuring = measuring
        self._bytes: Sensor | None = None

    def named(self, store: str, flushed: Callable[[list[DirtyEntry]], None], prefix: int = 0) -> NamedCache:
        """Return the part of a store."""
        measuring, size = self._measuring, "cache-size-bytes-total"
        sensor = measuring.sensor(measuring.of_cache(store), "hit-ratio", {"hit-ratio": AGES})
        if self._bytes is None:
            self._bytes = measuring.sensor(measuring.of_task(), size, {size: (Stat.VALUE,)}, RecordingLevel.INFO)
        return _MeasuredNamedCache(self, flushed, prefix, sensor)

    def tell_size(self) -> None:
        """Record how many bytes are held back now."""
        if self._bytes is not None:
            self._bytes.record(self.size)


class _MeasuredNamedCache(NamedCache):
    def __init__(
        self, shared: RecordCache, flushed: Callable[[list[DirtyEntry]], None], prefix: int, ratio: Sensor
    ) -> None:
        super().__init__(shared, flushed, prefix)
        self._ratio = ratio
        self._hits = self._misses = 0

    def get(self, key: bytes) -> CacheEntry | None:
        """See `NamedCache`; each hit tells the share of hits until then."""
        found = super().get(key)
        if found is None:
            self._misses += 1
        else:
            self._hit()
        return found

    def _hit(self) -> None:
        self._hits += 1
        self._ratio.record(self._hits / (self._hits + self._misses))

    def _flush(self, found: list[DirtyEntry]) -> None:
        for _ in self._dirty:
            self._hit()  # Kafka looks each up in the cache
        super()._flush(found)
