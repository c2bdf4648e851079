"""Batches of states that overlap, made into batches that do not (PersisterStateBatchCombiner)."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from barnabas.broker.share.persister import StateBatch


def combine_state_batches(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the batches from `start_offset` on, in order, each offset in one of them at most.

    Where several have an offset, the larger delivery count counts, then the larger state: what a record has come to
    last. Neighbours that are alike are one. A start offset of -1 cuts nothing.
    """
    waiting = [_Candidate(batch) for batch in batches if batch.last_offset >= start_offset]
    waiting.sort(key=lambda one: one.batch.first_offset)
    covering: list[_Candidate] = []
    found: list[StateBatch] = []
    number, offset = 0, 0
    while number < len(waiting) or covering:
        if not covering:
            offset = max(waiting[number].batch.first_offset, start_offset)
        while number < len(waiting) and waiting[number].batch.first_offset <= offset:
            heapq.heappush(covering, waiting[number])
            number += 1
        while covering and covering[0].batch.last_offset < offset:
            heapq.heappop(covering)
        if not covering:
            continue
        best = covering[0].batch
        end = best.last_offset
        # Who begins in between may count more.
        if number < len(waiting):
            end = min(end, waiting[number].batch.first_offset - 1)
        _add(found, StateBatch(offset, end, best.delivery_state, best.delivery_count))
        offset = end + 1
    return found


def merge_state_batches(
    state: Sequence[StateBatch], update: Sequence[StateBatch], start_offset: int
) -> list[StateBatch]:
    """Return what `combine_state_batches` gives for both together, where `state` is such a result.

    Only what the update touches is combined again: a state may have thousands of batches.
    """
    if not update:
        return _from(state, start_offset)
    low = min(batch.first_offset for batch in update)
    high = max(batch.last_offset for batch in update)
    # With the neighbours on both sides, which may be alike now.
    begin = bisect_left(state, low - 1, key=lambda batch: batch.last_offset)
    end = bisect_right(state, high + 1, key=lambda batch: batch.first_offset)
    middle = combine_state_batches([*state[begin:end], *update], start_offset)
    return [*_from(state[:begin], start_offset), *middle, *_from(state[end:], start_offset)]


def _from(state: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the batches from an offset on."""
    begin = bisect_left(state, start_offset, key=lambda batch: batch.last_offset)
    found = list(state[begin:])
    if found and found[0].first_offset < start_offset:
        found[0] = found[0]._replace(first_offset=start_offset)
    return found


def _add(found: list[StateBatch], batch: StateBatch) -> None:
    before = found[-1] if found else None
    if before is not None and before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
        found[-1] = before._replace(last_offset=batch.last_offset)
    else:
        found.append(batch)


class _Candidate:
    """A batch in the order of what counts most."""

    __slots__ = ("batch",)

    def __init__(self, batch: StateBatch) -> None:
        self.batch = batch

    def __lt__(self, other: _Candidate) -> bool:
        mine, its = self.batch, other.batch
        return (mine.delivery_count, mine.delivery_state) > (its.delivery_count, its.delivery_state)
