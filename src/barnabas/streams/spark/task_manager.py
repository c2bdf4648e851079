"""The tasks that a process holds: takes the steps of `state_protocol` on a real cluster, and runs the engine."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from barnabas import anatomy
from barnabas.client.admin.admin_client import AdminClient
from barnabas.clock import wall_clock_ms
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitioned_rows import read_records
from barnabas.spark.exactly_once import task_writer
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState
from barnabas.spark.exactly_once.decision_log import DecisionReader, log_end, settings_of
from barnabas.spark.exactly_once.task_notes import Note
from barnabas.spark.exactly_once.task_writer import RowSettings
from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.global_task import GlobalTask
from barnabas.streams.engine.record import InputRecord, OutputRecord
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.errors import ProcessorStateError, StreamsError, TaskCorruptedError
from barnabas.streams.spark import rows
from barnabas.streams.spark.application import Application, application_folder
from barnabas.streams.spark.batch_stages import Request
from barnabas.streams.spark.moved_states import TaskShape
from barnabas.streams.spark.read_positions import note_of_reading
from barnabas.streams.spark.restorable_task import BatchPlan, EngineTask, TaskPlan
from barnabas.streams.spark.send_errors import SendErrors, asks
from barnabas.streams.spark.state_directory import clean
from barnabas.streams.spark.state_protocol import (
    Compute,
    Keep,
    ReadDecision,
    Restore,
    TaskBatch,
    end_task,
    run_task,
)
from barnabas.streams.spark.task_events import TaskTeller
from barnabas.streams.spark.task_measures import BatchCounts, RestoreEvent, TaskAnswer, TaskMeasures
from barnabas.streams.spark.topology_shape import fingerprint
from barnabas.streams.state.store import StateStore
from barnabas.streams.store_changelog_reader import ChangelogReader
from barnabas.streams.topology.nodes import ProcessorTopology
from barnabas.streams.topology.processor_api import TaskId

if TYPE_CHECKING:
    import pyarrow as pa

LOGGER = logging.getLogger(__name__)

Rows = Generator["pa.RecordBatch", None, Any]

#: What anatomy calls the steps of `state_protocol`.
STEPS: dict[type[object], str] = {
    ReadDecision: "read_decision", Restore: "restore", Keep: "keep", Compute: "compute",
}  # fmt: skip


class TaskHome:
    """The tasks of one application in one process. An attempt takes its task out while it works on it."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._config = StreamsConfig(application.config)
        self._folder = application_folder(self._config)
        self._held: dict[str, EngineTask] = {}
        self._lock = threading.Lock()
        self._decisions: DecisionReader | None = None
        self._last: Decision | None = None
        self._admin: AdminClient | None = None
        self._changelogs = ChangelogReader(application.client)
        self._global: GlobalTask | None = None
        self._global_positions: dict[TopicPartition, int] = {}
        self._tell: Callable[[RestoreEvent], None] = lambda event: None
        self._fingerprints: dict[int, str] = {}
        #: Whether rows tell where they were made, for a handler of send errors.
        self.keeps_origins = asks(self._config.production_exception_handler)

    def run(self, request: Request, tell: Callable[[RestoreEvent], None] = lambda event: None) -> TaskAnswer:
        """Read, compute and write the batch of a task, in a transaction that stays open; returns what to decide on.

        `tell` hears how a restoration goes on.
        """
        self._tell = tell
        began = time.monotonic()
        while True:
            try:
                return self._run_once(request)
            except TaskCorruptedError as error:
                if time.monotonic() - began >= self._config.values["task.timeout.ms"] / 1000:
                    raise
                LOGGER.warning("task %s is restored, and computes its batch again: %s", request.planned.name, error)

    def _run_once(self, request: Request) -> TaskAnswer:
        records = read_records(self._application.source, request.planned, request.topic_ids, request.written)
        with (
            closing(self.attempt(request, records)) as attempt,
            closing(self._send_errors(TaskId.parse(request.planned.name), attempt)) as asked,
        ):
            settings = RowSettings(
                None,
                True,
                lambda: attempt.note,
                notes_ends=True,
                asked=asked,
                decisions=_KnownDecisions(self._reader(), lambda: self._last, request.spark.batch),
            )
            report = task_writer.write(self._application.place, request.spark, attempt.rows, settings)
            report = report._replace(was_decided=report.was_decided or attempt.was_decided)
            return TaskAnswer(report, attempt.measures(len(asked.left_out)))

    def _send_errors(self, task: TaskId, attempt: Attempt) -> SendErrors:
        handler = self._config.production_exception_handler
        return SendErrors(handler, task, self.changelogs_of(task), attempt.left_out)

    def attempt(self, request: Request, batches: Iterable[pa.RecordBatch]) -> Attempt:
        """Return what computes the batch of these records, to be closed; the task is its own until then."""
        name = request.planned.name
        held = self._held.pop(name, None) or EngineTask(self._folder)
        return Attempt(self, request, held, batches)

    def give_back(self, name: str, held: EngineTask) -> None:
        """Take back what an attempt has worked on."""
        self._held[name] = held

    def decision(self, query: str, least: int) -> Decision | None:
        """See `state_protocol.ReadDecision`."""
        place, reader = self._application.place, self._reader()
        decision = reader.read(query)
        if decision is None or decision.batch < least:
            if self._admin is None:
                self._admin = AdminClient(settings_of("admin", dict(place.client)))
            decision = reader.read(query, past=log_end(self._admin, place.topic))
        self._last = decision
        return decision

    def _reader(self) -> DecisionReader:
        if self._decisions is None:
            place = self._application.place
            self._decisions = DecisionReader(dict(place.client), place.topic)
        return self._decisions

    def restore(self, held: EngineTask, plan: BatchPlan, state: TaskState | None) -> None:
        """See `state_protocol.Restore`."""
        id = TaskId.parse(plan["task"])
        self.catch_up_global(plan)
        topology = self._application.subtopologies[id.subtopology]
        shared = self._global_store, self._partitions_of, self.keeps_origins
        settings = TaskSettings(self._config, None, *shared, time.perf_counter_ns, logs_last_changes=True)
        tell = self.teller(plan["task"]).restoring(self._tell)
        held.restore(TaskPlan(topology, id, settings, plan), self._changelogs, state, tell)
        if held.kept is not None and self._last is not None:
            states = self._last.states_after().values()
            inner = self._application.levels.inner  # no changelogs
            ends = {
                each.task: {topic: max(found.values()) for topic, found in each.ends.items() if topic not in inner}
                for each in states
            }
            values = self._config.values
            clean(self._folder, ends, values["state.cleanup.delay.ms"], values["acceptable.recovery.lag"])

    def teller(self, task: str) -> TaskTeller:
        """Return what tells of a task where this process is recorded."""
        return TaskTeller(self._config.application_id, task)

    def catch_up_global(self, plan: BatchPlan) -> None:
        """Fill the global stores up to where the batch's plan says."""
        topology = self._application.global_topology
        if topology is None:
            return
        with self._lock:
            if self._global is None:
                self._global = GlobalTask(topology, TaskSettings(self._config, None, partitions_of=self._partitions_of))
            for topic, number, _, end in plan["shared"]:
                partition = TopicPartition(topic, number)
                for records, _ in self._changelogs.read(partition, end, self._global_positions.get(partition)):
                    for each in records:
                        found = (each.offset, each.timestamp, each.key, each.value, list(each.headers))
                        self._global.process(InputRecord(topic, number, *found), plan["now_ms"])
                self._global_positions[partition] = max(end, self._global_positions.get(partition, 0))

    def _global_store(self, name: str) -> StateStore | None:
        return None if self._global is None else self._global.store(name)

    def _partitions_of(self, topic: str) -> int:
        found = self._application.partitions.get(topic)
        if found is None:
            raise StreamsError(
                f"a partitioner is asked about topic {topic}, which the topology does not name: its number of "
                "partitions is not known on Spark"
            )
        return found

    def must_wait(self, subtopology: int) -> bool:
        """Whether the engine needs all records of a batch at once."""
        return subtopology in self._application.must_wait

    def topology_of(self, id: TaskId) -> ProcessorTopology:
        """Return the sub-topology of a task."""
        return self._application.subtopologies[id.subtopology]

    def shape_of(self, id: TaskId) -> TaskShape:
        """Return what a task is in its topology."""
        topology = self.topology_of(id)
        if (found := self._fingerprints.get(id.subtopology)) is None:
            found = self._fingerprints[id.subtopology] = fingerprint(topology)
        changelogs = frozenset(self.changelogs_of(id))
        return TaskShape(id.partition, found, frozenset(topology.source_by_topic), changelogs)

    def changelogs_of(self, id: TaskId) -> tuple[str, ...]:
        """Return the changelog topics of a task."""
        return tuple(self._application.subtopologies[id.subtopology].store_to_changelog_topic.values())

    def repartition_of(self, id: TaskId) -> tuple[frozenset[str], frozenset[str]]:
        """Return the repartition topics that a task reads, and which can be read within a batch of those it writes."""
        levels = self._application.levels
        return frozenset(levels.reads[id.subtopology]), levels.inner & self.topology_of(id).sink_topics.keys()

    def rest(self) -> None:
        """Close the producer, which would go on asking brokers; the tasks stay as they are."""
        task_writer.let_go(self._application.place)

    def close(self, decided: Mapping[str, TaskState] | None = None) -> None:
        """Close tasks and connections; of these states, by task, is kept what is held: `state_protocol.end_task`."""
        self.rest()
        for name, held in self._held.items():
            try:
                for step in end_task(held, (decided or {}).get(name)):
                    held.keep_at_end(step.state, wall_clock_ms())
            except ProcessorStateError as problem:
                LOGGER.warning("the state of task %s is not kept: %s", name, problem)
            held.close()
        self._changelogs.close()
        for client in (self._decisions, self._admin):
            if client is not None:
                with suppress(KafkaError):
                    client.close()


