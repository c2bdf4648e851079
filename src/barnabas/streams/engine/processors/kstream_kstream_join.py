# cython: language_level=3, annotation_typing=False
"""Joins of two streams within a window of time: inner, left, outer, and of a stream with itself.

C types are in `kstream_kstream_join.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.emit_on_close import (
    EMIT_INTERVAL_OUTER_JOIN,
    MAX_LONG,
    TimeTracker,
    TimeTrackerSupplier,
    emit_interval_ms,
)
from barnabas.streams.engine.processors.operator import Operator
from barnabas.streams.serdes.join_side import LeftOrRightValue, TimestampedKeyAndJoinSide

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.state.window import WindowStore
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record

#: (key, value of this side, value of the other side) -> value.
JoinerWithKey = Callable[[Any, Any, Any], Any]


class KStreamJoinWindow(Operator):
    """Forwards each record to the join, then keeps it for the other side's."""

    def __call__(self) -> KStreamJoinWindowProcessor:
        """Return a new processor."""
        return KStreamJoinWindowProcessor(self.store_name)


@cython.cclass
class KStreamJoinWindowProcessor(OperatorProcessor):
    """See `KStreamJoinWindow`."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._window: Any = None
        #: The store once more, if it is ours, which is called without the interpreter.
        self._own_window: WindowStore | None = None

    def init(self, context: Any) -> None:
        """Find the store."""
        self.context = context
        self._window = context.get_state_store(self._store_name)
        if isinstance(self._window, WindowStore):
            self._own_window = self._window

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record, and keep it if it has a key."""
        self.context.forward_all(record)
        if record.key is None:
            return
        if self._own_window is not None:
            self._own_window.put(record.key, record.value, record.timestamp)
        else:
            self._window.put(record.key, record.value, record.timestamp)


class KStreamKStreamJoin(Operator):
    """One side of a join. `other_store` keeps the other side's records, `outer_store` those without a partner."""

    LEFT = True

    def __init__(
        self,
        windows: Any,
        joiner: JoinerWithKey,
        outer: bool,
        time_trackers: TimeTrackerSupplier,
        other_store: Any,
        outer_store: Any | None,
    ) -> None:
        super().__init__(other_store)
        self.windows = windows
        self.joiner = joiner
        self.outer = outer
        self.time_trackers = time_trackers
        self.outer_store = outer_store

    @property
    def outer_store_name(self) -> str | None:
        """The name of the store of records without a partner; None for inner joins."""
        if self.outer_store is None:
            return None
        name: str = self.outer_store if isinstance(self.outer_store, str) else self.outer_store.name
        return name

    def stores(self) -> list[Any]:
        """Return the builders of the stores that the join brings."""
        stores = super().stores()
        if self.outer_store_name is not None and not isinstance(self.outer_store, str):
            stores.append(self.outer_store)
        return stores

    def __call__(self) -> KStreamKStreamJoinProcessor:
        """Return a new processor."""
        return KStreamKStreamJoinProcessor(self)


class KStreamKStreamJoinLeftSide(KStreamKStreamJoin):
    """Joins the left side's records with those of the right side."""


class KStreamKStreamJoinRightSide(KStreamKStreamJoin):
    """Joins the right side's records with those of the left side."""

    LEFT = False


