"""The short way of plain batches does what the general one does: the same answers, and the same files to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas import errors
from barnabas.broker.log.log_append_info import LogAppendInfo
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.produce_response import ProduceResponse
from barnabas.records import RecordBatchBuilder
from tests.support.core_broker import START_MS, CallingTransport, CoreBroker, batch, create, produce

TOPICS = {
    "plain": {},
    "appended": {"message_timestamp_type": "LogAppendTime"},
    "compacted": {"cleanup_policy": "compact"},
    "packed": {"compression_type": "gzip"},
    "short": {"segment_bytes": str(1 << 20), "max_message_bytes": "300", "message_timestamp_after_max_ms": "10"},
    "flushed": {"flush_messages": "2"},
}
PARTITIONS = 3
MOSTLY = 4


ACLS = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
DENIED = ("appended", "short")


def broker_with_topics(*, asks: bool = False) -> CoreBroker:
    """`asks`: of clients it is asked whether they may write, and alice may not to some of the topics."""
    broker = CoreBroker(ACLS if asks else {})
    client = broker.connect()
    if asks:
        acls = [AclCreation(2, topic, 3, "User:alice", "*", 4, 2 if topic in DENIED else 3) for topic in TOPICS]
        client.request(CreateAclsRequest(creations=acls), 3)
    for topic, configs in TOPICS.items():
        client.request(create(topic, PARTITIONS, **configs), 7)
    return broker


def broker_without_short_way(*, asks: bool = False) -> CoreBroker:
    broker = broker_with_topics(asks=asks)
    broker.state.replica_manager.append_plain = lambda *_: -1
    return broker


def mostly(usual: object, *others: object) -> st.SearchStrategy[object]:
    return st.sampled_from([usual] * MOSTLY * len(others) + list(others))


@st.composite
def batches(draw: st.DrawFn, sequences: dict[int, int]) -> bytes:
    builder = RecordBatchBuilder(1 << 20, draw(mostly("none", "gzip")))
    count = draw(st.integers(1, 3))
    for _ in range(count):
        value = draw(mostly(b"x" * 100, None, b"", b"y" * 400, b"z" * 17_000))
        builder.try_append(START_MS + draw(mostly(0, 5, -7, 3_700_000, 11)), draw(mostly(b"k", None)), value, [])
    producer = draw(st.sampled_from([-1, -1, 5, 6, 7]))
    if producer >= 0:
        sequence = sequences.get(producer, 0) + draw(mostly(0, -1, 1))
        sequences[producer] = sequence + count
        builder.set_producer_state(
            producer, draw(mostly(0, 1)), sequence & 0x7FFFFFFF, transactional=draw(mostly(False, True))
        )
    batch = bytearray(builder.close())
    if draw(mostly(False, True)):
        batch[draw(st.integers(0, len(batch) - 1))] ^= draw(st.sampled_from([1, 0x80]))
    return bytes(batch)


@st.composite
def requests(draw: st.DrawFn, broker: CoreBroker, sequences: dict[int, int]) -> bytes:
    version = draw(st.sampled_from([13, 12, 9, 8, 10, 11]))
    topics = []
    for _ in range(draw(mostly(1, 0, 2, 3))):
        name = draw(mostly("plain", *TOPICS, "absent", "__consumer_offsets", "ä", "n" * 126, "n" * 127))
        found = broker.state.metadata.topic(name)
        partitions = [
            PartitionProduceData(
                index=draw(mostly(0, 1, 2, PARTITIONS, -1)),
                records=draw(mostly(draw(batches(sequences)), None, b"", b"short")),
            )
            for _ in range(draw(mostly(1, 0, 2, 3)))
        ]
        topic_id = found.id if found is not None else draw(st.sampled_from([bytes(16), b"\1" * 16]))
        topics.append(TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions))
    request = ProduceRequest(
        transactional_id=draw(mostly(None, "t")), acks=draw(mostly(-1, 1, 0, 2)), timeout_ms=1, topic_data=topics
    )
    client_id = draw(mostly("client", None, "", "__admin_client", "ä"))
    frame = bytearray(encode_request(request, version, draw(st.integers(-(1 << 31), (1 << 31) - 1)), client_id))
    change = draw(mostly("none", "byte", "more", "less"))
    if change == "byte":
        frame[draw(st.integers(4, len(frame) - 1))] ^= draw(st.sampled_from([1, 2, 0x80]))
    elif change == "more":
        frame += b"\1\2"
    elif change == "less":
        del frame[draw(st.integers(5, len(frame))) :]
    return (len(frame) - 4).to_bytes(4, "big") + frame[4:]


class Sender:
    """A connection that keeps the bytes of the responses, and holds that no deadline moves without a word."""

    def __init__(self, broker: CoreBroker):
        self.answers: list[bytes] = []
        self.closed = False
        self._broker = broker
        self._connection = broker.node.core.channel.connect(
            CallingTransport(self._take, self._close), "10.0.0.1", "PLAINTEXT", broker.now
        )
        self._connection.info.principal = "User:alice"

    def send(self, data: bytes) -> None:
        core = self._broker.node.core
        core.has_new_deadlines, deadline = False, core.next_deadline()
        if not self.closed:
            self._connection.receive(data, self._broker.instant)
        assert core.has_new_deadlines or core.next_deadline() == deadline

    def _take(self, buffers: object) -> None:
        self.answers.append(b"".join(buffers))  # type: ignore[call-overload]  # they are buffers

    def _close(self) -> None:
        self.closed = True


def files(broker: CoreBroker, directory: str = "/data") -> dict[str, bytes]:
    found = {}
    for entry in broker.filesystem.list_directory(directory):
        path = f"{directory}/{entry.name}"
        found.update(files(broker, path) if entry.is_directory else {path: broker.filesystem.read(path)})
    return found


def counters(broker: CoreBroker) -> list[tuple[object, ...]]:
    return [
        (found.topic, found.index, found.appended, found.messages_in, found.log.high_watermark)
        for found in broker.state.replica_manager.partitions()
    ]


@settings(max_examples=80)
@given(st.data())
def test_the_short_and_the_general_way_give_the_same_answers_and_files(data: st.DataObject) -> None:
    asks = data.draw(st.booleans())
    short, general = broker_with_topics(asks=asks), broker_without_short_way(asks=asks)
    sequences: dict[int, int] = {}
    senders = [Sender(short), Sender(general)]
    for _ in range(data.draw(st.integers(1, 12))):
        frame = data.draw(requests(short, sequences))
        if senders[0].closed:
            senders = [Sender(short), Sender(general)]
        for sender in senders:
            sender.send(frame)
        assert senders[0].answers == senders[1].answers
        assert senders[0].closed == senders[1].closed
    for broker in (short, general):
        broker.stop()
    assert counters(short) == counters(general)
    assert files(short) == files(general)
    assert short.warnings == general.warnings


@pytest.mark.parametrize("asks", [False, True])
def test_a_plain_produce_goes_the_short_way(monkeypatch: pytest.MonkeyPatch, asks: bool) -> None:
    broker = broker_with_topics(asks=asks)
    topic_id = broker.state.metadata.topic("plain").id
    client = broker.connect()
    client.connection.info.principal = "User:alice"
    versions = range(9, 14)
    for version in versions:
        # The first of a version, and the first of a producer, go the long way.
        client.request(produce("plain", batch(b"a", producer=(version, 0, 0)), topic_id=topic_id), version)
    monkeypatch.setattr(UnifiedLog, "append", None)

    for version in versions:
        for producer in ((version, 0, 1), None):
            response = client.request(produce("plain", batch(b"b", producer=producer), topic_id=topic_id), version)
            assert response.responses[0].partition_responses[0].error_code == 0


def test_the_short_way_ends_when_the_right_to_write_does() -> None:
    broker = broker_with_topics(asks=True)
    client, admin = broker.connect(), broker.connect()
    client.connection.info.principal = "User:alice"

    def code() -> int:
        found: int = client.request(produce("plain", batch(b"a")), 9).responses[0].partition_responses[0].error_code
        return found

    assert [code(), code()] == [0, 0]
    admin.request(CreateAclsRequest(creations=[AclCreation(2, "plain", 3, "User:alice", "*", 4, 2)]), 3)
    assert code() == errors.TopicAuthorizationError.code
    assert sum(found.messages_in for found in broker.state.replica_manager.partitions()) == 2


def several(*partitions: tuple[str, int, bytes]) -> ProduceRequest:
    """A request with a batch for each of these partitions of topics."""
    topics: dict[str, TopicProduceData] = {}
    for topic, index, records in partitions:
        data = topics.setdefault(topic, TopicProduceData(name=topic)).partition_data
        data.append(PartitionProduceData(index=index, records=records))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=list(topics.values()))


def results(response: ProduceResponse) -> list[tuple[int, int]]:
    """Error code and base offset of each partition."""
    return [
        (partition.error_code, partition.base_offset)
        for topic in response.responses
        for partition in topic.partition_responses
    ]


def test_plain_batches_for_several_partitions_go_the_short_way_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_topics()
    client = broker.connect()
    general: list[UnifiedLog] = []

    def append(log: UnifiedLog, *arguments: Any, **named: Any) -> LogAppendInfo:
        general.append(log)
        return appending(log, *arguments, **named)

    appending = UnifiedLog.append
    monkeypatch.setattr(UnifiedLog, "append", append)
    plain, packed = batch(b"a", b"b"), batch(b"a", compression="gzip")

    answers = [
        client.request(several(("plain", 0, plain), ("plain", 1, packed), ("plain", 2, plain), ("short", 0, plain)), 12)
        for _ in range(3)
    ]

    # The first batch of a log names the leader epoch, which is not plain.
    expected = [("plain", 0), ("plain", 1), ("plain", 2), ("short", 0), ("plain", 1), ("plain", 1)]
    assert [log.topic_partition for log in general] == expected
    assert [results(answer) for answer in answers] == [
        [(0, 0), (0, 0), (0, 0), (0, 0)],
        [(0, 2), (0, 1), (0, 2), (0, 2)],
        [(0, 4), (0, 2), (0, 4), (0, 4)],
    ]


def test_a_disk_that_fails_for_one_partition_is_told_for_that_one() -> None:
    brokers = [broker_with_topics(), broker_without_short_way()]
    request = several(*(("plain", index, batch(b"a")) for index in range(PARTITIONS)))
    told = []
    for broker in brokers:
        client = broker.connect()
        client.request(request, 12)
        broken = f"/plain-1/{0:020}.log"
        broker.filesystem.fail = lambda operation, path, broken=broken: (
            OSError(28, "full") if operation == "write" and path.endswith(broken) else None
        )
        told.append(results(client.request(request, 12)))
        broker.filesystem.fail = lambda *_: None
        told.append(results(client.request(request, 12)))
        broker.stop()

    assert told == 2 * [[(0, 1), (errors.KafkaStorageError.code, -1), (0, 1)], [(0, 2), (0, 1), (0, 2)]]
    assert files(brokers[0]) == files(brokers[1])


def test_a_disk_that_fails_is_told_to_the_client() -> None:
    broker = broker_with_topics()
    client = broker.connect()
    codes = []
    for problem in (None, OSError(5, "broken"), None):
        broker.filesystem.fail = lambda operation, _, problem=problem: problem if operation == "write" else None
        response = client.request(produce("plain", batch(b"a")), 12)
        codes.append(response.responses[0].partition_responses[0].error_code)
    assert codes == [0, errors.KafkaStorageError.code, 0]
