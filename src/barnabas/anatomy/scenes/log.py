"""The log of one partition: segments, offsets, retention and compaction at work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OF_LOGS = (
    events.LogMoved | events.SegmentRolled | events.SegmentsDeleted | events.SegmentsReplaced | events.LogCleaned
    | events.MarkerWritten | events.LogRead
)  # fmt: skip
_OFFSETS = ("start_offset", "last_stable_offset", "high_watermark", "end_offset")


class LogScene:
    """One partition, by its name, such as `orders-0`."""

    def __init__(self, subject: str) -> None:
        self._partition = subject
        # Base offset → size in bytes.
        self._segments: dict[int, int] = {}
        self._offsets: dict[str, int] = {}
        self._clean_to = -1
        self._work: deque[Box] = deque(maxlen=LAST)
        self._works = 0
        self._markers: deque[Box] = deque(maxlen=LAST)
        # Last offset of an aborted transaction's records → its box.
        self._aborted: dict[int, Box] = {}
        self._read: deque[Box] = deque(maxlen=LAST)
        self._reads = 0

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the partition's name."""
        return f"{event.topic}-{event.partition}" if isinstance(event, _OF_LOGS) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if not isinstance(event, _OF_LOGS) or self.subject_of(event) != self._partition:
            return False
        if isinstance(event, events.LogMoved):
            self._offsets = {name: getattr(event, name) for name in _OFFSETS}
            self._segments[event.segment] = event.size
        elif isinstance(event, events.SegmentRolled):
            self._segments[event.base_offset] = 0
        elif isinstance(event, events.SegmentsDeleted):
            for base in sorted(self._segments)[: event.segments]:
                del self._segments[base]
            self._offsets["start_offset"] = event.start_offset
            self._did("deleted", "bad", {"segments": event.segments, "reason": event.reason})
        elif isinstance(event, events.SegmentsReplaced):
            for base in [base for base in self._segments if event.base_offset <= base < event.end_offset]:
                del self._segments[base]
            self._segments[event.base_offset] = event.size
        elif isinstance(event, events.MarkerWritten):
            self._ended(event)
        elif isinstance(event, events.LogRead):
            self._found(event)
        else:
            self._clean_to = event.end_offset
            facts = {"bytes_before": event.bytes_before, "bytes_after": event.bytes_after, "keys": event.keys}
            self._did("cleaned", "good", {"end_offset": event.end_offset, **facts})
        return True

    def _ended(self, event: events.MarkerWritten) -> None:
        whose: Facts = {"producer_id": event.producer_id, "epoch": event.epoch}
        kind = "good" if event.outcome == "commit" else "split"
        self._markers.appendleft(Box(f"marker {event.offset}", f"{event.outcome} {event.offset}", kind, whose))
        if event.outcome == "abort" and 0 <= event.first_offset < event.offset:
            first, last = event.first_offset, event.offset - 1
            span = f"{first} to {last}" if last > first else f"{first}"
            self._aborted[last] = Box(
                f"aborted {first} {event.producer_id}", span, "bad", {**whose, "marker": event.offset}
            )

    def _found(self, event: events.LogRead) -> None:
        self._reads += 1
        facts: Facts = {"segment": event.segment, "size": event.size}
        if event.entry >= 0:
            facts |= {"entry": event.entry, "position_in_file": event.position}
        if event.aborted:
            facts["aborted"] = event.aborted
        kind = "done" if event.entry >= 0 else "split"
        self._read.appendleft(Box(f"read {self._reads}", f"from {event.offset}", kind, facts))

    def _did(self, what: str, kind: str, facts: Facts) -> None:
        self._works += 1
        self._work.appendleft(Box(f"work {self._works}", what, kind, facts))

    def picture(self) -> Picture:
        """See `Scene`."""
        return picture(
            (
                lane("segments", self._segment_boxes(), partition=self._partition),
                lane("offsets", self._offset_boxes()),
                lane("log_reads", self._read),
                lane("log_markers", self._markers),
                *((lane("log_aborted", self._aborted_boxes()),) if self._aborted else ()),
                lane("log_work", self._work),
            )
        )

    def _offset_boxes(self) -> Iterator[Box]:
        for name in _OFFSETS:
            if name in self._offsets:
                yield Box(name, f"{name.replace('_', ' ')} {self._offsets[name]}", "done", {})

    def _aborted_boxes(self) -> Iterator[Box]:
        """Ranges that are still in the log, in its order."""
        start = self._offsets.get("start_offset", 0)
        return (box for last, box in sorted(self._aborted.items()) if last >= start)

    def _segment_boxes(self) -> Iterator[Box]:
        bases = sorted(self._segments)
        largest = max(self._segments.values(), default=0)
        for base in bases:
            following = next((later for later in bases if later > base), None)
            is_clean = following is not None and following <= self._clean_to
            kind = "moving" if following is None else "good" if is_clean else "done"
            size = self._segments[base]
            yield Box(f"segment {base}", f"{base:020d}", kind, {"size": size}, size / largest if largest else 0.0)
