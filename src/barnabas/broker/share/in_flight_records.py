# cython: language_level=3
"""The records of a share-partition that are in flight, as ranges of offsets of one state each.

What is delivered together mostly ends together, so there are few ranges, however many records they have: memory and
time go by the ranges. Where each record is acknowledged by itself they are many: compiled, Python's collector does not
look at them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in


class RecordState(IntEnum):
    """How far the delivery of a record is; the numbers are those of Kafka's state records. ACQUIRED is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is not delivered any more."""
        return self >= RecordState.ACKNOWLEDGED


class AcquisitionLock:
    """What keeps acquired records to one member until `deadline` (monotonic seconds)."""

    __slots__ = ("deadline",)

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline


class Transition:
    """A change of states that is being persisted, with the ranges (first, last) that it is about."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []


# It is in no cycle: neither locks nor transitions know the batches that have them.
@cython.final
@cython.no_gc
@cython.cclass
class InFlightBatch:
    """Records from `first` to `last` in one state.

    ACQUIRED ones have a member and a lock. With a `transition` the state is to become `next_state` once that is
    persisted. `size` counts the records that were acquired together at first.
    """

    # Types in comments are for type checkers, who do not know what is declared.
    first = cython.declare(cython.longlong, visibility="readonly")
    last = cython.declare(cython.longlong, visibility="public")
    size = cython.declare(cython.longlong, visibility="public")
    delivery_count = cython.declare(cython.int, visibility="public")
    state = cython.declare(object, visibility="public")  # type: RecordState  # type: ignore[assignment]
    next_state = cython.declare(object, visibility="public")  # type: RecordState  # type: ignore[assignment]
    member_id = cython.declare(object, visibility="public")  # type: str  # type: ignore[assignment]
    lock = cython.declare(object, visibility="public")  # type: AcquisitionLock | None  # type: ignore[assignment]
    transition = cython.declare(object, visibility="public")  # type: Transition | None  # type: ignore[assignment]

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int = 0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.size = last - first + 1
        self.member_id = ""
        self.lock = None
        self.transition = None
        self.next_state = state

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} {self.delivery_count} {self.member_id}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def counts_as_complete(self) -> bool:
        """Whether the records are not delivered any more, or will not be once that is persisted."""
        return (self.state if self.transition is None else self.next_state).is_terminal

    def continues(self, before: InFlightBatch) -> bool:
        """Whether the batch could be one with that in front of it."""
        return (
            self.state == before.state
            and self.delivery_count == before.delivery_count
            and self.lock is before.lock
            and self.transition is before.transition
            and self.next_state == before.next_state
            and (self.size == before.size or self.state.is_terminal)
            and self.member_id == before.member_id
        )

    def split(self, offset: int) -> InFlightBatch:
        """Keep what is before the offset; gives the rest."""
        rest = InFlightBatch(offset, self.last, self.state, self.delivery_count)
        rest.size, rest.member_id, rest.lock = self.size, self.member_id, self.lock
        rest.transition, rest.next_state = self.transition, self.next_state
        self.last = offset - 1
        return rest


class InFlightRecords:
    """Batches without gaps between them, from `start` on up to `end`, which is the first offset not in flight yet."""

    __slots__ = ("_batches", "_firsts", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._batches: list[InFlightBatch] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.end - self.start

    def append(self, batch: InFlightBatch) -> None:
        """Take up the batch that begins at `end`."""
        assert batch.first == self.end, "batches follow each other"
        self.end = batch.last + 1
        if self._batches and batch.continues(self._batches[-1]):
            self._batches[-1].last = batch.last
        else:
            self._batches.append(batch)
            self._firsts.append(batch.first)

    def overlapping(self, first: int, last: int) -> list[InFlightBatch]:
        """Give the batches that have one of these offsets."""
        begin = max(bisect_right(self._firsts, first) - 1, 0)
        found = self._batches[begin : bisect_right(self._firsts, last)]
        return found[1:] if found and found[0].last < first else found

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Give the batches that have these offsets and no others: those at both ends are split."""
        self._split(first)
        self._split(last + 1)
        return self.overlapping(first, last)

    def _split(self, offset: int) -> None:
        index = bisect_right(self._firsts, offset) - 1
        if index >= 0 and self._firsts[index] < offset <= self._batches[index].last:
            self._batches.insert(index + 1, self._batches[index].split(offset))
            self._firsts.insert(index + 1, offset)

    def merge(self, first: int, last: int) -> None:
        """Make one of batches that are alike, from the one before `first` to the one after `last`."""
        low = max(bisect_right(self._firsts, first) - 2, 0)
        high = min(bisect_right(self._firsts, last) + 1, len(self._batches))
        kept: list[InFlightBatch] = []
        for batch in self._batches[low:high]:
            if kept and batch.continues(kept[-1]):
                kept[-1].last = batch.last
            else:
                kept.append(batch)
        if len(kept) < high - low:
            self._batches[low:high] = kept
            self._firsts[low:high] = [batch.first for batch in kept]

    def first_available(self, offset: int) -> int:
        """Return the first offset from this one on that can be acquired; `end` if there is none."""
        index = max(bisect_right(self._firsts, offset) - 1, 0)
        for number in range(index, len(self._batches)):
            batch = self._batches[number]
            if batch.state == RecordState.AVAILABLE and batch.last >= offset:
                return max(batch.first, offset)
        return self.end

    def drop_before(self, offset: int) -> list[InFlightBatch]:
        """Forget the records before an offset, which becomes the start; gives them."""
        if offset <= self.start:
            return []
        gone = self.between(self.start, min(offset, self.end) - 1) if self._batches else []
        del self._batches[: len(gone)]
        del self._firsts[: len(gone)]
        self.start = offset
        self.end = max(self.end, offset)
        return gone

    def drop_from(self, offset: int) -> list[InFlightBatch]:
        """Forget the records from an offset on; gives them."""
        gone = self.between(offset, self.end - 1) if offset < self.end else []
        if gone:
            del self._batches[-len(gone) :]
            del self._firsts[-len(gone) :]
        self.end = min(self.end, max(offset, 0))
        self.start = min(self.start, self.end)
        return gone

    def drop_complete(self) -> list[InFlightBatch]:
        """Forget what is at the start and not delivered any more; gives it."""
        count = 0
        for batch in self._batches:
            if not batch.state.is_terminal:
                break
            count += 1
        gone = self._batches[:count]
        del self._batches[:count]
        del self._firsts[:count]
        if gone:
            self.start = gone[-1].last + 1
        return gone
