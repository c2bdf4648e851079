"""Sub-topologies that follow one another within a batch, through repartition topics read before they are committed.

The model of `state_model`, three sub-topologies long. What a task reads, and when, is settled by the room's own rules:
`run_protocol`, `batch_stages`, `read_positions`, `batch_protocol.run_stages` and `transaction_rows.is_of`. Here are the
cluster, the source that plans, processes, and a person who repairs.

A run reads repartition topics within its batches, or through the real topic, a batch later. Which of both is drawn for
each run, so the option is switched on and off where the run before has died.

Each record has a number that is drawn anew whenever it is computed, and goes to a partition that is drawn, too. So a
reader can tell whether what the topic holds and what was read of it are one story. What is written again after a loss
is drawn as it was (`is_repeatable`): others have read it.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import Any

from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.spark import transaction_rows
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.decision import Decision, TaskState
from barnabas.spark.exactly_once.repair import repair, sweep
from barnabas.spark.offsets import Offsets
from barnabas.spark.ranges import OffsetRange
from barnabas.streams.spark import batch_protocol, read_positions, run_protocol
from barnabas.streams.spark.batch_stages import BatchOfRun, PlannedBatch, Remains, Request, StagedBatch, Work
from barnabas.streams.spark.repartition_levels import Levels
from barnabas.streams.topology.processor_api import TaskId
from tests.support.core_broker import START_MS, create, fetch, produce
from tests.unit.streams.spark import state_model as model

sink = model.model
STAGES = 3
TASKS = model.TASKS

#: Records in each partition of a repartition topic from before: another application has written them.
LEFT = 2


def topic_of(stage: int) -> str:
    """Return the repartition topic that a sub-topology reads; the last one's successor is the output."""
    return sink.TOPIC if stage == STAGES else f"app-stage-{stage}-repartition"


BETWEEN = [topic_of(stage) for stage in range(1, STAGES)]
PLACES = [TopicPartition(topic, number) for topic in BETWEEN for number in range(TASKS)]
LEVELS = Levels(
    tuple((stage,) for stage in range(STAGES)),
    {stage: (topic_of(stage),) if stage else () for stage in range(STAGES)},
    frozenset(BETWEEN),
    dict.fromkeys(range(STAGES), TASKS),
    dict.fromkeys(BETWEEN, TASKS),
)


class Cluster(model.Cluster):
    """Has the repartition topics, with what an application of before has left in them."""

    def __init__(self, lag: int = 0) -> None:
        super().__init__(lag)
        #: What tasks were asked for; a late attempt is one of that.
        self.asked: list[Request] = []
        #: What the group has committed.
        self.group: Offsets = {}
        #: The run that was begun last, and what was committed for the group before it was read.
        self.newest = ""
        self.too_far: list[str] = []
        #: Whether what is computed again is drawn as it was.
        self.is_repeatable = False
        #: Batches for which no input has come: a run within the batch begins with such a one, if there is nothing else.
        self.idle = frozenset({2, 4})
        for stage in range(1, STAGES):
            for topic in (topic_of(stage), model.changelog_of(f"{stage}_0")):
                self.client.request(create(topic, TASKS), 7)
            for partition in range(TASKS):
                self.client.request(produce(topic_of(stage), left_in(stage, partition), partition), 12)


def left_in(stage: int, partition: int) -> bytes:
    """Return the records that are in a partition of a repartition topic from before."""
    builder = RecordBatchBuilder(1 << 16)
    for number in range(LEFT):
        update = model.Update(model.KEYS[number], 0, 1 + stage * 100 + partition * 10 + number, 0)
        builder.try_append(START_MS, update.key.encode(), json.dumps(update).encode(), [])
    return bytes(builder.close())


# The source.


def inputs(cluster: Cluster, batch: int, task: int) -> list[str]:
    """Return the keys that a task of the first sub-topology reads in a batch."""
    return [] if batch in cluster.idle else model.inputs(batch, task)


class Checkpoint(sink.Checkpoint):
    """Spark's, with its log of offsets: up to where each batch goes in repartition topics that the source plans."""

    def __init__(self) -> None:
        super().__init__()
        self.planned: dict[int, Offsets] = {}


