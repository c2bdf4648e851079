"""Any records in `__consumer_offsets` and `__transaction_state`: the broker starts, tells what it cannot read, serves.

The first byte of an input says which of the two topics. Two pieces are a record's key and value, an empty one is null.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.protocol.messages.list_groups_request import ListGroupsRequest
from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from tests.support.core_broker import DATA, START_MS, CoreBroker, create
from tests.support.sole_replica import append
from tests.unit.broker.transactions.wire import WireProducer
from tests.vectors.message_vectors import message_vectors
from tools.fuzz.disk import disk_with, files_of
from tools.fuzz.pieces import join, split

_TOPICS = ("__consumer_offsets", "__transaction_state")
_MOST_RECORDS = 8
_SETTINGS: dict[str, Any] = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
_KEYS = {
    "OffsetCommit": (0, 1), "GroupMetadata": (2,), "ConsumerGroupMetadata": (3,), "TransactionLog": (0,),
    "ConsumerGroupMemberMetadata": (5,), "ConsumerGroupTargetAssignmentMetadata": (6,),
    "ConsumerGroupTargetAssignmentMember": (7,), "ConsumerGroupCurrentMemberAssignment": (8,),
    "ConsumerGroupRegularExpression": (16,),
}  # fmt: skip


@cache
def _prepared() -> tuple[dict[str, bytes], list[Any]]:
    broker = CoreBroker(_SETTINGS)
    client = broker.connect()
    client.request(create("t", 1), 7)
    producer = WireProducer(client, "tx")
    producer.init()
    producer.send("t", b"a")
    producer.commit_offset("g", "t", 1)
    producer.end(commit=True)
    broker.stop()
    return files_of(broker.filesystem, DATA), [(change.key, change.value) for change in broker.store.read().changes]


def run(data: bytes) -> None:
    """See the module."""
    files, metadata = _prepared()
    store = MemoryStore()
    store.apply(metadata)
    broker = CoreBroker(_SETTINGS, disk_with(files), store)
    log = broker.node.logs.get_log(TopicPartition(_TOPICS[(data[0] if data else 0) & 1], 0))
    assert log is not None
    pieces = split(data[1:], 2 * _MOST_RECORDS)
    builder = RecordBatchBuilder(1 << 24)
    for index in range(0, len(pieces) - 1, 2):
        # A compacted topic takes no record without a key.
        if pieces[index]:
            builder.try_append(START_MS, pieces[index], pieces[index + 1] or None)
    if builder.record_count:
        append(log, builder.close(), now_ms=START_MS)
    # Killed and started again, it finds them.
    again = CoreBroker(_SETTINGS, disk_with(files_of(broker.filesystem, DATA)), store)
    for _ in range(3):
        again.now += 20
        again.node.core.tick(again.instant)
    client = again.connect()
    groups = client.request(ListGroupsRequest(), 4)
    transactions = client.request(ListTransactionsRequest(), 0)
    again.advance(1)
    faults = [warning for warning in again.warnings if "please report this" in warning]
    assert not faults, faults[0]
    assert groups is not None
    assert transactions is not None
    again.now += 700
    again.node.core.tick(again.instant)


def seeds() -> list[bytes]:
    """Return records of Kafka's own classes: every key with every value of its kind."""
    found = []
    vectors = message_vectors()
    for name, versions in _KEYS.items():
        keys = [vector.data for vector in vectors if vector.message == name + "Key"][:2]
        values = [vector for vector in vectors if vector.message == name + "Value"]
        topic = bytes([1 if name == "TransactionLog" else 0])
        for version in versions:
            for key in keys:
                full = version.to_bytes(2, "big") + key
                found += [topic + join([full, value.version.to_bytes(2, "big") + value.data]) for value in values]
                found.append(topic + join([full, b""]))
    return found
