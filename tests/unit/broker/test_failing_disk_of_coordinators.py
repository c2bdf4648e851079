"""A disk that fails under coordinators, at any operation: every request is answered, and what was promised holds.

Accepted records of a share group are not handed out again and the others are; a transaction that was committed is
read; groups of the three newer protocols go on. The workload of `test_failing_disk` has logs and classic commits.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.produce_request import ProduceRequest
from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, create, fetch, produce
from tests.support.share_member import ACCEPT, ShareMember, acquired
from tests.support.streams_member import subtopology
from tests.unit.broker.share.configs import set_group
from tests.unit.broker.test_failing_disk import KINDS, UNTIL_TRIED, Faults, lines

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.record.lock.duration.ms": 15_000,
    "group.share.min.record.lock.duration.ms": 15_000,
    "log.flush.offset.checkpoint.interval.ms": 5_000,
}
RECORDS = 9
STREAMS_TOPOLOGY = Topology(epoch=0, subtopologies=[subtopology("0", "t", changelogs=("app-counts",))])
PLACES = 6


class Asking:
    """A client whose requests are answered, if need be a second later."""

    def __init__(self, broker: CoreBroker) -> None:
        self.broker = broker
        self.client: CoreClient = broker.connect()

    def request(self, message: Any, version: int, **context: Any) -> Any:
        response = self.client.request(message, version, **context)
        for _ in range(40):
            if response is not None or self.client.closed:
                break
            self.broker.advance(1)
            response = self.client.responses[-1] if self.client.responses else None
            self.client.responses.clear()
        assert not self.client.closed, f"{type(message).__name__} was not answered"
        assert response is not None, f"{type(message).__name__} waits for ever"
        self.client.responses.clear()
        return response


class Queue:
    """A member of a share group that begins anew whenever it is told to, and asks for what it is assigned only."""

    def __init__(self, broker: CoreBroker, member_id: str) -> None:
        self.member = ShareMember(broker, member_id, group="g")
        self.member.client = Asking(broker)  # type: ignore[assignment]  # it asks as a client does
        self.is_assigned = False

    def acquire(self, count: int) -> Iterator[int]:
        """Offsets that are handed out now."""
        member = self.member
        heartbeat = member.heartbeat()
        if heartbeat.error_code:
            member.member_epoch, self.is_assigned = 0, False
            heartbeat = member.heartbeat(0)
        if heartbeat.assignment is not None:
            self.is_assigned = bool(heartbeat.assignment.topic_partitions)
        if not self.is_assigned:
            return
        response = member.send_fetch(max_records=count)
        if response.error_code:
            member.session_epoch = 0
            return
        for first, last, _ in acquired(response):
            yield from range(first, last + 1)

    def accept(self, offset: int) -> bool:
        """Whether the broker has promised not to hand the record out again."""
        response = self.member.acknowledge((offset, offset, ACCEPT))
        if response.error_code:
            self.member.session_epoch = 0
            return False
        return not response.responses[0].partitions[0].error_code


class Workload:
    """What every coordinator writes; `accepted` and `committed` are promises."""

    def __init__(self, broker: CoreBroker) -> None:
        self.broker = broker
        self.client = Asking(broker)
        self.accepted: set[int] = set()
        self.committed: list[bytes] = []

    def run(self) -> None:
        queue = Queue(self.broker, "m")
        for turn in range(3):
            self.beat()
            offsets = list(queue.acquire(2))
            self.accepted |= {offset for offset in offsets if queue.accept(offset)}
            self.transact(b"%d" % turn)
            self.broker.advance(4)

    def beat(self) -> None:
        """Heartbeats of the other groups: answered, whatever is said."""
        streams = StreamsGroupHeartbeatRequest(
            group_id="app", member_id="s", process_id="s", rebalance_timeout_ms=1000, topology=STREAMS_TOPOLOGY,
            active_tasks=[], standby_tasks=[], warmup_tasks=[], client_tags=[],
        )  # fmt: skip
        self.client.request(streams, 0)
        joining = ConsumerGroupHeartbeatRequest(
            group_id="c", member_id="c1", member_epoch=0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"],
            topic_partitions=[],
        )  # fmt: skip
        self.client.request(joining, 1)

    def transact(self, value: bytes) -> None:
        made = self.client.request(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=10_000), 4)
        if made.error_code:
            return
        id, epoch = made.producer_id, made.producer_epoch
        topic = AddPartitionsToTxnTopic(name="x", partitions=[0])
        asked = AddPartitionsToTxnTransaction("tx", id, epoch, False, [topic])
        added = self.client.request(AddPartitionsToTxnRequest(transactions=[asked]), 4)
        results = [p for one in added.results_by_transaction for t in one.topic_results for p in t.results_by_partition]
        if added.error_code or any(each.partition_error_code for each in results) or not results:
            return
        sent = self.client.request(in_transaction(value, id, epoch), 9)
        if sent.responses[0].partition_responses[0].error_code:
            return
        ended = self.client.request(EndTxnRequest("tx", id, epoch, committed=True), 3)
        if not ended.error_code:
            self.committed.append(value)


def in_transaction(value: bytes, producer_id: int, epoch: int) -> ProduceRequest:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(START_MS, b"key", value, [])
    builder.set_producer_state(producer_id, epoch, 0, transactional=True)
    request = produce("x", bytes(builder.close()))
    request.transactional_id = "tx"
    return request


@pytest.fixture(scope="module")
def unharmed() -> Counter[str]:
    """How many operations of each kind the workload has, on a disk that works."""
    counting = Faults("none", 0, lasting=False)
    broker = ready()
    broker.filesystem.fail = counting
    work = Workload(broker)
    work.run()
    assert len(work.accepted) == 6
    assert len(work.committed) == 3
    broker.stop()
    return counting.counts


def ready() -> CoreBroker:
    broker = CoreBroker(SETTINGS)
    client = broker.connect()
    for topic in ("t", "x"):
        assert client.request(create(topic), 7).topics[0].error_code == 0
    for number in range(RECORDS):
        client.request(produce("t", batch(b"%d" % number)), 9)
    set_group(broker, "share.auto.offset.reset", "earliest")
    return broker


def check(broker: CoreBroker, work: Workload) -> None:
    queue, handed_out = Queue(broker, "later"), set[int]()
    for _ in range(60):
        found = list(queue.acquire(RECORDS))
        handed_out |= {offset for offset in found if queue.accept(offset)}
        if len(handed_out) + len(work.accepted) >= RECORDS:
            break
        broker.advance(1)
    assert handed_out & work.accepted == set(), "an accepted record was handed out again"
    assert handed_out | work.accepted == set(range(RECORDS)), "a record is never handed out"
    assert work.committed == [value for value in committed_values(broker) if value in work.committed]


def committed_values(broker: CoreBroker) -> list[bytes]:
    got = broker.connect().request(fetch("x", isolation_level=1), 11).responses[0].partitions[0]
    assert got.error_code == 0
    batches = [found for found in read_batches(got.records or b"") if not found.is_control]
    return [record.value or b"" for found in batches for record in found]


def survive(kind: str, at: int, caplog: pytest.LogCaptureFixture, *, lasting: bool) -> None:
    caplog.clear()
    broker = ready()
    faults = broker.filesystem.fail = Faults(kind, at, lasting=lasting, code=errno.ENOSPC if at % 2 else errno.EIO)
    work = Workload(broker)
    work.run()

    said = Counter(lines(caplog, broker))
    assert not [line for line in said if "please report this" in line]
    flood = {line: times for line, times in said.items() if times > 3}
    assert not flood, "the log is flooded"
    faults.mended = True
    broker.advance(UNTIL_TRIED)
    if any(log.is_offline for log in broker.node.logs):
        # A flush has failed: only a restart may trust the files again.
        broker = broker.crashed()
        broker.advance(20)
    check(broker, work)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "until mended"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_operation_may_fail(
    kind: str, lasting: bool, unharmed: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    for at in range(0, unharmed[kind], max(1, unharmed[kind] // PLACES)):
        survive(kind, at, caplog, lasting=lasting)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "until mended"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_single_operation_may_fail(
    kind: str, lasting: bool, unharmed: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    for at in range(unharmed[kind]):
        survive(kind, at, caplog, lasting=lasting)


def test_the_workload_reaches_every_coordinators_log(unharmed: Counter[str]) -> None:
    broker = ready()
    Workload(broker).run()
    names = {log.topic_partition.topic for log in broker.node.logs if log.log_end_offset}
    assert {"__consumer_offsets", "__transaction_state", "__share_group_state", "t", "x"} <= names
