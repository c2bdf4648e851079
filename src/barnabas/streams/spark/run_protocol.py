"""What the driver of a run does for each of its batches, step by step, as a state machine.

A generator as those of `barnabas.spark.exactly_once.commit_protocol`. With repartition topics that are read within the
batch, a run begins with what was left there: the driver is the query's only one by then, so nothing else is decided any
more. It looks how far the logs go, and only then aborts what is open and not decided. So nothing that stays open lies
before these ends, and readers of what is committed come as far. As long as no batch of the run is decided what was left
counts as left; a first batch that is decided already, or written again, leaves it to the next one, which takes place
without input, too.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.decision import Decision
from barnabas.streams.spark.batch_stages import NOTHING, BatchOfRun, PlannedBatch, Remains, StagedBatch
from barnabas.streams.spark.repartition_levels import Levels


class TakeOver(NamedTuple):
    """Be the query's only driver; gives its last decision, or None."""

    of: BatchOfRun


class LookForRemains(NamedTuple):
    """Look what repartition topics hold; gives Remains."""


class Sweep(NamedTuple):
    """Abort what is open and not decided: `repair.sweep`."""

    of: BatchOfRun


class Compute(NamedTuple):
    """Have the tasks compute the batch; gives their reports. What they have written is aborted when that fails."""

    staged: StagedBatch


class Commit(NamedTuple):
    """Decide on what was reported: `commit_protocol.commit_batch`; gives the decision, or None."""

    batch: int
    reports: tuple[TaskReport, ...]


Steps = Generator[Any, Any, "Decision | None"]


class Run:
    """A run of a query; `is_within` says whether repartition topics are read within its batches."""

    def __init__(self, levels: Levels, *, is_within: bool) -> None:
        self._levels = levels
        self._is_within = is_within and bool(levels.inner)
        self._remains: Remains | None = None
        self._is_first = True

    @property
    def whole(self) -> frozenset[str]:
        """The repartition topics of which, between two batches, nothing is there to be read: behind it are markers.

        Those that are read within the batch, once what was left there from before the run is read.
        """
        is_whole = self._remains is not None and self._remains.are_read
        return self._levels.inner if is_whole else frozenset()

    def batch(self, of: BatchOfRun, planned: PlannedBatch) -> Steps:
        """Compute and commit a batch; returns the last decision then, None where it was not asked for."""
        is_awaited = self._is_first or (self._is_within and not self.whole)
        if not planned.works and not is_awaited:
            return None
        decision: Decision | None = yield TakeOver(of)
        staged = StagedBatch(self._levels, of, planned, decision, NOTHING)
        if self._is_within and not staged.is_decided and not staged.is_rewritten:
            if self._remains is None:
                self._remains = yield LookForRemains()
                yield Sweep(of)
            staged = StagedBatch(self._levels, of, planned, decision, self._remains, is_within=True)
        reports: tuple[TaskReport, ...] = () if staged.is_decided else (yield Compute(staged))
        if not reports and (staged.is_decided or staged.is_rewritten):
            reports = (staged.decided(),)  # it is to be finished all the same
        decided: Decision | None = yield Commit(of.batch, reports)
        self._is_first = False
        if self._remains is not None and staged.is_within and not staged.is_rewritten:
            self._remains = self._remains._replace(are_read=True)
        return decision if decided is None else decided
