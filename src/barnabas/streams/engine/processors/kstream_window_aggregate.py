# cython: language_level=3, annotation_typing=False
"""Aggregations of a stream by key and window: tumbling, hopping, unlimited, and sliding windows' common part.

C types are in `kstream_window_aggregate.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.engine.processors.emit_on_close import (
    EMIT_INTERVAL_AGGREGATION,
    TimeTracker,
    emit_interval_ms,
)
from barnabas.streams.engine.processors.kstream_aggregate import Aggregation, Aggregator, Initializer
from barnabas.streams.engine.processors.operator import StoreValueGetter, StoreValueGetterSupplier, ValueGetterSupplier
from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.windowed import Windowed

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.serdes.key_bytes import field
    from barnabas.streams.state.window import TimestampedWindowStore
    from barnabas.streams.topology.record import make_record
    from barnabas.streams.windowed import make_windowed, time_windows

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record
    from barnabas.streams.windowed import Window


class WindowValueGetter(StoreValueGetter):
    """Reads the store of a windowed table."""

    def get(self, key: Windowed[Any], as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp of a windowed key."""
        found: ValueAndTimestamp[Any] | None = self._store.fetch(key.key, key.window.start)
        return found


class WindowedAggregation(Aggregation):
    """A supplier for an aggregation by windows."""

    def __init__(
        self, windows: Any, store: Any, emit_strategy: EmitStrategy, initializer: Initializer, aggregator: Aggregator
    ) -> None:
        super().__init__(store)
        self.windows = windows
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator

    def view(self) -> ValueGetterSupplier:
        """Return what looks the table's values up."""
        return StoreValueGetterSupplier(self.store_name, WindowValueGetter)


class KStreamWindowAggregate(WindowedAggregation):
    """Adds each value to the aggregates of its key in the windows that its time falls in."""

    def __init__(
        self, windows: Any, store: Any, emit_strategy: EmitStrategy, initializer: Initializer, aggregator: Aggregator
    ) -> None:
        super().__init__(windows, store, emit_strategy, initializer, aggregator)
        if emit_strategy is EmitStrategy.ON_WINDOW_CLOSE and not hasattr(windows, "advance_ms"):
            raise ValueError(
                "ON_WINDOW_CLOSE strategy is only supported for TimeWindows and SlidingWindows for TimeWindowedKStream"
            )

    def __call__(self) -> KStreamWindowAggregateProcessor:
        """Return a new processor."""
        return KStreamWindowAggregateProcessor(self)


