"""Sub-topologies that follow one another within a batch, through repartition topics read before they are committed.

The model of `state_model`, three sub-topologies long. The room has no such batches yet: `run_stages` and
`is_of_an_attempt_that_counts` are the two rules that it would take, tried here first (docs/internals/open-work.md).

The driver begins a sub-topology's tasks when those before it have reported, and tells them these reports. A task reads
its partition of the repartition topic uncommitted, from the last offset that the decision before this batch holds up to
the last one that the reports hold, and of that only what the transactions wrote that the reports name. So what it has
read is committed by the same decision as what it made of it, or neither is.

Each record has a number that is drawn anew whenever it is computed, and goes to a partition that is drawn, too. So a
reader can tell whether what the topic holds and what was read of it are one story.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from barnabas.errors import KafkaError
from barnabas.records import RecordBatch, RecordBatchBuilder, read_batches
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.decision import Decision, TaskState
from barnabas.streams.spark import batch_protocol
from tests.support.core_broker import START_MS, create, fetch, produce
from tests.unit.streams.spark import state_model as model

sink = model.model
STAGES = 3
TASKS = model.TASKS

#: Records in each partition of a repartition topic from before: the application went through the real topic.
LEFT = 2


def topic_of(stage: int) -> str:
    """Return the repartition topic that a sub-topology reads; the last one's successor is the output."""
    return sink.TOPIC if stage == STAGES else f"app-stage-{stage}-repartition"


class Cluster(model.Cluster):
    """Has the repartition topics, with what an application of before has left in them."""

    def __init__(self, lag: int = 0) -> None:
        super().__init__(lag)
        #: What tasks were told; a late attempt was told one of that.
        self.told: list[tuple[TaskReport, ...]] = []
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


# The rules.


class BeginStage(NamedTuple):
    """From now on tasks that are started read what these reports of the sub-topologies before name."""

    reports: tuple[TaskReport, ...]


def run_stages(stages: Sequence[Sequence[str]], most_attempts: int) -> Generator[Any, Any, list[TaskReport]]:
    """Return a report for each task of a batch, as `batch_protocol.run_batch` does for a single sub-topology.

    A report that counts stays: no task is computed again after others were told of it. Where what it wrote is gone
    since (its transaction ran out of time), the driver does not find it open, and the batch is not decided.
    """
    reports: list[TaskReport] = []
    for tasks in stages:
        yield BeginStage(tuple(reports))
        reports += yield from batch_protocol.run_batch(tasks, most_attempts)
    return reports


class Attempt(NamedTuple):
    """What an attempt that counts has written to a partition of a repartition topic: up to which offset."""

    producer_id: int
    epoch: int
    end: int


def attempts_in(reports: Sequence[TaskReport], topic: str, partition: int) -> list[Attempt]:
    """Return the attempts that have written there."""
    found = []
    for written in [report.transaction for report in reports]:
        end = (
            None if written is None or written.state is None else written.state.ends.get(topic, {}).get(str(partition))
        )
        if written is not None and end is not None:
            found.append(Attempt(written.producer_id, written.epoch, end))
    return found


def is_of_an_attempt_that_counts(batch: RecordBatch, attempts: Sequence[Attempt]) -> bool:
    """Whether these records are of a transaction that the reports name; each has an epoch of its own (KIP-890)."""
    of = (batch.producer_id, batch.producer_epoch)
    return not batch.is_control and of in {(each.producer_id, each.epoch) for each in attempts}


def position_before(batch: int, decision: Decision | None, topic: str, partition: int) -> int:
    """Return up to where the batches before this one have filled a partition of a repartition topic, and read it."""
    if decision is None:
        return 0
    states = decision.states_after().values() if decision.batch < batch else decision.states
    return 1 + max((state.ends.get(topic, {}).get(str(partition), -1) for state in states), default=-1)


# The model.


def planned_end(batch: int) -> int:
    """Return up to which offset the plan has a batch read repartition topics: the first one what was left there."""
    return LEFT if batch == 0 else 0


class StagePerformer(model.EnginePerformer):
    """Takes the steps of `state_protocol` for an attempt of a task that reads a repartition topic."""

    def __init__(self, cluster: model.Cluster, process: model.Process, batch: int, number: int,
                 attempts: Sequence[Attempt]) -> None:  # fmt: skip
        self.stage, partition = divmod(number, TASKS)
        super().__init__(cluster, process, batch, partition, self.stage)
        self._attempts = attempts

    def reads(self) -> sink.Requests:
        """What was left there comes first; then what this batch has written, in the order of the topic."""
        if self.stage == 0:
            return (yield from super().reads())
        topic = topic_of(self.stage)
        records, _, _ = self.cluster.stable(topic, self.task)
        found = [record.value for record in records if record.offset < planned_end(self.batch)]
        position = position_before(self.batch, self.decision, topic, self.task)
        end = max((each.end for each in self._attempts), default=-1)
        while position <= end:
            answer = yield fetch(topic, position, self.task, partition_max_bytes=1 << 24, isolation_level=0), 12
            for batch in read_batches(answer.responses[0].partitions[0].records or b""):
                if position <= batch.base_offset <= end and is_of_an_attempt_that_counts(batch, self._attempts):
                    found += [record.value for record in batch]
                position = max(position, batch.next_offset)
        updates = [model.Update(*json.loads(value)) for value in found]
        return [(update.key, update.drawn) for update in updates]