def planned_batch(cluster: Cluster, checkpoint: Checkpoint, batch: int, *, is_within: bool) -> PlannedBatch:
    """Return what the source plans, which is logged before a task begins: it is the same when the batch is repeated."""
    known = batch in checkpoint.planned
    if not known:
        ends = {} if is_within else {place: cluster.stable(*place)[1] for place in PLACES}
        checkpoint.planned[batch] = ends
    before = checkpoint.planned.get(batch - 1, {})
    wanted = {} if is_within else checkpoint.planned[batch]
    works = []
    for stage, partition in itertools.product(range(STAGES), range(TASKS)):
        place = TopicPartition(topic_of(stage), partition)
        ranges = []
        if place in wanted:
            start = before.get(place, cluster.group.get(place, 0))
            ranges.append(OffsetRange(place, start, max(start, wanted[place])))
        if (stage == 0 and inputs(cluster, batch, partition)) or any(each.size for each in ranges):
            works.append(Work(PlannedTask(f"{stage}_{partition}", partition, tuple(ranges), batch, ()), {}))
    return PlannedBatch(batch, (), tuple(works))


# The tasks.


class StagePerformer(model.EnginePerformer):
    """Takes the steps of `state_protocol` for an attempt."""

    def __init__(self, cluster: Cluster, process: model.Process, request: Request) -> None:
        id = TaskId.parse(request.planned.name)
        super().__init__(cluster, process, request.spark.batch, id.partition, id.subtopology)
        self.stage, self.request = id.subtopology, request
        if cluster.is_repeatable:
            self.random = random.Random(f"{self.name} {self.batch}")

    def reads(self) -> sink.Requests:
        """What is committed comes first; then what the named transactions have written, in the order of the topic."""
        if self.stage == 0:
            return (yield from super().reads())
        found: list[bytes] = []
        how = {each.topic_partition: each for each in self.request.written}
        for place, start, end in self.request.planned.ranges:
            written = how.get(place, transaction_rows.WrittenRange(place, end, ()))
            found += yield from self._committed(place, start, written.committed)
            begun = max(start, written.committed)
            found += yield from self._written(place, begun, end, frozenset(written.transactions))
        updates = [model.Update(*json.loads(value)) for value in found]
        return [(update.key, update.drawn) for update in updates]

    def _committed(self, place: TopicPartition, start: int, end: int) -> sink.Requests:
        while True:
            yield None
            records, stable, _ = self.cluster.stable(*place)
            if stable >= end or start >= end:
                return [record.value for record in records if start <= record.offset < end]

    def _written(self, place: TopicPartition, position: int, end: int, named: Any) -> sink.Requests:
        found = []
        while position < end:
            message = fetch(place.topic, position, place.partition, partition_max_bytes=1 << 24, isolation_level=0)
            answer = yield message, 12
            for batch in read_batches(answer.responses[0].partitions[0].records or b""):
                is_its = transaction_rows.is_of(batch.producer_id, batch.producer_epoch, batch.is_control, named)
                if position <= batch.base_offset < end and is_its:
                    found += [record.value for record in batch]
                position = max(position, batch.next_offset)
        return found

    def Compute(self) -> sink.Requests:
        yield from super().Compute()
        reads, inner = LEVELS.reads[self.stage], LEVELS.inner & {topic_of(self.stage + 1)}
        ranges = [(*place, start, end) for place, start, end in self.request.planned.ranges]
        content = read_positions.note_of_reading(ranges, reads, inner, is_within=self.request.is_within)
        self.note = json.dumps({"id": self.note, **content})
        return self.note


class StageSink(model.SinkPerformer):
    """Writes the updates to partitions that are drawn, of the next sub-topology's topic, and to the changelog."""

    def WriteRows(self, name: str, producer_id: int, epoch: int) -> sink.Requests:
        engine: Any = self._engine
        rows: dict[tuple[str, int], list[model.Update]] = defaultdict(list)
        for update in engine.updates:
            to = engine.task if engine.stage == STAGES - 1 else engine.random.randrange(TASKS)
            rows[topic_of(engine.stage + 1), to].append(update)
        if not rows:
            return 0, {}, TaskState(engine.name, engine.note, {})
        rows[model.changelog_of(engine.name), engine.task] = engine.updates
        ends: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, to), updates in rows.items():
            values, keys = [json.dumps(each).encode() for each in updates], [each.key.encode() for each in updates]
            base = yield from model._write(topic, to, keys, values, name, (producer_id, epoch))
            ends[topic][str(to)] = base + len(updates) - 1
        noted = {topic: found for topic, found in ends.items() if engine.request.is_within or topic not in LEVELS.inner}
        state = TaskState(engine.name, engine.note, noted)
        return 2 * len(engine.updates), {topic: [int(to) for to in found] for topic, found in ends.items()}, state


def attempt(cluster: Cluster, process: model.Process, request: Request) -> sink.Requests:
    """One attempt of one task: returns its report."""
    engine = StagePerformer(cluster, process, request)
    return (yield from model.compute_and_write(request.spark, engine, StageSink(cluster, engine)))


# The driver.


