"""Aggregations by sliding windows (KIP-450): a window ends at each record, another begins after each.

A record is at the right end of one window and just before the left end of another. Windows are made when they would
hold something, from the aggregates of those around them. Source: Kafka's KStreamSlidingWindowAggregate.
"""

from __future__ import annotations

from typing import Any

from barnabas.streams.engine.processors.kstream_window_aggregate import (
    TimeWindowAggregateProcessor,
    WindowedAggregation,
)
from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.topology.record import Record
from barnabas.streams.windowed import TimeWindow

Aggregate = ValueAndTimestamp[Any]


class KStreamSlidingWindowAggregate(WindowedAggregation):
    """Adds each value to the aggregates of its key in the sliding windows that hold its time."""

    def __call__(self) -> KStreamSlidingWindowAggregateProcessor:
        """Return a new processor."""
        return KStreamSlidingWindowAggregateProcessor(self)


class _Around:
    """What the store has around a record's time."""

    def __init__(self) -> None:
        self.starts: set[int] = set()
        self.left: Aggregate | None = None
        self.right: Aggregate | None = None
        self.left_exists = False
        self.right_exists = False
        self.previous: int | None = None


class KStreamSlidingWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """See `KStreamSlidingWindowAggregate`."""

    def __init__(self, operator: KStreamSlidingWindowAggregate) -> None:
        super().__init__(operator)
        self._span: int = operator.windows.time_difference_ms

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
        self._forward_final(record, close_time)

    def _update_around(self, record: Record[Any, Any], close_time: int) -> _Around | None:
        """Update the windows that hold the record, from the latest on; None when no new ones can be needed."""
        time = record.timestamp
        around = _Around()
        windows = self._store.backward_fetch(record.key, record.key, max(0, time - 2 * self._span), time + 1)
        for key, found in windows:
            start = key.window.start
            around.starts.add(start)
            end = start + self._span
            if start == time + 1:
                around.right_exists = True
            elif end > time:
                if around.right is None:
                    around.right = found
                self._update(key.window, found, record, close_time)
            elif end == time:
                around.left_exists = True
                self._update(key.window, found, record, close_time)
                if found.timestamp >= time:
                    return None
                around.previous = found.timestamp
            else:
                around.left = found
                around.previous = found.timestamp
                break
        return around

    def _process_early(self, record: Record[Any, Any], close_time: int) -> None:
        """Handle a record so early that its window would begin before time 0: it is the one from 0 on."""
        time = record.timestamp
        combined: tuple[TimeWindow, Aggregate] | None = None
        around = _Around()
        for key, found in self._store.fetch(record.key, record.key, 0, time + 1):
            start = key.window.start
            around.starts.add(start)
            if start == 0:
                combined = key.window, found
                if found.timestamp < time:
                    around.previous = found.timestamp
            elif start <= time:
                around.right = found
                self._update(key.window, found, record, close_time)
            else:
                around.right_exists = True
        if around.right is None and combined is not None and combined[1].timestamp > time:
            around.right = combined[1]
        self._create_right_of(record, around)
        if around.previous is not None and around.previous + 1 not in around.starts:
            self._create_from_scratch(around.previous + 1, record, close_time)
        if combined is None:
            self._create_from_scratch(0, record, close_time)
        else:
            self._update(combined[0], combined[1], record, close_time)

    def _create_windows(self, record: Record[Any, Any], close_time: int, around: _Around) -> None:
        time, span = record.timestamp, self._span
        if around.previous is not None:
            start = around.previous + 1
            if start not in around.starts and start + span >= time:
                self._create_from_scratch(start, record, close_time)
        if not around.left_exists:
            if around.previous is not None and time - span <= around.previous and around.left is not None:
                value = around.left.value
            else:
                value = self._initializer()
            self._update(TimeWindow(time - span, time), ValueAndTimestamp(value, time), record, close_time)
        self._create_right_of(record, around)

    def _create_right_of(self, record: Record[Any, Any], around: _Around) -> None:
        """Make the window that begins after the record, when later records lie in it."""
        right = around.right
        if around.right_exists or right is None or right.timestamp <= record.timestamp:
            return
        start = record.timestamp + 1
        self._store.put_with_timestamp(record.key, right.value, right.timestamp, start)
        self._forward_update(record, TimeWindow(start, start + self._span), None, right.value, right.timestamp)

    def _create_from_scratch(self, start: int, record: Record[Any, Any], close_time: int) -> None:
        begin = ValueAndTimestamp(self._initializer(), record.timestamp)
        self._update(TimeWindow(start, start + self._span), begin, record, close_time)

    def _update(self, window: TimeWindow, found: Aggregate, record: Record[Any, Any], close_time: int) -> None:
        if window.end < close_time:
            self._drop_expired(record.timestamp, close_time, f"[{window.start},{window.end}]")
            return
        old = found.value
        new = self._aggregator(record.key, record.value, old)
        timestamp = record.timestamp if old is None else max(record.timestamp, found.timestamp)
        self._store.put_with_timestamp(record.key, new, timestamp, window.start)
        self._forward_update(record, window, old, new, timestamp)

    def _emit_range(self, close_time: int) -> tuple[int, int]:
        first = 0 if self._last_emit == -1 else max(0, self._last_emit - self._span)
        return first, close_time - self._span - 1
