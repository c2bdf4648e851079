"""The tasks' side: takes the steps of `write_task` on a real cluster; its clients stay in the Python worker."""

from __future__ import annotations

import contextlib
import itertools
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.client.producer.producer import Producer
from barnabas.client.producer.transactions import detached as detached_transaction
from barnabas.errors import KafkaError
from barnabas.spark.client_cache import ClientCache
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.decision import Decision, TaskState
from barnabas.spark.exactly_once.decision_log import DecisionReader
from barnabas.spark.exactly_once.driver_steps import SinkPlace
from barnabas.spark.exactly_once.task_notes import Note
from barnabas.spark.exactly_once.transactional_id_pool import IdPool
from barnabas.spark.garbage_collection import freeze_loaded_objects
from barnabas.spark.row_writer import AskedRows, RowsRefusedError, RowWriter, Writer

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds for aborting what a failed task has written; if it takes longer the driver or the cluster will do it.
ABORT_TIMEOUT = 5.0

#: Of so many runs a process keeps the ids.
_MOST_POOLS = 16


class Decisions(Protocol):
    """Who knows a query's last decision: a DecisionReader, for one."""

    def read(self, query: str) -> Decision | None:
        """Return it."""


class RowSettings(NamedTuple):
    """How rows become records.

    `note` gives what a task with a state says of it, once all its rows are taken; None when it computed nothing.
    `asked` is given where rows may be left out, `decisions` where there is a reader of the decision log already.
    """

    topic: str | None
    include_timestamp: bool
    note: Callable[[], Note | None] = lambda: None
    notes_ends: bool = False
    asked: AskedRows | None = None
    decisions: Decisions | None = None

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows to write, those of an attempt before that was refused among them."""
        return batches if self.asked is None else self.asked.rows(batches)

    def writer(self, producer: Producer[Any, Any]) -> Writer:
        """Return a writer for the rows of a task."""
        if self.asked is not None:
            return self.asked.writer(producer)
        return RowWriter(producer, self.topic, include_timestamp=self.include_timestamp, notes_ends=self.notes_ends)


class Worker:
    """What a Python process keeps for its tasks on one place: a producer, a reader of decisions, ids for each query."""

    def __init__(self, place: SinkPlace) -> None:
        self._place = place
        self._pools: OrderedDict[str, IdPool] = OrderedDict()  # by run
        self._reader: DecisionReader | None = None
        self._producer: Producer[Any, Any] | None = None

    def write(
        self, task: protocol.Task, batches: Iterator[pa.RecordBatch], settings: RowSettings
    ) -> protocol.TaskReport:
        """Write a task's rows in a transaction that stays open, if they are still to be written."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None and settings.note() is None:
            return protocol.TaskReport(*task)
        rows = batches if first is None else itertools.chain([first], batches)
        performer = _TaskPerformer(self, task, rows, settings)
        pool = self._pool(task.query, task.run)
        report: protocol.TaskReport = protocol.take_steps(protocol.write_task(task, pool, time.monotonic()), performer)
        for _ in performer.rows:
            # They are not wanted, but Spark would end a Python worker that leaves rows behind.
            pass
        return report

    def _pool(self, query: str, run: str) -> IdPool:
        """Return a run's ids. A pool that was forgotten is made anew under another name, so no id is used again."""
        pool = self._pools.pop(run, None) or IdPool(self._place.base(query), f"{run}-{uuid.uuid4().hex}")
        self._pools[run] = pool
        if len(self._pools) > _MOST_POOLS:
            self._pools.popitem(last=False)
        return pool

    def close(self) -> None:
        """Let go of the connections; what was written and reported stays open, for the driver to end."""
        reader, self._reader = self._reader, None
        producer, self._producer = self._producer, None
        if reader is not None:
            reader.close()
        if producer is not None:
            producer.close(0)

    def reader(self) -> DecisionReader:
        """Made when the first task has rows."""
        if self._reader is None:
            self._reader = DecisionReader(dict(self._place.client), self._place.topic)
        return self._reader

    def producer(self) -> Producer[Any, Any]:
        """Return the same; its transactional id changes from task to task."""
        if self._producer is None:
            self._producer = Producer({**dict(self._place.client), "transactional.id": self._place.prefix})
        return self._producer

    def give_up_producer(self) -> None:
        """Abort what the producer has written, after a failure: no report will name it."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        with contextlib.suppress(KafkaError):
            producer.abort_transaction(ABORT_TIMEOUT)
        producer.close(0)


class _TaskPerformer:
    """Performs the steps of one task."""

    def __init__(
        self, worker: Worker, task: protocol.Task, rows: Iterator[pa.RecordBatch], settings: RowSettings
    ) -> None:
        self.rows = rows
        self._worker = worker
        self._task = task
        self._settings = settings
        self._initialized = ""
        self._steps: dict[type[Any], Callable[[Any], Any]] = {
            protocol.ReadDecision: lambda step: (settings.decisions or worker.reader()).read(task.query),
            protocol.InitProducerId: self._initialize,
            protocol.WriteRows: self._write_rows,
        }

    def perform(self, step: Any) -> Any:
        """See `StepPerformer`."""
        return self._steps[type(step)](step)

    def _initialize(self, step: protocol.InitProducerId) -> tuple[int, int]:
        self._initialized = step.transactional_id
        try:
            return detached_transaction.initialize(self._worker.producer(), step.transactional_id)
        except BaseException:
            self._worker.give_up_producer()
            raise

    def _write_rows(self, step: protocol.WriteRows) -> tuple[int, dict[str, list[int]], TaskState | None] | None:
        producer = self._worker.producer()
        try:
            if self._initialized != step.transactional_id:
                detached_transaction.resume(producer, *step)
            producer.begin_transaction()
            writer = self._settings.writer(producer)
            for batch in self._settings.rows(self.rows):
                writer.write(batch)
            rows = writer.finish()
            note = self._settings.note()
            state = None if note is None else note.state(writer.ends.items())
            detached = detached_transaction.detach(producer)
        except RowsRefusedError:
            self._worker.give_up_producer()
            return None
        except BaseException:
            self._worker.give_up_producer()
            raise
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(detached.partitions):
            topics.setdefault(topic, []).append(partition)
        return rows, topics, state


#: The workers of this process that are not at work, by place.
_WORKERS: ClientCache[Worker] = ClientCache(most_idle=2)


def write(
    place: SinkPlace, task: protocol.Task, batches: Iterator[pa.RecordBatch], settings: RowSettings
) -> protocol.TaskReport:
    """Write a task's rows: see `write_task`."""
    worker = _WORKERS.acquire(place, lambda: Worker(place))
    try:
        report = worker.write(task, batches, settings)
    finally:
        # Also after a failure: its pools know which ids are taken, and it has given up what failed.
        _WORKERS.release(place, worker)
    freeze_loaded_objects()
    return report


def let_go(place: SinkPlace) -> None:
    """Close what this process keeps for a place; it is made anew when a task wants it again."""
    _WORKERS.discard(place)
