"""Aggregations by sessions: records of a key that lie near each other, merged when one lies between two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.engine.processors.emit_on_close import (
    EMIT_INTERVAL_AGGREGATION,
    TimeTracker,
    emit_interval_ms,
)
from barnabas.streams.engine.processors.kstream_aggregate import Aggregation, Aggregator, Initializer
from barnabas.streams.engine.processors.operator import StoreValueGetter, StoreValueGetterSupplier, ValueGetterSupplier
from barnabas.streams.serdes.change import Change
from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.topology.processor_api import Processor
from barnabas.streams.topology.record import Record
from barnabas.streams.windowed import SessionWindow, Windowed

#: (key, aggregate of one session, aggregate of the other) -> aggregate of both.
Merger = Callable[[Any, Any, Any], Any]


class SessionValueGetter(StoreValueGetter):
    """Reads the store of a table of sessions; a session's timestamp is its end."""

    def get(self, key: Windowed[Any], as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp of a session."""
        value = self._store.plain(self._store.fetch_session(key.key, key.window.start, key.window.end))
        return None if value is None else ValueAndTimestamp(value, key.window.end)


class KStreamSessionWindowAggregate(Aggregation):
    """Adds each value to the session of its key that it belongs to."""

    def __init__(
        self,
        windows: Any,
        store: Any,
        emit_strategy: EmitStrategy,
        initializer: Initializer,
        aggregator: Aggregator,
        session_merger: Merger,
    ) -> None:
        super().__init__(store)
        self.windows = windows
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.session_merger = session_merger

    def view(self) -> ValueGetterSupplier:
        """Return what looks the table's values up."""
        return StoreValueGetterSupplier(self.store_name, SessionValueGetter)

    def __call__(self) -> KStreamSessionWindowAggregateProcessor:
        """Return a new processor."""
        return KStreamSessionWindowAggregateProcessor(self)


class KStreamSessionWindowAggregateProcessor(Processor[Any, Any]):
    """See `KStreamSessionWindowAggregate`."""

    def __init__(self, operator: KStreamSessionWindowAggregate) -> None:
        self._operator = operator
        self._gap_ms: int = operator.windows.inactivity_gap_ms
        self._grace_ms: int = operator.windows.grace_period_ms
        self._send_old_values = operator.send_old_values
        self._on_close = operator.emit_strategy is EmitStrategy.ON_WINDOW_CLOSE
        self._tracker = TimeTracker()
        self._cached = False
        self._context: Any = None
        self._store: Any = None
        self._stream_time = -1
        self._last_emit = -1

    def init(self, context: Any) -> None:
        """Find the store; take up the times where they were."""
        self._context = context
        self._store = context.get_state_store(self._operator.store_name)
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

    def process(self, record: Record[Any, Any]) -> None:
        """Merge the sessions that the record touches, and add it; records without key are dropped."""
        key, time = record.key, record.timestamp
        if key is None:
            self._context.drop("null key")
            return
        self._stream_time = max(self._stream_time, time)
        close_time = self._stream_time - self._grace_ms - self._gap_ms
        operator = self._operator
        start = end = time
        aggregate = operator.initializer()
        plain = self._store.plain
        near = self._store.find_sessions(key, time - self._gap_ms, time + self._gap_ms)
        merged = [(session, plain(value)) for session, value in near]
        for session, value in merged:
            aggregate = operator.session_merger(key, aggregate, value)
            start, end = min(start, session.window.start), max(end, session.window.end)
        if end < close_time:
            self._context.drop(f"expired window. timestamp=[{time}] window=[{start},{end}] expiration=[{close_time}]")
        else:
            if (start, end) != (time, time):
                for session, value in merged:
                    self._store.remove(session)
                    self._forward_update(session, value, None)
            aggregate = operator.aggregator(key, record.value, aggregate)
            session = Windowed(key, SessionWindow(start, end))
            self._store.put(session, aggregate)
            self._forward_update(session, None, aggregate)
        self._forward_final(record, close_time)

    def _forward_update(self, session: Windowed[Any], old: Any, new: Any) -> None:
        if self._on_close or self._cached:
            return
        change = Change(new, old if self._send_old_values else None)
        self._context.forward(Record(session, change, session.window.end))

    def _forward_final(self, record: Record[Any, Any], close_time: int) -> None:
        if not self._on_close or not self._tracker.may_emit(self._context.current_system_time_ms()):
            return
        if self._last_emit != -1 and self._last_emit >= close_time:
            return
        first, last = max(0, self._last_emit), close_time - 1
        if last >= max(first, 0):
            for session, value in self._store.find_sessions(first, last):
                change = Change(self._store.plain(value), None)
                self._context.forward(Record(session, change, session.window.end, record.headers))
            self._last_emit = close_time