class StagesPerformer(model.BatchPerformer):
    """Takes the steps of `batch_protocol`."""

    def __init__(self, cluster: Cluster, staged: StagedBatch, processes: list[model.Process],
                 choose: random.Random, ghosts: list[model.Handle] | None) -> None:  # fmt: skip
        self._staged, self._cluster = staged, cluster
        self._requests: dict[str, Request] = {}
        super().__init__(self._begin, processes, choose, ghosts)

    def _begin(self, process: model.Process, task: str) -> sink.Requests:
        return attempt(self._cluster, process, self._requests[task])

    def Begin(self, stage: int, reports: tuple[TaskReport, ...]) -> sink.Requests:
        yield None
        begun = {each.planned.name: each for each in self._staged.tasks(stage, reports)}
        self._requests |= begun
        self._cluster.asked += begun.values()
        return [*begun]


class RunPerformer:
    """Takes the steps of `run_protocol`."""

    def __init__(
        self, cluster: Cluster, processes: list[model.Process], choose: random.Random, ghosts: list[model.Handle] | None
    ) -> None:
        self.driver = model.Driver(cluster)
        self._cluster, self._with = cluster, (processes, choose, ghosts)

    def TakeOver(self, of: BatchOfRun) -> sink.Requests:
        return (yield from sink.drive(protocol.take_over(of.run), self.driver))

    def LookForRemains(self) -> sink.Requests:
        yield None
        starts = {place: self._cluster.group.get(place, 0) for place in PLACES}
        return Remains(starts, {place: self._cluster.stable(*place)[2] for place in PLACES})

    def Sweep(self, of: BatchOfRun) -> sink.Requests:
        yield from sink.drive(sweep(of.run), self.driver)

    def Compute(self, staged: StagedBatch) -> sink.Requests:
        tasks = StagesPerformer(self._cluster, staged, *self._with)
        try:
            steps = batch_protocol.run_stages(staged.stages, model.ATTEMPTS)
            return tuple((yield from sink.drive(steps, tasks)))
        except KafkaError:
            tasks.all_lost()
            yield from sink.drive(protocol.abort_run(staged.of.run), self.driver)
            raise

    def Commit(self, batch: int, reports: tuple[TaskReport, ...]) -> sink.Requests:
        return (yield from sink.drive(protocol.commit_batch(batch, reports), self.driver))


#: Whether the runs of a query read within the batch, by the name of a run; the last batch always is.
Modes = Callable[[str], bool]


def always(run: str) -> bool:
    return True


def now_and_then(run: str) -> bool:
    return random.Random(f"mode of {run}").random() < 0.5


def query(
    cluster: Cluster, checkpoint: Checkpoint, run: str, batches: int, processes: list[model.Process],
    choose: random.Random, ghosts: list[model.Handle] | None = None, known: list[Decision] | None = None,
    modes: Modes = always,
) -> sink.Requests:  # fmt: skip
    """A run of the query, as `state_model.query`, with a task of each sub-topology for each partition.

    One that goes through the real topics leaves the last batch to another run, which reads what is left there.
    """
    is_within, cluster.newest = modes(run), run
    performer = RunPerformer(cluster, processes, choose, ghosts)
    rounds = run_protocol.Run(LEVELS, is_within=is_within)
    for batch in range(checkpoint.committed + 1, batches if is_within else batches - 1):
        planned = planned_batch(cluster, checkpoint, batch, is_within=is_within)
        yield None
        decision = yield from sink.drive(rounds.batch(BatchOfRun(sink.QUERY, run, batch), planned), performer)
        if known is not None and decision is not None:
            known.append(decision)
        checkpoint.commit(batch)
        if choose.random() < 0.7:  # it may die before
            _commit_to_group(cluster, run, checkpoint.planned[batch], decision, rounds.whole)


def _commit_to_group(
    cluster: Cluster, run: str, planned: Offsets, decision: Decision | None, whole: frozenset[str]
) -> None:
    """Commit what `group_offsets` does where no batch is being computed: what lies behind what was read is markers."""
    read = {place: at for place, at in read_positions.positions_of(decision).items() if place in PLACES}
    found = dict(planned)
    for known in (read, {place: cluster.stable(*place)[1] for place in read if place.topic in whole}):
        found |= {place: max(at, found.get(place, 0)) for place, at in known.items()}
    cluster.group |= found
    for place, at in found.items() if decision is not None and run == cluster.newest else ():
        waiting = [each for each in cluster.stable(*place)[0] if read.get(place, 0) <= each.offset < at]
        if waiting:
            cluster.too_far.append(f"{run} has committed {at} for {place}, where {len(waiting)} records wait")


def late_attempt(
    cluster: Cluster, processes: list[model.Process], run: str, committed: int, choose: random.Random
) -> sink.Requests:
    """A second attempt of a task, or a late one."""
    if not cluster.asked:
        yield None
        return None
    return (yield from attempt(cluster, choose.choice(processes), choose.choice(cluster.asked[-4 * STAGES :])))