@cython.cclass
class TimeWindowAggregateProcessor(OperatorProcessor):
    """What processors of time windows have in common: Kafka's AbstractKStreamTimeWindowAggregateProcessor."""

    def __init__(self, operator: WindowedAggregation) -> None:
        self._store_name = operator.store_name
        self._windows = operator.windows
        self._initializer = operator.initializer
        self._aggregator = operator.aggregator
        self._send_old_values = operator.send_old_values
        self._on_close = operator.emit_strategy is EmitStrategy.ON_WINDOW_CLOSE
        self._grace_ms: int = operator.windows.grace_period_ms
        self._tracker = TimeTracker()
        self._cached = False
        self._store: Any = None
        #: The store once more, if it is of the usual kind, which is called without the interpreter.
        self._timestamped: TimestampedWindowStore | None = None
        #: The greatest timestamp that was seen, and the close time up to which windows were emitted; -1 before.
        self._stream_time = -1
        self._last_emit = -1

    def init(self, context: Any) -> None:
        """Find the store; take up the times where they were."""
        self.context = context
        self._store = context.get_state_store(self._store_name)
        self._timestamped = self._store if type(self._store) is TimestampedWindowStore else None
        if self._on_close:
            self._tracker.emit_interval_ms = emit_interval_ms(context, EMIT_INTERVAL_AGGREGATION)
        else:
            self._cached = context.set_flush_listener(self._store, self._send_old_values)
        context.keep(self)

    def state(self) -> dict[str, int]:
        """Return what the task keeps of the processor."""
        return {"observed": self._stream_time, "last_emit": self._last_emit, **self._tracker.state()}

    def restore(self, state: dict[str, int]) -> None:
        """Take what `state` returned."""
        self._stream_time = state["observed"]
        self._last_emit = state["last_emit"]
        self._tracker.restore(state)

    def _stored(self, key: Any, start: int) -> Any:
        if self._timestamped is not None:
            return self._timestamped.get(key, start)
        return self._store.get(key, start)

    def _put(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        if self._timestamped is not None:
            self._timestamped.put_with_timestamp(key, value, timestamp, start)
        else:
            self._store.put_with_timestamp(key, value, timestamp, start)

    def _advance(self, timestamp: int) -> int:
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        return self._stream_time - self._grace_ms

    def _forward_update(self, record: Record[Any, Any], window: Window, old: Any, new: Any, timestamp: int) -> None:
        if self._on_close or self._cached:
            return
        change = make_change(new, old if self._send_old_values else None, True)
        self.context.forward_all(make_record(make_windowed(record.key, window), change, timestamp, record.header_list))

    def _forward_final(self, record: Record[Any, Any], close_time: int) -> None:
        if not self._on_close or not self._tracker.may_emit(self.context.current_system_time_ms()):
            return
        if self._last_emit != -1 and self._last_emit >= close_time:
            return
        first, last = self._emit_range(close_time)
        if last >= 0 and self._has_closed(first, last):
            emitted = self.context.emission() if self.context.measured else None
            count = 0
            for key, found in self._store.fetch_all(first, last):
                change = make_change(found.value, None, True)
                self.context.forward_all(make_record(key, change, found.timestamp, record.header_list))
                count += 1
            if emitted is not None:
                emitted(count)
            self._last_emit = close_time

    def _emit_range(self, close_time: int) -> tuple[int, int]:
        raise NotImplementedError

    def _has_closed(self, first: int, last: int) -> bool:
        return True

    def _drop_expired(self, timestamp: int, close_time: int, window: str) -> None:
        self.context.drop(f"expired window. timestamp=[{timestamp}] window={window} expiration=[{close_time}]")


@cython.cclass
class KStreamWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """See `KStreamWindowAggregate`."""

    def __init__(self, operator: WindowedAggregation) -> None:
        super().__init__(operator)
        #: None for windows that do not follow each other at an advance.
        self._advance_ms = getattr(operator.windows, "advance_ms", None)
        self._size_ms = operator.windows.size_ms

    def process(self, record: Record[Any, Any]) -> None:
        """Update the windows that are still open; records without key are dropped."""
        key = record.key
        if key is None:
            self.context.drop("null key")
            return
        close_time = self._advance(record.timestamp)
        for window in self._windows_of(record.timestamp):
            start = window.start
            if window.end <= close_time:
                self._drop_expired(record.timestamp, close_time, f"[{start},{window.end})")
                continue
            found = self._stored(key, start)
            timestamp = record.timestamp
            old = None if found is None else field(found, 0)
            if old is None:
                old = self._initializer()
            elif field(found, 1) > timestamp:
                timestamp = field(found, 1)
            new = self._aggregator(key, record.value, old)
            self._put(key, new, timestamp, start)
            self._forward_update(record, window, old, new, timestamp)
        if self._on_close:
            self._forward_final(record, close_time)

    def _windows_of(self, timestamp: int) -> list[Window]:
        if self._advance_ms is None:
            return [*self._windows.windows_for(timestamp).values()]
        return time_windows(timestamp, self._size_ms, self._advance_ms)

    def _emit_range(self, close_time: int) -> tuple[int, int]:
        size: int = self._windows.size_ms
        first = 0 if self._last_emit == -1 else max(0, self._last_emit - size) + 1
        return first, close_time - size

    def _has_closed(self, first: int, last: int) -> bool:
        if self._last_emit == -1:
            return True
        return bool(self._windows.windows_for(last) != self._windows.windows_for(first - 1))