class StageSink(model.SinkPerformer):
    """Writes the updates to partitions that are drawn, of the next sub-topology's topic, and to the changelog."""

    def WriteRows(self, name: str, producer_id: int, epoch: int) -> sink.Requests:
        engine = self._engine
        stage = int(engine.name.partition("_")[0])
        rows: dict[tuple[str, int], list[model.Update]] = defaultdict(list)
        for update in engine.updates:
            to = engine.task if stage == STAGES - 1 else engine.process.random.randrange(TASKS)
            rows[topic_of(stage + 1), to].append(update)
        rows[model.changelog_of(engine.name), engine.task] = engine.updates
        ends: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, to), updates in rows.items():
            values, keys = [json.dumps(each).encode() for each in updates], [each.key.encode() for each in updates]
            base = yield from model._write(topic, to, keys, values, name, (producer_id, epoch))
            ends[topic][str(to)] = base + len(updates) - 1
        state = TaskState(engine.name, engine.note, dict(ends))
        return 2 * len(engine.updates), {topic: [int(to) for to in found] for topic, found in ends.items()}, state


def attempt(
    cluster: model.Cluster, process: model.Process, run: str, batch: int, number: int, before: Sequence[TaskReport]
) -> sink.Requests:
    """One attempt of one task: returns its report."""
    stage, partition = divmod(number, TASKS)
    identity = protocol.Task(sink.QUERY, run, batch, number)
    attempts = attempts_in(before, topic_of(stage), partition) if stage else []
    if not (model.inputs(batch, partition) if stage == 0 else attempts or planned_end(batch)):
        return protocol.TaskReport(*identity)
    engine = StagePerformer(cluster, process, batch, number, attempts)
    return (yield from model.compute_and_write(identity, engine, StageSink(cluster, engine)))


class StagesPerformer(model.BatchPerformer):
    """Takes the steps of `run_stages`."""

    def __init__(self, cluster: Cluster, run: str, batch: int, processes: list[model.Process],
                 choose: random.Random, ghosts: list[model.Handle] | None) -> None:  # fmt: skip
        self._before: tuple[TaskReport, ...] = ()
        self._told = cluster.told

        def start(process: model.Process, number: int) -> sink.Requests:
            return attempt(cluster, process, run, batch, number, self._before)

        super().__init__(start, processes, choose, ghosts)

    def BeginStage(self, reports: tuple[TaskReport, ...]) -> sink.Requests:
        self._before = reports
        self._told.append(reports)
        yield None


def query(
    cluster: Cluster, checkpoint: sink.Checkpoint, run: str, batches: int, processes: list[model.Process],
    choose: random.Random, ghosts: list[model.Handle] | None = None, known: list[Decision] | None = None,
) -> sink.Requests:  # fmt: skip
    """A run of the query, as `state_model.query`, with a task of each sub-topology for each partition."""
    driver = model.Driver(cluster)
    names = [[str(stage * TASKS + partition) for partition in range(TASKS)] for stage in range(STAGES)]
    if checkpoint.committed < batches - 1:
        yield from sink.drive(protocol.take_over(run), driver)
    for batch in range(checkpoint.committed + 1, batches):
        tasks = StagesPerformer(cluster, run, batch, processes, choose, ghosts)
        try:
            reports = yield from sink.drive(run_stages(names, model.ATTEMPTS), tasks)
        except KafkaError:
            tasks.all_lost()
            yield from sink.drive(protocol.abort_run(run), driver)
            raise
        decision = yield from sink.drive(protocol.commit_batch(batch, reports), driver)
        if known is not None and decision is not None:
            known.append(decision)
        checkpoint.commit(batch)


def late_attempt(
    cluster: Cluster, processes: list[model.Process], run: str, committed: int, choose: random.Random
) -> sink.Requests:
    """A second attempt of a task, or a late one, that was told what any attempt was told of late."""
    batch, number = max(0, committed + choose.randint(0, 1)), choose.randrange(STAGES * TASKS)
    told = choose.choice([(), *cluster.told[-2 * STAGES :]])
    return attempt(cluster, choose.choice(processes), run, batch, number, told)


def problems(cluster: model.Cluster, batches: int) -> list[str]:
    """Return what a reader of committed records finds wrong."""
    names = [f"{stage}_{partition}" for stage in range(STAGES) for partition in range(TASKS)]
    model.wait_until_stable(cluster, [(model.changelog_of(name), int(name[-1])) for name in names])
    model.wait_until_stable(cluster, [(topic_of(stage), p) for stage in range(1, STAGES) for p in range(TASKS)])
    logged = {name: updates_in(cluster, model.changelog_of(name), int(name[-1])) for name in names}
    found = []
    for name, updates in logged.items():
        found += [f"task {name}: {problem}" for problem in model.broken_stories(updates)]
        stage, _, partition = name.partition("_")
        read = [update.read for update in updates if update.read]
        if stage == "0":
            wanted = Counter(key for batch in range(batches) for key in model.inputs(batch, int(partition)))
            if Counter(update.key for update in updates if update.key != model.SOMETIMES) != wanted:
                found.append(f"task {name}: has not read its input once each")
        elif read != (there := [each.drawn for each in updates_in(cluster, topic_of(int(stage)), int(partition))]):
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


JOB = model.Job(Cluster, query, late_attempt, problems, turns=9000)