@cython.cclass
class KStreamKStreamJoinProcessor(OperatorProcessor):
    """See `KStreamKStreamJoin`."""

    def __init__(self, operator: KStreamKStreamJoin) -> None:
        windows = operator.windows
        self._operator = operator
        self._joiner = operator.joiner
        self._outer = operator.outer
        self._left = operator.LEFT
        before, after = windows.before_ms, windows.after_ms
        self._before_ms, self._after_ms = (before, after) if self._left else (after, before)
        self._grace_ms: int = windows.grace_period_ms
        #: How long a record of the left, of the right side may still find a partner after its own time.
        self._left_open_ms, self._right_open_ms = after, before
        self._other: Any = None
        #: The store once more, if it is ours, which is called without the interpreter.
        self._own_other: WindowStore | None = None
        self._waiting: Any = None
        self._tracker = TimeTracker()

    def init(self, context: Any) -> None:
        """Find the stores; share the times with the other side."""
        self.context = context
        operator = self._operator
        self._other = context.get_state_store(operator.store_name)
        if isinstance(self._other, WindowStore):
            self._own_other = self._other
        self._tracker = operator.time_trackers.get(context)
        if operator.outer_store_name is not None:
            self._waiting = context.get_state_store(operator.outer_store_name)
            self._tracker.emit_interval_ms = emit_interval_ms(context, EMIT_INTERVAL_OUTER_JOIN)
        context.keep(self)

    def state(self) -> dict[str, int]:
        """Return what the task keeps of the processor."""
        return self._tracker.state()

    def restore(self, state: dict[str, int]) -> None:
        """Take what `state` returned."""
        self._tracker.restore(state)

    def process(self, record: Record[Any, Any]) -> None:
        """Join the record with those of the other side; without value, or key unless outer, it is dropped."""
        tracker, time = self._tracker, record.timestamp
        tracker.advance_stream_time(time)
        key, value = record.key, record.value
        if self._outer and key is None and value is not None:
            self._forward_alone(record)
            return
        if key is None or value is None:
            self.context.drop("null key or value")
            return
        waiting = self._waiting
        if waiting is not None and time == tracker.stream_time:
            self._emit_non_joined(record)
        last = max(0, time + self._after_ms)
        found = False
        for other_time, other in self._others(key, max(0, time - self._before_ms), last):
            found = True
            if waiting is not None:
                waiting.put_if_absent(TimestampedKeyAndJoinSide(key, other_time, not self._left), None)
            joined = self._joiner(key, value, other)
            later = other_time if other_time > time else time
            self.context.forward_all(make_record(key, joined, later, record.header_list))
        if self._outer and not found:
            if waiting is None or last < tracker.stream_time:
                self._forward_alone(record)
            else:
                tracker.update_min_time(time)
                mine = LeftOrRightValue(value, None) if self._left else LeftOrRightValue(None, value)
                waiting.put(TimestampedKeyAndJoinSide(key, time, self._left), mine)

    def _others(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        if self._own_other is not None:
            return self._own_other.of_key(key, first, last)
        return self._other.of_key(key, first, last)  # type: ignore[no-any-return]

    def _forward_alone(self, record: Record[Any, Any]) -> None:
        joined = self._joiner(record.key, record.value, None)
        self.context.forward_all(make_record(record.key, joined, record.timestamp, record.header_list))

    def _emit_non_joined(self, record: Record[Any, Any]) -> None:
        """Forward records that can find no partner any more."""
        tracker = self._tracker
        if tracker.min_time + self._after_ms + self._grace_ms >= tracker.stream_time:
            return
        if not tracker.may_emit(self.context.current_system_time_ms()):
            return
        tracker.min_time = MAX_LONG
        previous: TimestampedKeyAndJoinSide | None = None
        left_open = right_open = False
        with self._waiting.all() as waiting:
            for key, value in waiting:
                tracker.min_time = key.timestamp
                if left_open and right_open:
                    break
                open_ms = self._left_open_ms if key.left_side else self._right_open_ms
                if tracker.min_time + open_ms + self._grace_ms >= tracker.stream_time:
                    left_open, right_open = left_open or key.left_side, right_open or not key.left_side
                    continue
                mine, other = value if self._left else (value.right_value, value.left_value)
                joined = self._joiner(key.key, mine, other)
                self.context.forward_all(make_record(key.key, joined, key.timestamp, record.header_list))
                if previous is not None and previous != key:
                    self._waiting.put(previous, None)
                previous = key
        if previous is not None:
            self._waiting.put(previous, None)

    def close(self) -> None:
        """Forget the times that both sides share."""
        self._operator.time_trackers.remove(self.context)


class KStreamKStreamSelfJoin(Operator):
    """Joins a stream with itself, with one store; times in milliseconds."""

    def __init__(self, store: Any, windows: Any, joiner: JoinerWithKey, retention_period_ms: int) -> None:
        super().__init__(store)
        self.windows = windows
        self.joiner = joiner
        self.retention_period_ms = retention_period_ms

    def __call__(self) -> KStreamKStreamSelfJoinProcessor:
        """Return a new processor."""
        return KStreamKStreamSelfJoinProcessor(self)


@cython.cclass
class KStreamKStreamSelfJoinProcessor(OperatorProcessor):
    """See `KStreamKStreamSelfJoin`."""

    def __init__(self, operator: KStreamKStreamSelfJoin) -> None:
        self._store_name = operator.store_name
        self._joiner = operator.joiner
        self._before_ms: int = operator.windows.before_ms
        self._after_ms: int = operator.windows.after_ms
        self._retention_ms = operator.retention_period_ms
        self._tracker = TimeTracker()
        self._store: Any = None

    def init(self, context: Any) -> None:
        """Find the store."""
        self.context = context
        self._store = context.get_state_store(self._store_name)
        context.keep(self)

    def state(self) -> dict[str, int]:
        """Return what the task keeps of the processor."""
        return self._tracker.state()

    def restore(self, state: dict[str, int]) -> None:
        """Take what `state` returned."""
        self._tracker.restore(state)

    def process(self, record: Record[Any, Any]) -> None:
        """Join the record as the left side, then as the right one, and with itself in between."""
        key, value, time = record.key, record.value, record.timestamp
        if key is None or value is None:
            self.context.drop("null key or value")
            return
        own = self._joiner(key, value, value)
        self._tracker.advance_stream_time(time)
        own_due = time > self._tracker.stream_time - self._retention_ms + 1
        for other_time, other in self._between(key, time - self._before_ms, time + self._after_ms):
            self._forward(record, self._joiner(key, value, other), max(time, other_time))
        for other_time, other in self._between(key, time - self._after_ms, time + self._before_ms):
            if other_time > time and own_due:
                own_due = False
                self._forward(record, own, time)
            self._forward(record, self._joiner(key, other, value), max(time, other_time))
        if own_due:
            self._forward(record, own, time)

    def _between(self, key: Any, first: int, last: int) -> Any:
        return self._store.of_key(key, max(0, first), max(0, last))

    def _forward(self, record: Record[Any, Any], value: Any, timestamp: int) -> None:
        self.context.forward_all(make_record(record.key, value, timestamp, record.header_list))
