"""Which tasks a batch has, stage by stage, and what each of them reads. No I/O.

The source plans what lies in topics of others. What a task reads of repartition topics is settled here, by what is
decided and what the stages before have reported, so that a batch that is repeated reads the same, by another driver
too, and with `repartition.within.batch` switched on or off in between:

- A reader begins where the decision before says that it stands (`read_positions`), never where Spark's offsets say, and
  where its group has committed only if no decision knows of it. The first batch of such a reader has it noted, so from
  then on one does, wherever the group stands.
- Within the batch it reads what the reports name: those transactions, up to where they have written. What was left
  there before the run (the option was off, or Kafka Streams in Java was there) comes first, read committed.
- A batch that is written again (`barnabas spark repair`) is computed as it was: only by tasks that were lost, each from
  where to where its lost note tells, and in stages if it was. What the others wrote there is committed by now, and what
  the lost ones write is read by lost readers only: the others have read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once.commit_protocol import Task, TaskReport
from barnabas.spark.exactly_once.decision import REWRITE, Decision, TaskState, TaskTransaction
from barnabas.spark.offsets import Offsets
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.transaction_rows import Transaction, WrittenRange
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.read_positions import noted, positions_of
from barnabas.streams.spark.repartition_levels import Levels
from barnabas.streams.topology.processor_api import TaskId


class Work(NamedTuple):
    """A task as the source has planned it, and the ids of its topics."""

    task: PlannedTask
    topic_ids: Mapping[str, bytes | None]


class PlannedBatch(NamedTuple):
    """A batch as the source has planned it: its time, the ends of global topics, the tasks."""

    now_ms: int = 0
    shared: tuple[OffsetRange, ...] = ()
    works: tuple[Work, ...] = ()


class Request(NamedTuple):
    """Which task is to compute which batch: as the sink calls it, what it reads, the ids of its topics.

    `written` says how ranges of repartition topics are to be read, `is_within` that others read within the batch what
    it writes to such topics.
    """

    spark: Task
    planned: PlannedTask
    topic_ids: Mapping[str, bytes | None]
    written: tuple[WrittenRange, ...] = ()
    is_within: bool = False


class BatchOfRun(NamedTuple):
    """Which batch of which run of which query."""

    query: str
    run: str
    batch: int


class Remains(NamedTuple):
    """What is left in repartition topics from before a run: where each reader begins, and where the log ended then.

    A reader begins at `starts` of which no decision says where it stands.
    As long as no batch of the run is decided that is read; from then on all before `ends` was.
    """

    starts: Offsets
    ends: Offsets
    are_read: bool = False


#: Where nothing is read within a batch.
NOTHING = Remains({}, {}, are_read=True)


class _Written(NamedTuple):
    """What transactions have written to a partition of a repartition topic: up to which offset."""

    transactions: tuple[Transaction, ...]
    last: int


class StagedBatch:
    """A batch, after this decision; `is_within` says whether repartition topics are read within it."""

    def __init__(
        self, levels: Levels, of: BatchOfRun, planned: PlannedBatch, decision: Decision | None,
        remains: Remains = NOTHING, *, is_within: bool = False,
    ) -> None:  # fmt: skip
        self.of = of
        self._levels, self._planned, self._remains = levels, planned, remains
        self._works = {each.task.name: each for each in planned.works}
        same = decision if decision is not None and decision.batch == of.batch else None
        #: Whether it is decided already: there is nothing to compute.
        self.is_decided = same is not None and same.state != REWRITE
        #: Whether what was lost of it is written again.
        self.is_rewritten = same is not None and same.state == REWRITE
        tasks = () if same is None else same.tasks
        self._numbers = {each.state.task: each.partition for each in tasks if each.state is not None}
        self._lost = _lost_by_name(same) if same is not None and self.is_rewritten else {}
        self.is_within = any(map(_was_within, self._lost.values())) if self.is_rewritten else is_within
        self._positions = positions_of(decision)
        self.stages = len(levels.stages) if self.is_within else 1

    def tasks(self, stage: int, reports: Sequence[TaskReport]) -> list[Request]:
        """Return the tasks of a stage, given the reports of all stages before. Raises StreamsError for a lost topic."""
        written = self._written(reports)
        found = []
        for id in self._candidates(stage):
            request = self._rewritten(id, written) if self.is_rewritten else self._request(id, written)
            if request is not None:
                found.append(request)
        return found

    def decided(self) -> TaskReport:
        """Return what the driver tells itself where no task is asked, for a batch that is decided or written again."""
        return TaskReport(*self.of, partition=-1, was_decided=True)

    def check(self, reports: Sequence[TaskReport]) -> None:
        """Raise StreamsError if a task has written to a repartition topic whose readers had begun before."""
        for place, writer in self._writers(reports):
            for reader in self._levels.reads:
                is_late = self._levels.stage_of(reader) <= self._levels.stage_of(writer)
                if is_late and place.topic in self._levels.inner_of(reader):
                    raise StreamsError(
                        f"a task of sub-topology {writer} has written to {place}, which is no sink of it in the "
                        "topology: set repartition.within.batch=false"
                    )

    def _candidates(self, stage: int) -> Iterator[TaskId]:
        """Yield the tasks that a stage may have, in an order that does not change."""
        planned: dict[int, set[int]] = defaultdict(set)
        for name in self._works:
            id = TaskId.parse(name)
            planned[id.subtopology].add(id.partition)
        subtopologies = self._levels.stages[stage] if self.is_within else sorted(self._levels.tasks)
        for number in subtopologies:
            every = range(self._levels.tasks[number]) if self.is_within or self.is_rewritten else ()
            for partition in sorted(planned[number] | set(every)):
                yield TaskId(number, partition)

    def _request(self, id: TaskId, written: Mapping[TopicPartition, _Written]) -> Request | None:
        work = self._works.get(str(id))
        ranges = {} if work is None else {each.topic_partition.topic: each for each in work.task.ranges}
        how, has_begun = [], True
        for place in self._repartition_places(id):
            if self.is_within and place.topic in self._levels.inner:
                has_begun &= self._remains.are_read or place in self._positions
                ranges[place.topic], read = self._within(place, written.get(place))
                how.append(read)
            elif (found := self._planned_range(place, ranges.get(place.topic))) is not None:
                ranges[place.topic] = found
        if work is None and has_begun and not any(each.size > 0 for each in ranges.values()):
            return None
        return self._made(id, work, ranges, how)

    def _within(self, place: TopicPartition, written: _Written | None) -> tuple[OffsetRange, WrittenRange]:
        """Return what is read of a repartition topic within the batch."""
        log_end = self._remains.ends.get(place, 0)
        if self._remains.are_read:
            start = max(self._positions.get(place, 0), log_end)
        elif (position := self._positions.get(place)) is not None:
            start = position
        else:
            start = self._remains.starts[place]
        committed = max(start, log_end)
        if written is None:
            return OffsetRange(place, start, committed), WrittenRange(place, committed, ())
        if written.last < committed:
            raise StreamsError(
                f"tasks have written to {place} up to offset {written.last}, and it was read up to {committed} before: "
                "was the topic deleted and created again? See `barnabas streams reset`"
            )
        return OffsetRange(place, start, written.last + 1), WrittenRange(place, committed, written.transactions)

    def _planned_range(self, place: TopicPartition, planned: OffsetRange | None) -> OffsetRange | None:
        """Return what the source has planned, from where the decision says on: it may have planned what was read."""
        position = self._positions.get(place)
        if planned is None:
            return None if position is None else OffsetRange(place, position, position)
        start = max(planned.start, position or 0)
        return OffsetRange(place, start, max(start, planned.end))

    def _rewritten(self, id: TaskId, written: Mapping[TopicPartition, _Written]) -> Request | None:
        """Return what a task that was lost reads once more; None for a task that was not."""
        lost, work = self._lost.get(str(id)), self._works.get(str(id))
        if lost is None or lost.state is None:
            return None
        note = noted(lost.state.note)
        ranges = {} if work is None else {each.topic_partition.topic: each for each in work.task.ranges}
        how = []
        for place in self._repartition_places(id):
            began = note.get("began", {}).get(place.topic, {}).get(str(place.partition))
            if began is None:
                continue  # a version before this one has noted where it ends only: the source has planned it
            end = note["positions"][place.topic][str(place.partition)]
            found = written.get(place, _Written((), -1))
            ranges[place.topic] = OffsetRange(place, began, max(end, found.last + 1))
            how.append(WrittenRange(place, end, found.transactions))
        return self._made(id, work, ranges, how)

    def _made(
        self, id: TaskId, work: Work | None, ranges: Mapping[str, OffsetRange], how: Sequence[WrittenRange]
    ) -> Request:
        in_order = tuple(ranges[topic] for topic in sorted(ranges))
        task = PlannedTask(str(id), id.partition, in_order, self._planned.now_ms, self._planned.shared)
        topic_ids = {} if work is None else work.topic_ids
        return Request(Task(*self.of, self._number(id)), task, topic_ids, tuple(how), self.is_within)

    def _number(self, id: TaskId) -> int:
        """Return the sink's number of a task, in a batch that is written again the one that the decision has for it."""
        if (known := self._numbers.get(str(id))) is not None:
            return known
        subtopologies = sorted(self._levels.tasks)
        number = id.partition * len(subtopologies) + subtopologies.index(id.subtopology)
        return 1 + max(self._numbers.values(), default=-1) + number

    def _repartition_places(self, id: TaskId) -> list[TopicPartition]:
        places = [TopicPartition(topic, id.partition) for topic in self._levels.reads.get(id.subtopology, ())]
        return [place for place in places if place.partition < self._levels.partitions[place.topic]]

    def _written(self, reports: Sequence[TaskReport]) -> dict[TopicPartition, _Written]:
        """Return what the reports name of topics that are read within the batch."""
        found: dict[TopicPartition, _Written] = {}
        for transaction, state in _states(reports) if self.is_within else ():
            of = transaction.producer_id, transaction.epoch
            for place, last in _ends(state, self._levels.inner):
                before = found.get(place, _Written((), -1))
                found[place] = _Written((*before.transactions, of), max(last, before.last))
        return found

    def _writers(self, reports: Sequence[TaskReport]) -> Iterator[tuple[TopicPartition, int]]:
        for _, state in _states(reports) if self.is_within else ():
            for place, _ in _ends(state, self._levels.inner):
                yield place, TaskId.parse(state.task).subtopology


def _states(reports: Sequence[TaskReport]) -> Iterator[tuple[TaskTransaction, TaskState]]:
    for transaction in [each.transaction for each in reports]:
        if transaction is not None and transaction.state is not None:
            yield transaction, transaction.state


def _ends(state: TaskState, topics: frozenset[str]) -> Iterator[tuple[TopicPartition, int]]:
    for topic in sorted(topics & state.ends.keys()):
        for number, last in state.ends[topic].items():
            yield TopicPartition(topic, int(number)), last


def _lost_by_name(decision: Decision) -> dict[str, TaskTransaction]:
    lost = [each for each in decision.tasks if each.partition in decision.lost]
    return {each.state.task: each for each in lost if each.state is not None}


def _was_within(transaction: TaskTransaction) -> bool:
    return transaction.state is not None and bool(noted(transaction.state.note).get("within"))
