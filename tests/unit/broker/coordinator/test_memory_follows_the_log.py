"""What a coordinator answers from memory is what its log says, whichever operation of the disk fails meanwhile.

Each operation of the disk fails in turn, once, from there on, or each n-th time, during a life of groups and
transactions. When the disk is mended, the running broker and one that is started on its files describe groups, offsets
and transactions in the same words.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.protocol.message import Message
from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.core_broker import CoreBroker, create

SETTINGS = {
    "log.flush.interval.messages": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.consumer.assignment.interval.ms": 0,
    # A segment ends with each second of the clock: the disk is asked for more than writes and flushes.
    "log.roll.ms": 1000,
    "log.cleaner.enable": False,
}
GROUP, MEMBERS, TRANSACTIONAL_ID = "g", ("a", "b", "c"), "t-1"


class Life:
    """Members that join, have partitions, commit and leave, and a producer with transactions; errors are ignored."""

    def __init__(self, broker: CoreBroker) -> None:
        self.broker = broker
        self.client = broker.connect()
        self.epochs: dict[str, int] = dict.fromkeys(MEMBERS, JOIN_EPOCH)

    def ask(self, message: Message, version: int) -> Any:
        response = self.client.request(message, version)
        if response is None:
            self.broker.advance(1)
            response = self.client.responses[-1]
        return response

    def live(self) -> None:
        self.ask(create("t", 4), 7)
        topic = self.broker.state.metadata.topic("t")
        self.topic_id = b"" if topic is None else topic.id
        for key_type, key in ((0, GROUP), (1, TRANSACTIONAL_ID)):
            self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
        for member in MEMBERS:
            self.heartbeat(member)
        for number in range(3):
            for member in MEMBERS:
                self.heartbeat(member)
            self.commit(number)
            self.transact(commit=number != 1)
            self.broker.advance(0.6)
        self.heartbeat("b", leaves=True)
        for _ in range(2):
            self.heartbeat("a")
            self.heartbeat("c")

    def heartbeat(self, member: str, *, leaves: bool = False) -> None:
        epoch = LEAVE_EPOCH if leaves else self.epochs[member]
        joins = epoch == JOIN_EPOCH
        answer = self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000 if joins else -1,
                subscribed_topic_names=["t"] if joins else None,
                # Whatever it is to give up it has given up.
                topic_partitions=[] if joins else [TopicPartitions(topic_id=self.topic_id, partitions=[])],
            ),
            1,
        )
        self.epochs[member] = JOIN_EPOCH if answer.error_code or leaves else answer.member_epoch

    def commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        self.ask(OffsetCommitRequest(group_id="simple", topics=topics), 8)

    def transact(self, *, commit: bool) -> None:
        producer = self.ask(InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=10_000), 4)
        identity = producer.producer_id, producer.producer_epoch
        self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTIONAL_ID,
                v3_and_below_producer_id=identity[0],
                v3_and_below_producer_epoch=identity[1],
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
            ),
            3,
        )
        self.ask(EndTxnRequest(TRANSACTIONAL_ID, *identity, commit), 3)


def told(broker: CoreBroker) -> list[str]:
    """Everything that the coordinators tell of their state."""
    client = broker.connect()
    asked: list[tuple[Message, int]] = [
        (ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="simple", topics=None)]), 8),
        (DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]), 0),
    ]
    return [repr(client.request(message, version)) for message, version in asked]


#: Which operations of a kind fail, for a number n: whether the one of this number does (the first is 1).
PATTERNS: dict[str, Callable[[int, int], bool]] = {
    "once": lambda number, n: number == n,
    "until mended": lambda number, n: number >= n,
    "each n-th": lambda number, n: number % (n + 1) == 0,
}
#: So many places of each kind are tried in the ordinary run where more than one operation fails.
PLACES = 8


def survive(kind: str, n: int, pattern: str) -> int:
    """Let operations of a kind fail; how many there were."""
    broker = CoreBroker(SETTINGS, MemoryFileSystem(Random(1)))
    counts: Counter[str] = Counter()

    def fail(operation: str, path: str) -> OSError | None:
        counts[operation] += 1
        fails = operation == kind and PATTERNS[pattern](counts[kind], n)
        return OSError(errno.EIO, "I/O error", path) if fails else None

    broker.filesystem.fail = fail
    life = Life(broker)
    life.live()
    broker.filesystem.fail = None
    if any(log.is_offline and not log.health.can_be_reopened for log in broker.node.logs):
        # A flush has failed: nothing is written, nor confirmed, before the broker is started again.
        return counts[kind]
    broker.advance(12)
    # One more change of each, made of what is in memory: the log has to agree with it.
    for member in ("a", "c"):
        life.heartbeat(member)
    life.commit(9)
    life.transact(commit=True)
    before = told(broker)
    again = broker.crashed()
    again.now = broker.now
    again.advance(2)

    assert told(again) == before, f"{kind} {n}"
    return counts[kind]


def unharmed(kind: str) -> int:
    """How many operations of a kind there are while nothing fails."""
    return survive(kind, 1 << 30, "once")


KINDS = ["write", "sync", "create", "open", "read", "rename", "list"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_that_fails_leaves_memory_and_log_as_one(kind: str) -> None:
    n, times = 1, 1
    while n <= times:
        times = survive(kind, n, "once")
        n += 1


@pytest.mark.parametrize("pattern", ["until mended", "each n-th"])
@pytest.mark.parametrize("kind", KINDS)
def test_operations_that_go_on_failing_leave_memory_and_log_as_one(kind: str, pattern: str) -> None:
    times = unharmed(kind)
    for n in range(1, times + 1, max(1, times // PLACES)):
        survive(kind, n, pattern)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["until mended", "each n-th"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_place_from_which_operations_fail_leaves_memory_and_log_as_one(kind: str, pattern: str) -> None:
    for n in range(1, unharmed(kind) + 1):
        survive(kind, n, pattern)


def test_a_commit_whose_flush_has_failed_is_not_told() -> None:
    broker = CoreBroker(SETTINGS, MemoryFileSystem(Random(1)))
    life = Life(broker)
    life.ask(create("t", 4), 7)
    life.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["simple"]), 4)
    life.commit(1)
    broker.filesystem.fail = lambda operation, path: OSError(errno.EIO, path) if operation == "sync" else None
    life.commit(2)
    broker.advance(1)

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="simple", topics=None)])
    found = broker.connect().request(request, 8).groups[0]

    offsets = [partition.committed_offset for topic in found.topics for partition in topic.partitions]
    assert found.error_code or offsets == [1]