class _KnownDecisions:
    """The decision log for the sink, which asks once rows are there: what the task has read before it computed will do.

    It will do where that is the batch before, done: no id is free for less. A decision on this very batch that was made
    since is found by the driver, as one that is made after the sink has looked.
    """

    def __init__(self, reader: DecisionReader, known: Callable[[], Decision | None], batch: int) -> None:
        self._reader, self._known, self._batch = reader, known, batch

    def read(self, query: str) -> Decision | None:
        """Return the query's last decision."""
        known = self._known()
        if known is not None and known.batch == self._batch - 1 and known.state == COMPLETE:
            return known
        return self._reader.read(query)


class Attempt:
    """One attempt to compute a batch of a task. `rows` are for the sink; none when the batch is decided already.

    `note` is what the task says of its state: set once all rows were taken, if it was computed. `was_decided` says that
    there was nothing to compute any more: a driver that does not know of that decision must not go on.
    """

    def __init__(self, home: TaskHome, request: Request, held: EngineTask, batches: Iterable[pa.RecordBatch]) -> None:
        self._home = home
        self._spark = request.spark
        self._is_within = request.is_within
        self._plan: BatchPlan = json.loads(request.planned.to_json())
        self._held = held
        self._batches = batches
        self.note: Note | None = None
        self.was_decided = False
        self._counts: BatchCounts | None = None
        self._dropped_before = 0
        self._began = time.monotonic()
        self._teller = home.teller(self._plan["task"])
        self.rows = self._run()

    def left_out(self, row: pa.RecordBatch) -> None:
        """Count no more what was not written in the end."""
        if self._counts is not None:
            self._counts.wrote(row, -1)

    def measures(self, left_out: int = 0) -> TaskMeasures | None:
        """Return what the attempt has counted, None when it has computed nothing; `left_out` were dropped since."""
        task, counts = self._held.task, self._counts
        if task is None or counts is None:
            return None
        return TaskMeasures(
            self._plan["task"],
            time.monotonic() - self._began,
            task.dropped_records - self._dropped_before + left_out,
            self._held.take_restored(),
            counts.consumed,
            counts.produced,
            counts.ages,
            *self._held.sizes(self._plan["now_ms"]),
            min(task.wall_clock_intervals(), default=None),
            task.metrics.read(),
        )

    def close(self) -> None:
        """Give the task back, finished or failed."""
        self.rows.close()
        self._home.give_back(self._plan["task"], self._held)

    def _run(self) -> Rows:
        name = self._plan["task"]
        shape = self._home.shape_of(TaskId.parse(name))
        steps = run_task(TaskBatch(name, self._spark.batch, self._spark.partition, shape), self._held)
        try:
            step = next(steps)
            while True:
                self._tell_step(STEPS[type(step)])
                result = (yield from self._computed()) if isinstance(step, Compute) else self._perform(step)
                step = steps.send(result)
        except StopIteration as ended:
            self.was_decided = not ended.value
            self._tell_step("decided" if self.was_decided else "computed")
        except ProcessorStateError:
            self._held.close()  # another attempt opens its directory again
            raise
        finally:
            steps.close()

    def _tell_step(self, step: str) -> None:
        if anatomy.active is not None:
            task = self._held.task
            self._teller.step(anatomy.active, self._spark.batch, step, -1 if task is None else task.stream_time)

    def _perform(self, step: ReadDecision | Restore | Keep) -> Decision | None:
        if isinstance(step, ReadDecision):
            return self._home.decision(self._spark.query, step.least)
        if isinstance(step, Restore):
            self._home.restore(self._held, self._plan, step.state)
        else:
            self._held.keep(self._plan, step.state)
        return None

    def _computed(self) -> Rows:
        task = self._held.task
        assert task is not None, "it was restored"
        now = self._plan["now_ms"]
        self._home.catch_up_global(self._plan)
        counts = self._counts = BatchCounts(self._home.topology_of(task.id), now)
        self._dropped_before = task.dropped_records
        if self._home.must_wait(task.id.subtopology):
            for batch in self._batches:
                self._read(counts, batch)
                task.add_records(rows.input_records(batch))
            yield from self._worked_off(task, counts, now)
        else:
            for batch in self._batches:
                self._read(counts, batch)
                # The source has merged the topics. Of records of one topic alone the engine keeps the order; of more it
                # would decide ties of time by itself, and not the same way when a batch arrives in other pieces.
                task.process_in_order(rows.input_records(batch), now)
                yield from self._worked_off(task, counts, now)
        task.punctuate_system_time(now)
        if (sent := self._output(task.commit())) is not None:
            counts.wrote(sent)
            yield sent
        if anatomy.active is not None:
            self._teller.counted(anatomy.active, "produced", counts.produced)
        self.note = self._noted(task)
        return self.note.text

    def _noted(self, task: Task) -> Note:
        """Return what the task says of itself, and the topics of which it is to be known where it has written last."""
        reads, inner = self._home.repartition_of(task.id)
        content = {
            "id": uuid.uuid4().hex, "fingerprint": self._home.shape_of(task.id).fingerprint,
            "metadata": task.metadata().decode(),
            **note_of_reading(self._plan["ranges"], reads, inner, is_within=self._is_within),
        }  # fmt: skip
        ends_of = (*self._home.changelogs_of(task.id), *(sorted(inner) if self._is_within else ()))
        return Note(self._plan["task"], json.dumps(content), ends_of)

    def _read(self, counts: BatchCounts, batch: pa.RecordBatch) -> None:
        counts.read(batch)
        if anatomy.active is not None:
            self._teller.counted(anatomy.active, "consumed", counts.consumed)

    def _output(self, records: list[OutputRecord]) -> pa.RecordBatch | None:
        return rows.output_rows(records, with_origins=self._home.keeps_origins)

    def _worked_off(self, task: Task, counts: BatchCounts, now_ms: int) -> Iterator[pa.RecordBatch]:
        task.work_off(now_ms)
        if (sent := self._output(task.collector.drain())) is not None:
            counts.wrote(sent)
            yield sent