# What went wrong.


def problems(cluster: Cluster, batches: int) -> list[str]:
    """Return what a reader of committed records finds wrong."""
    names = [f"{stage}_{partition}" for stage in range(STAGES) for partition in range(TASKS)]
    model.wait_until_stable(cluster, [(model.changelog_of(name), int(name[-1])) for name in names])
    model.wait_until_stable(cluster, [(topic_of(stage), p) for stage in range(1, STAGES) for p in range(TASKS)])
    logged = {name: updates_in(cluster, model.changelog_of(name), int(name[-1])) for name in names}
    found = list(cluster.too_far)
    # What is written again lies behind what was written after it when it was lost.
    in_order: Callable[[Any], Any] = sorted if cluster.is_repeatable else list
    for name, updates in logged.items():
        found += [f"task {name}: {problem}" for problem in model.broken_stories(updates)]
        stage, _, partition = name.partition("_")
        read = [update.read for update in updates if update.read]
        if stage == "0":
            wanted = Counter(key for batch in range(batches) for key in inputs(cluster, batch, int(partition)))
            if Counter(update.key for update in updates if update.key != model.SOMETIMES) != wanted:
                found.append(f"task {name}: has not read its input once each")
        else:
            there = [each.drawn for each in updates_in(cluster, topic_of(int(stage)), int(partition))]
            if in_order(read) != in_order(there):
                found.append(f"task {name}: has read {read}, the repartition topic holds {there}")
        if int(stage) == STAGES - 1 and updates_in(cluster, sink.TOPIC, int(partition)) != updates:
            found.append(f"task {name}: output is not changelog")
    for stage in range(1, STAGES):
        there = [update for p in range(TASKS) for update in updates_in(cluster, topic_of(stage), p) if update.count]
        given = itertools.chain.from_iterable(logged[f"{stage - 1}_{p}"] for p in range(TASKS))
        if sorted(there) != sorted(given):
            found.append(f"{topic_of(stage)} does not hold what the changelogs before it say")
    return found


def updates_in(cluster: model.Cluster, topic: str, partition: int) -> list[model.Update]:
    """Return the committed records of a partition."""
    records, _, _ = cluster.stable(topic, partition)
    return [model.Update(*json.loads(record.value)) for record in records]


# A loss, and its repair.


class LosingDriver(model.Driver):
    """A driver whose decided transactions are in part aborted before it commits them, as when it is away for long."""

    def __init__(self, cluster: Cluster, loses: Callable[[str], bool], batch: int) -> None:
        super().__init__(cluster)
        self._loses, self._batch = loses, batch
        self._doomed: list[str] = []

    def Record(self, decision: Decision) -> sink.Requests:
        yield from super().Record(decision)
        if decision.batch == self._batch and decision.state == "decided":
            lost = [each for each in decision.tasks if each.state is not None and self._loses(each.state.task)]
            self._doomed = [each.transactional_id for each in lost if each.transactional_id]

    def EndAll(self, transactions: Any, commit: bool) -> sink.Requests:
        while commit and self._doomed:
            yield from sink._init(self._doomed.pop())
        return (yield from super().EndAll(transactions, commit))


def losing_query(
    cluster: Cluster, checkpoint: Checkpoint, run: str, batches: int, processes: list[model.Process],
    lost: Sequence[str], batch: int, *, modes: Modes = always,
) -> sink.Requests:  # fmt: skip
    """A run that loses what these tasks have written in a batch."""
    is_within = modes(run)
    performer = RunPerformer(cluster, processes, random.Random(run), None)
    performer.driver = LosingDriver(cluster, lambda task: task in lost, batch)
    rounds = run_protocol.Run(LEVELS, is_within=is_within)
    for each in range(checkpoint.committed + 1, batches if is_within else batches - 1):
        planned = planned_batch(cluster, checkpoint, each, is_within=is_within)
        yield from sink.drive(rounds.batch(BatchOfRun(sink.QUERY, run, each), planned), performer)
        checkpoint.commit(each)


def repairing(cluster: Cluster, choice: str) -> Generator[Any, Any, Decision | None]:
    """A person who has settled what was lost."""
    return (yield from sink.drive(repair(sink.QUERY, choice), model.Driver(cluster)))


def job(modes: Modes) -> model.Job:
    """Return what runs in `chaos`."""

    def run_of_it(*given: Any) -> sink.Requests:
        return query(*given, modes=modes)

    return model.Job(Cluster, run_of_it, late_attempt, problems, turns=9000, checkpoint=Checkpoint)


JOB = job(always)
SWITCHED = job(now_and_then)
