"""Everything a client can make the broker keep has a bound."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker import client_quota_manager as client_quotas
from barnabas.broker import request_dispatcher
from barnabas.broker.groups import group_store
from barnabas.broker.groups.classic import joining
from barnabas.broker.handlers import fetch as fetch_handler
from barnabas.broker.log import producer_state_manager
from barnabas.broker.network.connection_quotas import ConnectionQuotas
from barnabas.broker.network.request_buffer import SHARED_BUFFER_SIZE, RequestBuffer
from barnabas.broker.transactions import transaction_state_manager
from barnabas.protocol.codec import MAX_ELEMENTS
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, create, fetch, produce
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import GROUP
from tests.unit.broker.transactions.harness import Harness as TransactionHarness
from tests.unit.broker.transactions.wire import WireProducer

#: In place of MAX_ELEMENTS, for speed where the code is not compiled.
FEW = 3000
HUNDRED_MEGABYTES = 100 << 20


def is_served(broker: CoreBroker) -> bool:
    return broker.connect().request(MetadataRequest(topics=[]), 12) is not None


# --- requests


def test_a_size_that_is_only_claimed_takes_no_memory() -> None:
    buffer = RequestBuffer(HUNDRED_MEGABYTES)
    received = 0
    for wanted in (10, 100_000, 1_000_000, 10_000_000):
        while received < wanted:
            space = buffer.space()
            piece = HUNDRED_MEGABYTES.to_bytes(4, "big") if received == 0 else bytes(min(len(space), wanted - received))
            space[: len(piece)] = piece
            buffer.filled(len(piece))
            received += len(piece)
            assert buffer.next_frame() is None
        assert buffer.memory <= 5 * max(received, SHARED_BUFFER_SIZE)


def test_who_has_sent_large_requests_gets_the_memory_for_the_next_at_once() -> None:
    buffer = RequestBuffer(HUNDRED_MEGABYTES)
    for _ in range(2):
        data = memoryview((1_000_000).to_bytes(4, "big") + bytes(1_000_000))
        rooms = set()
        while len(data):
            space = buffer.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            buffer.filled(count)
            data = data[count:]
            frame = buffer.next_frame()
            rooms.add(buffer.memory)
        assert frame is not None
        assert len(frame) == 1_000_000
    assert max(rooms) == 1_000_000 + SHARED_BUFFER_SIZE
    assert len(rooms - {SHARED_BUFFER_SIZE}) == 1


def test_connections_without_a_request_hold_no_buffer(broker: CoreBroker) -> None:
    clients = [broker.connect() for _ in range(1000)]
    for client in clients:
        assert client.request(MetadataRequest(topics=[]), 12) is not None
    assert sum(client.connection.buffer.memory for client in clients) == 0
    assert len(broker.node.core.channel.spare_buffers) <= 64


@pytest.mark.parametrize(
    "request_of_many",
    [
        (OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", [0] * (FEW + 1))]), 5),
        (MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(FEW // 2)] * 3), 4),
        (
            FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition() for _ in range(3)])] * (FEW // 3)),
            7,
        ),
    ],
    ids=["numbers", "structs", "nested"],
)
def test_a_request_of_too_many_elements_costs_its_connection(
    broker: CoreBroker, request_of_many: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_dispatcher, "MAX_ELEMENTS", FEW)
    message, version = request_of_many  # type: ignore[misc]  # a pair of request and version
    client = broker.connect()
    client.send(message, version)
    assert client.closed
    assert "elements are more than" in broker.warnings[-1]
    assert is_served(broker)


def test_a_request_of_too_many_unknown_tags_costs_its_connection(
    broker: CoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_dispatcher, "MAX_ELEMENTS", FEW)
    request = bytearray(encode_request(MetadataRequest(topics=[]), 12, 1, "c"))
    assert request[-1] == 0

    def varint(value: int) -> bytes:
        return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14])

    tags = b"".join(varint(tag + 100) + b"\0" for tag in range(FEW + 1))
    body = bytes(request[4:-1]) + varint(FEW + 1) + tags
    client = broker.connect()
    client.send_bytes(len(body).to_bytes(4, "big") + body)
    assert client.closed
    assert "elements are more than" in broker.warnings[-1]


def test_subscriptions_inside_of_group_requests_are_bounded_as_well(broker: CoreBroker) -> None:
    client = broker.connect()
    client.request(create("t"), 7)
    topics = b"\0\0" * (MAX_ELEMENTS + 1)
    metadata = b"\0\x01" + (MAX_ELEMENTS + 1).to_bytes(4, "big") + topics + b"\xff" * 4 + b"\0" * 4
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined = client.request(join, 3)
    broker.advance(1)
    joined = joined or client.responses[-1]
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\0\1" + b"\0" * 8)
    sync = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assignment]
    )
    assert client.request(sync, 3) is not None
    assert is_served(broker)
    assert not [warning for warning in broker.warnings if "please report" in warning]


def test_malformed_requests_without_end_do_not_fill_the_log(broker: CoreBroker) -> None:
    for _ in range(500):
        client = broker.connect()
        client.send_bytes(b"\0\0\0\4GET ")
        assert client.closed
    assert len(broker.warnings) == 1
    broker.advance(1.5)
    broker.connect().send_bytes(b"\0\0\0\4GET ")
    assert "(499 more since the last time)" in broker.warnings[-1]


# --- responses


def filled(broker: CoreBroker, megabytes: int) -> CoreClient:
    client = broker.connect()
    client.request(create("t", max_message_bytes="2000000"), 7)
    for _ in range(megabytes):
        client.request(produce("t", batch(bytes(1_000_000))), 12)
    return client


def fetched(client: CoreClient) -> int:
    response = client.request(fetch("t", partition_max_bytes=100 << 20, max_bytes=100 << 20), 12)
    return len(response.responses[0].partitions[0].records)


def test_what_slow_readers_hold_makes_fetches_smaller(broker: CoreBroker) -> None:
    client = filled(broker, 5)
    assert fetched(client) > 4_900_000
    slow = broker.connect()
    slow.connection.output_blocked(63 << 20)
    assert 1_000_000 < fetched(client) < 3_000_000
    slow.connection.output_resumed(broker.instant)
    assert fetched(client) > 4_900_000
    slow.connection.output_blocked(64 << 20)
    slow.lose()
    assert broker.state.unsent_bytes == 0
    assert fetched(client) > 4_900_000


def test_a_fetch_that_waited_is_answered_by_what_slow_readers_hold_then(broker: CoreBroker) -> None:
    client = filled(broker, 5)
    request = fetch("t", min_bytes=5_500_000, max_wait_ms=1000, partition_max_bytes=100 << 20, max_bytes=100 << 20)
    assert client.request(request, 12) is None
    broker.connect().connection.output_blocked(64 << 20)
    filled(broker, 1)
    broker.node.core.settle(broker.instant)
    assert len(client.responses[-1].responses[0].partitions[0].records) < 2_000_000  # type: ignore[attr-defined]


def test_who_never_takes_a_response_is_idle_and_cut_off(broker: CoreBroker) -> None:
    client = broker.connect()
    aborted: list[bool] = []
    client.transport.abort = lambda: aborted.append(True)
    client.connection.output_blocked(1 << 20)
    broker.advance(590)
    assert not aborted
    client.connection.output_resumed(broker.instant)
    client.connection.output_blocked(1 << 20)
    broker.advance(400)
    assert not aborted
    broker.advance(500)
    assert aborted


def test_idle_connections_are_closed_but_not_those_that_wait_for_an_answer() -> None:
    broker = CoreBroker({"connections.max.idle.ms": 10_000})
    waiting, idle = broker.connect(), broker.connect()
    waiting.request(create("t"), 7)
    assert waiting.request(fetch("t", max_wait_ms=60_000), 12) is None
    broker.advance(20)
    assert idle.closed
    assert not waiting.closed


# --- what is remembered


def test_a_fetch_session_has_a_bound(broker: CoreBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_handler, "MAX_ELEMENTS", 100)
    client = broker.connect()
    client.request(create("t", 1), 7)
    session = client.request(fetch("t", session_epoch=0), 11).session_id
    for epoch in range(1, 30):
        partitions = [FetchPartition(partition=10 * epoch + index) for index in range(10)]
        request = FetchRequest(
            session_id=session, session_epoch=epoch, topics=[FetchTopic(topic="t", partitions=partitions)]
        )
        response = client.request(request, 11)
        if response.error_code:
            break
    assert (epoch, response.error_code) == (10, errors.FetchSessionIdNotFoundError.code)
    assert len(broker.state.fetch_sessions) == 0


def producers_of(broker: CoreBroker) -> dict[int, object]:
    return broker.node.logs.get_log(TopicPartition("t", 0)).producer_state.producers  # type: ignore[union-attr]


def test_producers_are_forgotten_after_the_time_that_is_set() -> None:
    broker = CoreBroker({"producer.id.expiration.ms": 3_600_000, "log.retention.ms": -1})
    client = broker.connect()
    client.request(create("t"), 7)
    client.request(produce("t", batch(b"a", producer=(7, 0, 0))), 12)
    broker.advance(3500)
    assert list(producers_of(broker)) == [7]
    broker.advance(1200)
    assert list(producers_of(broker)) == []
    # For logs that are there already, too.
    client.request(produce("t", batch(b"a", producer=(8, 0, 0), now_ms=broker.now_ms)), 12)
    config = AlterableConfig(name="producer.id.expiration.ms", config_operation=0, value="60000")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    response = broker.connect().request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0
    broker.advance(800)
    assert list(producers_of(broker)) == []


def test_a_partition_remembers_so_many_producers_and_those_of_open_transactions(
    broker: CoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state_manager, "MAX_PRODUCERS", 20)
    client = broker.connect()
    client.request(create("t"), 7)
    transactional = WireProducer(client, "tx")
    transactional.init()
    transactional.send("t", b"a")
    for producer_id in range(1000, 1100):
        client.request(produce("t", batch(b"a", producer=(producer_id, 0, 0), now_ms=START_MS + producer_id)), 12)
        assert len(producers_of(broker)) <= 20
    assert transactional.producer_id in producers_of(broker)
    assert 1099 in producers_of(broker)
    # Who was forgotten goes on.
    answer = client.request(produce("t", batch(b"b", producer=(1000, 0, 1))), 12)
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.timeout(20)
def test_a_pattern_of_transactional_ids_cannot_backtrack_without_end(broker: CoreBroker) -> None:
    client = broker.connect()
    WireProducer(client, "a" * 60 + "!").init()
    WireProducer(client, "ä/1").init()

    def listed(pattern: str) -> list[str]:
        response = client.request(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert response.error_code == 0
        return [found.transactional_id for found in response.transaction_states]

    assert listed("(a|a)*(a+)+") == []
    assert listed("(a+)+!") == ["a" * 60 + "!"]
    assert listed("[^a]/\\d") == ["ä/1"]


# --- connections


def test_a_process_has_only_so_many_descriptors(broker: CoreBroker) -> None:
    quotas = ConnectionQuotas(broker.state.config, broker.state.client_quotas, most=3)
    assert [quotas.admit("a", "PLAINTEXT", 0.0) is None for _ in range(5)] == [True, True, True, False, False]
    refusal = quotas.admit("b", "PLAINTEXT", 0.0)
    assert refusal is not None
    assert "ulimit -n" in refusal.reason


def test_large_requests_together_take_what_is_set_and_the_others_wait() -> None:
    broker = CoreBroker({"queued.max.request.bytes": 300_000})
    client = broker.connect()
    client.request(create("t"), 7)
    request = encode_request(produce("t", batch(bytes(250_000))), 12, 1, "c")
    first, second, third, waiting = (broker.connect() for _ in range(4))
    for holder in (first, second):
        holder.send_bytes(request[:70_000])
    waiting.send_bytes(request[: waiting.connection.buffer.space().nbytes])
    third.send_bytes(request[: third.connection.buffer.space().nbytes])
    assert not waiting.connection.wants_input
    assert broker.node.core.channel.request_memory.used > 500_000
    # Small ones need none.
    assert client.request(MetadataRequest(topics=[]), 12) is not None

    first.lose()
    second._expected.append((0, 12, 1))
    second.send_bytes(request[70_000:])
    broker.node.core.settle(broker.instant)

    assert len(second.responses) == 1
    assert waiting.connection.wants_input
    assert third.connection.wants_input
    for last in (waiting, third):
        last._expected.append((0, 12, 1))
        last.send_bytes(request[SHARED_BUFFER_SIZE:])
        assert len(last.responses) == 1
    assert broker.node.core.channel.request_memory.used == 0


# --- what coordinators keep


def test_all_partitions_together_remember_so_many_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state_manager, "MAX_PRODUCERS_OF_ALL_LOGS", 30)
    broker = CoreBroker()
    client = broker.connect()
    client.request(create("t", partitions=20), 7)
    honest = produce("t", batch(b"a", producer=(1, 0, 0), now_ms=START_MS), 19)
    assert client.request(honest, 12).responses[0].partition_responses[0].error_code == 0
    for partition in range(10):
        for producer_id in range(10 + partition):
            record = batch(b"a", producer=(100 * partition + producer_id + 2, 0, 0), now_ms=START_MS + producer_id)
            client.request(produce("t", record, partition), 12)

    broker.advance(60)

    logs = [broker.node.logs.get_log(TopicPartition("t", index)) for index in range(20)]
    remembered = [len(log.producer_state.producers) if log is not None else 0 for log in logs]
    assert 0 < sum(remembered) <= 30
    assert remembered[19] == 1, "the partitions with the most pay for it"


def test_the_group_coordinator_takes_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_store, "MAX_GROUPS", 3)
    harness = ConsumerHarness()
    harness.topic("t", 1)
    refused = errors.PolicyViolationError.code
    for group in ("a", "b", "c"):
        assert harness.commit({("t", 0): 1}, group=group) == {("t", 0): 0}

    assert harness.commit({("t", 0): 1}, group="d") == refused
    assert harness.join(group="d").response.error_code == refused
    with pytest.raises(errors.PolicyViolationError):
        Consumer(harness, "member", group="d").join()
    assert len(harness.warnings) == 1, "an operator hears of it once"

    assert harness.commit({("t", 0): 2}, group="a") == {("t", 0): 0}, "groups that are there go on"
    harness.coordinator.delete_group("b", harness.at)
    assert harness.commit({("t", 0): 1}, group="d") == {("t", 0): 0}


def test_a_group_remembers_so_many_ids_that_nobody_came_back_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_PENDING_MEMBERS", 5)
    harness = ConsumerHarness()
    ids = [harness.join().response.member_id for _ in range(20)]

    assert len(harness.coordinator._store.groups[GROUP].pending_members) == 5  # type: ignore[attr-defined]
    assert harness.coordinator.statistics()["timers"] == 6, "the sessions of the others are over"
    assert harness.join(ids[0]).response.error_code == errors.UnknownMemberIdError.code


def test_the_transaction_coordinator_takes_so_many_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_state_manager, "MAX_IDS", 3)
    harness = TransactionHarness()
    producers = {id: harness.init(id=id) for id in ("a", "b", "c")}

    for _ in range(2):
        with pytest.raises(errors.PolicyViolationError, match="takes no new one until some expire"):
            harness.init(id="d")
    assert len(harness.warnings) == 1

    harness.add(producers["a"], ("t", 0), id="a")
    harness.end(producers["a"], commit=True, id="a")
    assert harness.state("a") == "CompleteCommit", "ids that are there go on"
    harness.advance(8 * 86_400)
    harness.init(id="d")


def test_quotas_remember_so_many_client_ids(monkeypatch: pytest.MonkeyPatch, broker: CoreBroker) -> None:
    monkeypatch.setattr(client_quotas, "MAX_CLIENTS", 10)
    quotas = broker.state.client_quotas
    for number in range(100):
        quotas._client("", f"invented-{number}", float(number))
        assert len(quotas._clients) <= 10
    assert ("", "invented-99") in quotas._clients
