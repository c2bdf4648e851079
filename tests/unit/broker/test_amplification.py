"""A small request costs little: for every API, requests made to cost the most, derived from the schema.

Each array of a request is filled with the same element many times, and with as many different ones; the strings name
the largest topic and the largest group there are. A response may grow with the request, not by the repetition of a
name, and no turn of the loop is long.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker import piecewise, topic_admin
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.core_broker import CoreBroker, CoreClient, create
from tests.support.worst_cases import (
    BIG_TOPIC,
    BYTES_PER_BYTE,
    FEW,
    GROUP,
    LONGEST_TURN,
    MANY,
    PARTITIONS,
    Cost,
    Generator,
    everything,
)

COMMITTED = 2000


@pytest.fixture
def large() -> CoreBroker:
    """A broker with a large topic, a group that committed much, and one that uses neither."""
    broker = CoreBroker()
    client = broker.connect()
    assert client.request(create(BIG_TOPIC, PARTITIONS), 7).topics[0].error_code == 0
    committed = [OffsetCommitRequestPartition(n, committed_offset=1, committed_metadata="") for n in range(COMMITTED)]
    topics = [OffsetCommitRequestTopic(name=BIG_TOPIC, partitions=committed)]
    broker.advance(1)
    answer = client.request(OffsetCommitRequest(group_id=GROUP, topics=topics, member_id=""), 8)
    assert answer.topics[0].partitions[0].error_code == 0
    return broker


def topic_id(broker: CoreBroker) -> bytes:
    topic = broker.node.metadata.topic(BIG_TOPIC)
    assert topic is not None
    return topic.id


def test_the_measure_sees_what_is_answered(large: CoreBroker) -> None:
    one, two = (
        Cost(large.connect(), MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12)
        for names in (["none"], ["none", BIG_TOPIC])
    )
    assert two.answered - one.answered > 20 * PARTITIONS


@pytest.mark.parametrize("same", [True, False], ids=["the same", "others"])
@pytest.mark.parametrize("key", SERVED, ids=lambda key: SERVED[key][0])
def test_more_of_anything_costs_what_it_takes_to_ask(large: CoreBroker, key: int, same: bool) -> None:
    version = SERVED[key][2]
    id = topic_id(large)
    for path in Generator(key, version, id).paths():
        few, many = (
            Cost(large.connect(), Generator(key, version, id, path, count, same).request(), version)
            for count in (FEW, MANY)
        )

        allowed = BYTES_PER_BYTE * (many.asked - few.asked)
        assert many.answered - few.answered <= allowed, f"{path}: {many.answered} bytes for {many.asked}"
        assert max(many.turns) < LONGEST_TURN, path


@pytest.mark.parametrize("key", SERVED, ids=lambda key: SERVED[key][0])
def test_asking_for_everything_takes_no_long_turn(large: CoreBroker, key: int) -> None:
    version = SERVED[key][2]
    request = everything(key, version)
    assert max(Cost(large.connect(), request, version).turns) < LONGEST_TURN


def test_a_topic_that_is_named_a_hundred_times_is_described_once(large: CoreBroker) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=BIG_TOPIC)] * 100)
    [topic] = large.connect().request(request, 12).topics
    assert [partition.partition_index for partition in topic.partitions] == list(range(PARTITIONS))

    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id(large))] * 100)
    assert len(large.connect().request(by_id, 12).topics) == 1


def test_a_resource_and_a_directory_are_described_once(large: CoreBroker) -> None:
    broker_1 = DescribeConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="1")
    assert len(large.connect().request(DescribeConfigsRequest(resources=[broker_1] * 300), 4).results) == 1
    log_dirs = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(BIG_TOPIC, [0, 0, 1])] * 100)
    [directory] = large.connect().request(log_dirs, 4).results
    assert [p.partition_index for topic in directory.topics for p in topic.partitions] == [0, 1]


def test_others_are_served_while_a_large_response_is_made(large: CoreBroker) -> None:
    names = [f"t{n}" for n in range(40)]
    for name in names:
        large.connect().request(create(name, piecewise.PIECE // 4), 7)
    asking, other = large.connect(), large.connect()

    asking.send(MetadataRequest(topics=None), 12)

    assert asking.responses == []
    assert other.request(MetadataRequest(topics=[]), 12) is not None
    large.advance(0)
    [response] = asking.responses
    assert {topic.name: len(topic.partitions) for topic in response.topics if topic.name in names} == dict.fromkeys(
        names, piecewise.PIECE // 4
    )


def test_a_client_that_goes_away_leaves_no_response_in_the_making(large: CoreBroker) -> None:
    for name in ("a", "b", "c"):
        large.connect().request(create(name, piecewise.PIECE), 7)
    client = large.connect()
    client.send(MetadataRequest(topics=None), 12)

    client.lose()
    large.advance(0)

    assert large.node.state.large_responses.next_deadline() > large.now
    assert large.node.state.purgatory.parked == 0


def test_a_fault_while_a_large_response_is_made_ends_its_connection_only(
    large: CoreBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        large.connect().request(create(name, piecewise.PIECE), 7)
    client = large.connect()
    client.send(MetadataRequest(topics=None), 12)

    def fail(*_: Any) -> bytes:
        raise RuntimeError("planted")

    monkeypatch.setattr(piecewise, "encode_elements", fail)
    large.advance(0)

    assert client.closed
    assert "failed at MetadataRequest; please report this" in large.warnings[-1]
    assert large.connect().request(MetadataRequest(topics=[]), 12) is not None


# --- how much may be kept for clients


def described(broker: CoreBroker, topics: int) -> CoreClient:
    """A client that asks for all that is to be said of so many topics."""
    client = broker.connect()
    resources = [
        DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=f"t{n}") for n in range(topics)
    ]
    client.send(DescribeConfigsRequest(resources=resources, include_documentation=True, include_synonyms=True), 4)
    return client


@pytest.fixture
def many_topics(monkeypatch: pytest.MonkeyPatch) -> CoreBroker:
    monkeypatch.setattr(piecewise, "LEAST_BYTES", 100_000)
    monkeypatch.setattr(piecewise, "MOST_BYTES", 1_000_000)
    broker = CoreBroker()
    broker.connect().request(CreateTopicsRequest([CreatableTopic(f"t{n}", 1, 1) for n in range(300)]), 7)
    return broker


def results(client: CoreClient) -> tuple[int, int]:
    """How many resources were described, and how many refused."""
    codes = [result.error_code for result in client.responses[-1].results]
    refused = codes.count(errors.PolicyViolationError.code)
    assert codes.count(0) + refused == len(codes)
    return codes.count(0), refused


def test_the_settings_in_one_response_have_a_bound(many_topics: CoreBroker) -> None:
    sizes: list[int] = []
    client = described(many_topics, 300)
    take = client.transport.write
    client.transport.write = lambda buffers: (sizes.extend(map(len, buffers)), take(buffers))[1]

    many_topics.advance(0)

    all_described, refused = results(client)
    assert all_described > 20
    assert refused > 20
    assert 1_000_000 <= sum(sizes) < 1_300_000
    client = described(many_topics, all_described)
    many_topics.advance(0)
    assert results(client) == (all_described, 0), "what a response has held is free again"


def test_responses_in_the_making_share_the_bound(many_topics: CoreBroker) -> None:
    clients = [described(many_topics, 300) for _ in range(5)]
    gone = clients.pop()
    large, most = many_topics.state.large_responses, 0
    for _ in range(4):
        large.tick(many_topics.instant)
    gone.lose()
    while large.next_deadline() <= many_topics.now:
        large.tick(many_topics.instant)
        most = max(most, many_topics.state.response_room.held)

    assert 900_000 < most < 1_300_000
    assert all(min(results(client)) > 0 for client in clients), "each gets some, and none all"
    assert many_topics.state.response_room.held == 0


def test_where_clients_take_nothing_each_still_gets_a_little(many_topics: CoreBroker) -> None:
    many_topics.state.unsent_bytes = 50_000_000
    client = described(many_topics, 300)
    many_topics.advance(0)
    assert 5 < results(client)[0] < 100


# --- how much may be created


def creation(*partitions: int) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=f"n{n}", num_partitions=count, replication_factor=-1) for n, count in enumerate(partitions)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


def test_the_limit_of_partitions_is_one_of_the_request(broker: CoreBroker) -> None:
    client = broker.connect()
    refused = client.request(creation(*[5001] * 2), 7).topics
    assert {topic.error_code for topic in refused} == {errors.PolicyViolationError.code}
    assert "10002 partitions are too many for one request" in refused[0].error_message
    assert client.request(creation(5000, 5000), 7).topics[0].error_code == 0

    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(f"n{n}", 10_001, None) for n in range(2)])
    refused = client.request(more, 3).results
    assert {topic.error_code for topic in refused} == {errors.PolicyViolationError.code}


def test_a_cluster_has_a_limit_as_well(broker: CoreBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_admin, "MAX_PARTITIONS", 100)
    client = broker.connect()
    first, second = client.request(creation(60, 60), 7).topics
    assert (first.error_code, second.error_code) == (0, errors.PolicyViolationError.code)
    assert "The cluster has 0 partitions; 120 more would be above the limit of 100" in second.error_message
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic("n0", 101, None)])
    assert client.request(more, 3).results[0].error_code == errors.PolicyViolationError.code


def test_topics_that_come_into_being_by_metadata_are_stored_in_one_commit(large: CoreBroker) -> None:
    names = [f"new-{n}" for n in range(50)]
    before = large.node.metadata.version
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in [*names, "new.1", *names]])
    response = large.connect().request(request, 12)
    assert large.node.metadata.version == before + 1
    found = {topic.name: topic.error_code for topic in response.topics}
    assert found == {**dict.fromkeys(names, 0), "new.1": 0} or found["new.1"] == errors.InvalidTopicError.code
