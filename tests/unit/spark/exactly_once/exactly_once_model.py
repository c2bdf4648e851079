"""A model of Spark around the exactly-once sink, on a broker in memory and virtual time.

Everything that talks to the broker is a generator that yields one request at a time; so a scheduler can let any number
of drivers, tasks and zombies take turns, kill any of them between any two requests, and restart the broker.
"""

from __future__ import annotations

import collections
from collections.abc import Generator
from typing import Any

from barnabas.errors import for_code
from barnabas.protocol.message import Message
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.decoder import decode_records
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.decision import Decision
from barnabas.spark.exactly_once.transactional_id_pool import IdPool
from tests.support.core_broker import START_MS, CoreBroker, create, fetch, produce

QUERY, BASE = "q", "sink-q"
TOPIC, LOG = "rows", "decisions"
PARTITIONS = 2
TIMEOUT_MS = 900_000
_DID_NOT = {47, 48, 49, 90, 105}
_RETRY = {3, 5, 6, 14, 15, 16, 51, 87}

Requests = Generator[Any, Any, Any]


class Cluster:
    """One broker; `advance` moves its clock, `crash` kills it and starts it anew on what it had written."""

    def __init__(self) -> None:
        self.broker = CoreBroker({"transaction.max.timeout.ms": TIMEOUT_MS})
        self.client = self.broker.connect()
        for topic, partitions in ((TOPIC, PARTITIONS), (LOG, 1)):
            self.client.request(create(topic, partitions), 7)

    def request(self, message: Message, version: int) -> Any:
        """Send a request and let it be answered."""
        if self.client.closed:
            self.client = self.broker.connect()
        answer = self.client.request(message, version)
        while answer is None:
            assert not self.client.closed, "the broker has closed the connection"
            before = len(self.client.responses)
            self.broker.advance(0.01)
            answer = self.client.responses[-1] if len(self.client.responses) > before else None
        return answer

    def advance(self, seconds: float) -> None:
        self.broker.advance(seconds)

    def crash(self) -> None:
        now = self.broker.now
        self.broker = self.broker.crashed()
        self.broker.advance(max(0.0, now - self.broker.now) + 1)
        self.client = self.broker.connect()

    def committed(self, topic: str, partition: int) -> list[Any]:
        """What a reader of committed records sees now."""
        found: list[Any] = []
        offset = 0
        while True:
            message = fetch(topic, offset, partition, partition_max_bytes=1 << 24, isolation_level=1)
            (answer,) = self.request(message, 12).responses[0].partitions
            if not answer.records:
                return found
            aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
            found += decode_records(answer.records, topic, partition, offset, aborted_transactions=aborted)
            offset = max(batch.next_offset for batch in read_batches(answer.records))

    def rows(self) -> collections.Counter[bytes]:
        """How often each row is seen."""
        return collections.Counter(
            record.value for partition in range(PARTITIONS) for record in self.committed(TOPIC, partition)
        )

    def decision(self) -> Decision | None:
        found = [record.value for record in self.committed(LOG, 0) if record.key == QUERY.encode()]
        return Decision.decode(found[-1]) if found else None


def _ask(message: Message, version: int, code: Any) -> Requests:
    """A request until its answer is not "later"; gives (answer, error code)."""
    while True:
        answer = yield message, version
        if code(answer) not in _RETRY:
            return answer, code(answer)
        yield None


def _init(name: str) -> Requests:
    message = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    answer, code = yield from _ask(message, 5, lambda answer: answer.error_code)
    _check(code)
    return answer.producer_id, answer.producer_epoch


def _write(topic: str, partition: int, records: list[tuple[bytes, bytes]], name: str, identity: Any) -> Requests:
    builder = RecordBatchBuilder(1 << 16)
    for key, value in records:
        builder.try_append(START_MS, key, value, [])
    builder.set_producer_state(*identity, 0, transactional=True)
    message = produce(topic, bytes(builder.close()), partition)
    message.transactional_id = name
    _, code = yield from _ask(message, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)
    _check(code)


def _end(name: str, producer_id: int, epoch: int, commit: bool) -> Requests:
    message = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
    _, code = yield from _ask(message, 5, lambda answer: answer.error_code)
    return code


def _check(code: int) -> None:
    if code:
        raise for_code(code)


def drive(steps: protocol.SinkSteps, performer: Any) -> Requests:
    """`protocol.take_steps` for performers whose work is a generator of requests."""
    try:
        step = next(steps)
        while True:
            result = yield from getattr(performer, type(step).__name__)(*step)
            step = steps.send(result)
    except StopIteration as ended:
        return ended.value


