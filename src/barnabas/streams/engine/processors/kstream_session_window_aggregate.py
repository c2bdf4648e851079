# cython: language_level=3, annotation_typing=False
"""Aggregations by sessions: records of a key that lie near each other, merged when one lies between two of them.

C types are in `kstream_session_window_aggregate.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
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

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.state.session import SessionStore
    from barnabas.streams.topology.record import make_record
    from barnabas.streams.windowed import make_session_window, make_windowed

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record
    from barnabas.streams.windowed import Windowed

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


@cython.cclass
class KStreamSessionWindowAggregateProcessor(OperatorProcessor):
    """See `KStreamSessionWindowAggregate`."""

    def __init__(self, operator: KStreamSessionWindowAggregate) -> None:
        self._store_name = operator.store_name
        self._initializer = operator.initializer
        self._aggregator = operator.aggregator
        self._merger = operator.session_merger
        self._gap_ms: int = operator.windows.inactivity_gap_ms
        self._grace_ms: int = operator.windows.grace_period_ms
        self._send_old_values = operator.send_old_values
        self._on_close = operator.emit_strategy is EmitStrategy.ON_WINDOW_CLOSE
        self._tracker = TimeTracker()
        self._cached = False
        self._store: Any = None
        #: The store once more, if it is of the usual kind, which is called without the interpreter.
        self._sessions: SessionStore | None = None
        self._stream_time = -1
        self._last_emit = -1

    def init(self, context: Any) -> None:
        """Find the store; take up the times where they were."""
        self.context = context
        self._store = context.get_state_store(self._store_name)
        self._sessions = self._store if type(self._store) is SessionStore else None
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
            self.context.drop("null key")
            return
        if time > self._stream_time:
            self._stream_time = time
        close_time = self._stream_time - self._grace_ms - self._gap_ms
        start = end = time
        aggregate = self._initializer()
        merged = self._near(key, time - self._gap_ms, time + self._gap_ms)
        for session, value in merged:
            aggregate = self._merger(key, aggregate, value)
            window = session.window
            if window.start < start:
                start = window.start
            if window.end > end:
                end = window.end
        if end < close_time:
            self.context.drop(f"expired window. timestamp=[{time}] window=[{start},{end}] expiration=[{close_time}]")
        else:
            if start != time or end != time:
                for session, value in merged:
                    self._remove(session)
                    self._forward_update(session, value, None)
            aggregate = self._aggregator(key, record.value, aggregate)
            session = make_windowed(key, make_session_window(start, end))
            self._put(session, aggregate)
            self._forward_update(session, None, aggregate)
        if self._on_close:
            self._forward_final(record, close_time)

    def _near(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed[Any], Any]]:
        if self._sessions is not None:
            return self._sessions.near(key, earliest_end, latest_start)
        return self._store.near(key, earliest_end, latest_start)  # type: ignore[no-any-return]

    def _put(self, session: Windowed[Any], aggregate: Any) -> None:
        if self._sessions is not None:
            self._sessions.put(session, aggregate)
        else:
            self._store.put(session, aggregate)

    def _remove(self, session: Windowed[Any]) -> None:
        if self._sessions is not None:
            self._sessions.remove(session)
        else:
            self._store.remove(session)

    def _forward_update(self, session: Windowed[Any], old: Any, new: Any) -> None:
        if self._on_close or self._cached:
            return
        change = make_change(new, old if self._send_old_values else None, True)
        self.context.forward_all(make_record(session, change, session.window.end, None))

    def _forward_final(self, record: Record[Any, Any], close_time: int) -> None:
        if not self._tracker.may_emit(self.context.current_system_time_ms()):
            return
        if self._last_emit != -1 and self._last_emit >= close_time:
            return
        first, last = max(0, self._last_emit), close_time - 1
        if last >= max(first, 0):
            emitted = self.context.emission() if self.context.measured else None
            count = 0
            for session, value in self._store.find_sessions(first, last):
                change = make_change(self._store.plain(value), None, True)
                self.context.forward_all(make_record(session, change, session.window.end, record.header_list))
                count += 1
            if emitted is not None:
                emitted(count)
            self._last_emit = close_time
