# cython: language_level=3, annotation_typing=False
"""Aggregations by sliding windows (KIP-450): a window ends at each record, another begins after each.

A record is at the right end of one window and just before the left end of another. Windows are made when they would
hold something, from the aggregates of those around them. Source: Kafka's KStreamSlidingWindowAggregate.

C types are in `kstream_sliding_window_aggregate.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.kstream_window_aggregate import WindowedAggregation
from barnabas.streams.state.store import ValueAndTimestamp

if not cython.compiled:
    from barnabas.streams.engine.processors.kstream_window_aggregate import TimeWindowAggregateProcessor
    from barnabas.streams.serdes.key_bytes import field
    from barnabas.streams.state.window import TimestampedWindowStore
    from barnabas.streams.windowed import make_time_window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.streams.topology.record import Record

Aggregate = ValueAndTimestamp[Any]


class KStreamSlidingWindowAggregate(WindowedAggregation):
    """Adds each value to the aggregates of its key in the sliding windows that hold its time."""

    def __call__(self) -> KStreamSlidingWindowAggregateProcessor:
        """Return a new processor."""
        return KStreamSlidingWindowAggregateProcessor(self)


@cython.no_gc
@cython.freelist(8)
@cython.cclass
class _Around:
    """What the store has around a record's time."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.left: Aggregate | None = None
        self.right: Aggregate | None = None
        self.left_exists = False
        self.right_exists = False
        self.previous: int | None = None


@cython.cclass
class KStreamSlidingWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """See `KStreamSlidingWindowAggregate`."""

    def __init__(self, operator: KStreamSlidingWindowAggregate) -> None:
        super().__init__(operator)
        self._span: int = operator.windows.time_difference_ms
        #: The store once more, if it is one whose windows are read when they are needed.
        self._plain: TimestampedWindowStore | None = None

    def init(self, context: Any) -> None:
        """Find the store; take up the times where they were."""
        TimeWindowAggregateProcessor.init(self, context)
        if self._timestamped is not None and self._timestamped._is_plain():
            self._plain = self._timestamped

    def process(self, record: Record[Any, Any]) -> None:
        """Update and make windows; records without key or value are dropped."""
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        time = record.timestamp
        close_time = self._advance(time)
        if time + self._span < close_time:
            self._drop_expired(time, close_time, f"[{time},{time + self._span}]")
            return
        if time < self._span:
            self._process_early(record, close_time)
            return
        around = self._update_around(record, close_time)
        if around is not None:
            self._create_windows(record, close_time, around)
        if self._on_close:
            self._forward_final(record, close_time)

    def _update_around(self, record: Record[Any, Any], close_time: int) -> _Around | None:
        """Update the windows that hold the record, from the latest on; None when no new ones can be needed."""
        time = record.timestamp
        around = _Around()
        for entry in self._around(record.key, max(0, time - 2 * self._span), time + 1, True):
            start, found = self._read(entry)
            around.starts.append(start)
            end = start + self._span
            if start == time + 1:
                around.right_exists = True
            elif end > time:
                if around.right is None:
                    around.right = found
                self._update(start, field(found, 0), field(found, 1), record, close_time)
            elif end == time:
                around.left_exists = True
                self._update(start, field(found, 0), field(found, 1), record, close_time)
                if field(found, 1) >= time:
                    return None
                around.previous = field(found, 1)
            else:
                around.left = found
                around.previous = field(found, 1)
                break
        return around

    def _around(self, key: Any, first: int, last: int, reverse: bool) -> Any:
        if self._plain is not None:
            return self._plain._entries_of_key(key, first, last, reverse)
        if self._store._cache is None:
            return self._store.of_key(key, first, last, reverse)
        return _one_by_one(self._store, key, (first, last), reverse)

    def _read(self, entry: Any) -> Any:
        """Return start and value of one of `_around`."""
        return entry if self._plain is None else self._plain._read_window(entry)

    def _process_early(self, record: Record[Any, Any], close_time: int) -> None:
        """Handle a record so early that its window would begin before time 0: it is the one from 0 on."""
        time = record.timestamp
        combined: Aggregate | None = None
        around = _Around()
        for entry in self._around(record.key, 0, time + 1, False):
            start, found = self._read(entry)
            around.starts.append(start)
            if start == 0:
                combined = found
                if field(found, 1) < time:
                    around.previous = field(found, 1)
            elif start <= time:
                around.right = found
                self._update(start, field(found, 0), field(found, 1), record, close_time)
            else:
                around.right_exists = True
        if around.right is None and combined is not None and field(combined, 1) > time:
            around.right = combined
        self._create_right_of(record, around)
        if around.previous is not None and around.previous + 1 not in around.starts:
            self._create_from_scratch(around.previous + 1, record, close_time)
        if combined is None:
            self._create_from_scratch(0, record, close_time)
        else:
            self._update(0, field(combined, 0), field(combined, 1), record, close_time)

    def _create_windows(self, record: Record[Any, Any], close_time: int, around: _Around) -> None:
        time, span = record.timestamp, self._span
        if around.previous is not None:
            start = around.previous + 1
            if start not in around.starts and start + span >= time:
                self._create_from_scratch(start, record, close_time)
        if not around.left_exists:
            if around.previous is not None and time - span <= around.previous and around.left is not None:
                value = field(around.left, 0)
            else:
                value = self._initializer()
            self._update(time - span, value, time, record, close_time)
        self._create_right_of(record, around)

    def _create_right_of(self, record: Record[Any, Any], around: _Around) -> None:
        """Make the window that begins after the record, when later records lie in it."""
        right = around.right
        if around.right_exists or right is None or field(right, 1) <= record.timestamp:
            return
        start = record.timestamp + 1
        self._put(record.key, field(right, 0), field(right, 1), start)
        window = make_time_window(start, start + self._span)
        self._forward_update(record, window, None, field(right, 0), field(right, 1))

    def _create_from_scratch(self, start: int, record: Record[Any, Any], close_time: int) -> None:
        self._update(start, self._initializer(), record.timestamp, record, close_time)

    def _update(self, start: int, old: Any, before: int, record: Record[Any, Any], close_time: int) -> None:
        """Add the record to a window's aggregate, which had a timestamp before."""
        end = start + self._span
        if end < close_time:
            self._drop_expired(record.timestamp, close_time, f"[{start},{end}]")
            return
        new = self._aggregator(record.key, record.value, old)
        timestamp = record.timestamp
        if old is not None and before > timestamp:
            timestamp = before
        self._put(record.key, new, timestamp, start)
        self._forward_update(record, make_time_window(start, end), old, new, timestamp)

    def _emit_range(self, close_time: int) -> tuple[int, int]:
        first = 0 if self._last_emit == -1 else max(0, self._last_emit - self._span)
        return first, close_time - self._span - 1


def _one_by_one(store: Any, key: Any, times: tuple[int, int], reverse: bool) -> Iterator[tuple[int, Any]]:
    """Yield start and value of the key's windows; a look at an entry of a cache counts as a use, as in Kafka."""
    fetch = store.backward_fetch if reverse else store.fetch
    with fetch(key, key, *times) as entries:
        for windowed, found in entries:
            yield windowed.window.start, found