class TaskPerformer:
    """Writes a task's rows, one request for each partition; so often it is refused after the first one."""

    def __init__(self, cluster: Cluster, rows: dict[int, list[bytes]], refusals: int = 0) -> None:
        self._cluster = cluster
        self._rows = rows
        self._refusals = refusals

    def ReadDecision(self) -> Requests:
        yield None
        return self._cluster.decision()

    def InitProducerId(self, name: str) -> Requests:
        return (yield from _init(name))

    def WriteRows(self, name: str, producer_id: int, epoch: int) -> Requests:
        for partition, rows in self._rows.items():
            yield from _write(TOPIC, partition, [(b"", row) for row in rows], name, (producer_id, epoch))
            if self._refusals:
                self._refusals -= 1
                return None
        return sum(map(len, self._rows.values())), {TOPIC: list(self._rows)}


class DriverPerformer:
    """A driver; it knows what it has learned when it took over, as the real one does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._identity: Any = None
        self._decision: Decision | None = None

    def TakeOver(self, run: str) -> Requests:
        if self._identity is None:
            self._identity = yield from _init(f"{BASE}-driver")
            yield None
            self._decision = self._cluster.decision()
        return self._decision

    def ListOpen(self, run: str = "") -> Requests:
        answer = yield ListTransactionsRequest(state_filters=["Ongoing"]), 1
        found = {each.transactional_id: each.producer_id for each in answer.transaction_states}
        prefix = f"{BASE}-task-" + (f"{run}-" if run else "")
        return {name: value for name, value in found.items() if name.startswith(prefix)}

    def Describe(self, names: tuple[str, ...]) -> Requests:
        answer = yield DescribeTransactionsRequest(transactional_ids=list(names)), 0
        return {
            each.transactional_id: (each.producer_id, each.producer_epoch)
            for each in answer.transaction_states
            if each.transaction_state == "Ongoing"
        }

    def Record(self, decision: Decision) -> Requests:
        name, (producer_id, epoch) = f"{BASE}-driver", self._identity
        yield from _write(LOG, 0, [(QUERY.encode(), decision.encode())], name, self._identity)
        _check((yield from _end(name, producer_id, epoch, commit=True)))
        self._identity = producer_id, epoch + 1
        self._decision = decision

    def EndAll(self, transactions: Any, commit: bool) -> Requests:
        failed = set()
        for name, producer_id, epoch in transactions:
            code = yield from _end(name, producer_id, epoch, commit)
            if code in _DID_NOT:
                failed.add(name)
            else:
                _check(code)
        return failed


class Checkpoint:
    """Which batches Spark has in its commit log."""

    def __init__(self) -> None:
        self.committed = -1

    def commit(self, batch: int) -> None:
        """Note a batch; one that a frozen driver notes late takes nothing back, for each has a file of its own."""
        self.committed = max(self.committed, batch)


def rows_of(batch: int, partition: int) -> dict[int, list[bytes]]:
    """What a task writes, always the same; task 2 has rows in every second batch only."""
    if partition == 2 and batch % 2:
        return {}
    return {to: [b"%d/%d/%d" % (batch, partition, to)] for to in range(PARTITIONS)}


class Worker:
    """A Python worker: ids of its own. `name` is unique."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pools: dict[str, IdPool] = {}

    def pool(self, run: str) -> IdPool:
        return self.pools.setdefault(run, IdPool(BASE, f"{run}-{self.name}"))


def attempt(cluster: Cluster, worker: Worker, run: str, batch: int, partition: int) -> Requests:
    """One attempt of one task; returns its report."""
    task = protocol.Task(QUERY, run, batch, partition)
    rows = rows_of(batch, partition)
    if not rows:
        return protocol.TaskReport(*task)
    steps = protocol.write_task(task, worker.pool(run), cluster.broker.now)
    return (yield from drive(steps, TaskPerformer(cluster, rows, refusals=int(partition == batch % 3 == 1))))


def query(cluster: Cluster, checkpoint: Checkpoint, run: str, batches: int, workers: list[Worker]) -> Requests:
    """A run of the query without surprises: task after task, batch after batch. Kill it by not going on."""
    driver = DriverPerformer(cluster)
    for batch in range(checkpoint.committed + 1, batches):
        reports = []
        for partition, worker in enumerate(workers):
            reports.append((yield from attempt(cluster, worker, run, batch, partition)))
        yield from drive(protocol.commit_batch(batch, reports), driver)
        checkpoint.commit(batch)


def execute(cluster: Cluster, requests: Requests, most: int | None = None, *, answer_last: bool = True) -> int:
    """Let it send at most so many requests, the last one with or without effect; returns how many were sent."""
    sent = 0
    try:
        request = next(requests)
        while True:
            if most is not None and sent >= most:
                if answer_last and request is not None:
                    cluster.request(*request)
                requests.close()
                return sent
            sent += 1
            result = cluster.advance(0.02) if request is None else cluster.request(*request)
            request = requests.send(result)
    except StopIteration:
        return sent


def new_workers(run: str, count: int = 3) -> list[Worker]:
    return [Worker(f"{run}-{number}") for number in range(count)]


def expected(batches: int) -> dict[bytes, int]:
    return {
        row: 1
        for batch in range(batches)
        for partition in range(3)
        for rows in rows_of(batch, partition).values()
        for row in rows
    }
