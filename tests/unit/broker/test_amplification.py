"""A small request costs little: for every API, requests made to cost the most, derived from the schema.

Each array of a request is filled with the same element many times, and with as many different ones; the strings name
the largest topic and the largest group there are. A response may grow with the request, not by the repetition of a
name, and no turn of the loop is long.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker import piecewise, topic_admin
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import request_class
from barnabas.protocol.codec import Field, Plan
from barnabas.protocol.framing import encode_request
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
from barnabas.protocol.plan import plan_of
from tests.support.core_broker import CoreBroker, CoreClient, batch, create

BIG_TOPIC, PARTITIONS = "big", 5000
GROUP, COMMITTED = "g", 2000
FEW, MANY = 2, 1000
#: Bytes of the response for each byte that the request is longer: an error with its message for a name of one letter.
BYTES_PER_BYTE = 64
#: Seconds of one turn of the loop, on a machine that has other things to do.
LONGEST_TURN = 0.5

#: What the strings of requests name: what costs the most to tell of. Every field of this kind has to be here.
STRINGS: dict[str, str | None] = {
    "mechanism": "PLAIN", "owner_principal_type": "User", "owner_principal_name": "alice",
    "principal_type": "User", "principal_name": "alice", "principal": "User:alice", "host": "*",
    "resource_name_filter": None,
    "principal_filter": None, "host_filter": None,
    "client_software_name": "x", "client_software_version": "1", "cluster_id": None, "committed_metadata": "",
    "configuration_keys": "retention.ms", "coordinator_keys": GROUP, "entity_name": "x", "entity_type": "client-id",
    "feature": "group.version", "group_id": GROUP, "group_ids": GROUP, "group_instance_id": None, "groups": GROUP,
    "groups_names": GROUP, "instance_id": None, "key": "producer_byte_rate", "match": None, "member_id": "",
    "name": BIG_TOPIC, "path": "/data", "protocol_name": "range", "protocol_type": "consumer", "rack_id": "",
    "reason": None,
    "resource_name": "1", "server_assignor": None, "state_filters": "Ongoing", "states_filter": "Stable",
    "subscribed_topic_names": BIG_TOPIC, "subscribed_topic_regex": None, "topic": BIG_TOPIC, "topic_name": BIG_TOPIC,
    "transactional_id": "tx", "transactional_id_pattern": None, "transactional_ids": "tx", "types_filter": "classic",
    "value": "1",
}  # fmt: skip
NUMBERS = {
    "acks": 1, "count": PARTITIONS + 1, "endpoint_type": 1, "fetch_offset": 0, "isolation_level": 0,
    "max_bytes": 1 << 20, "num_partitions": 1, "partition_max_bytes": 1 << 20, "replica_id": -1,
    "replication_factor": -1, "resource_type": int(ConfigResourceType.BROKER), "resource_types": 2,
    "response_partition_limit": 1 << 30, "session_epoch": -1, "timestamp": 0, "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000, "leader_epoch": 0, "upgrade_type": 1, "max_version_level": 1,
}  # fmt: skip
FLAGS = {"include_documentation": True, "include_synonyms": True, "include_topic_authorized_operations": True}


class Generator:
    """Makes requests of one API in one version; the array at `path` has `count` elements, every other one."""

    def __init__(self, key: int, version: int, topic_id: bytes, path: str = "", count: int = 1, same: bool = True):
        self._cls, self._plan = request_class(key), plan_of(request_class(key), version)
        self._topic_id = topic_id
        self._path = path
        self._count = count
        self._same = same

    def paths(self, plan: Plan | None = None, above: str = "") -> Iterator[str]:
        """The names of all arrays, with those they are in."""
        for field in (plan or self._plan).present:
            here = f"{above}/{field.name}"
            if field.element is not None:
                yield here
            if field.plan is not None:
                yield from self.paths(field.plan, here)

    def request(self) -> Any:
        return self._struct(self._plan, "", 0)

    def _struct(self, plan: Plan, path: str, number: int) -> Any:
        return plan.cls(**{field.name: self._value(field, f"{path}/{field.name}", number) for field in plan.present})

    def _value(self, field: Field, path: str, number: int) -> Any:
        if field.element is not None:
            count = self._count if path == self._path else 1
            return [self._one(field.element, path, 0 if self._same else n) for n in range(count)]
        return self._one(field, path, number)

    def _one(self, field: Field, path: str, number: int) -> Any:
        if field.plan is not None:
            return None if field.nullable else self._struct(field.plan, path, number)
        if field.type == "string":
            text = STRINGS[field.name]
            return text if text is None or not number else f"{text}{number}"
        if field.type == "bool":
            return FLAGS.get(field.name, False)
        if field.type == "uuid":
            return self._topic_id if field.name == "topic_id" and path.count("/") > 1 else bytes(16)
        if field.type in ("bytes", "records"):
            return batch(b"v") if field.type == "records" else b""
        if field.type == "float64":
            return 1.0
        return NUMBERS.get(field.name, number if field.name.startswith(("partition", "index")) else 0)


class Cost:
    """What a request costs: bytes asked, bytes answered, the longest turn in seconds of this process."""

    def __init__(self, client: CoreClient, request: Any, version: int):
        self.asked = len(encode_request(request, version, 1, "test"))
        self.turns: list[float] = []
        written: list[int] = []
        client.transport.write = lambda buffers: written.extend(len(buffer) for buffer in buffers)
        core, large = client.broker.node.core, client.broker.node.state.large_responses
        self._turn(lambda: client.send(request, version))
        self._turn(lambda: core.settle(client.broker.instant))
        while large.next_deadline() <= client.broker.now:
            self._turn(lambda: large.tick(client.broker.instant))
        self.answered = sum(written)

    def _turn(self, work: Any) -> None:
        # What the collector takes is that of the whole test process.
        gc.disable()
        began = time.process_time()
        work()
        self.turns.append(time.process_time() - began)
        gc.enable()


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
    request = request_class(key)()
    for field in plan_of(type(request), version).present:
        if field.element is not None:
            setattr(request, field.name, None if field.nullable else [])
        elif field.plan is None and field.type == "string":
            setattr(request, field.name, STRINGS[field.name] or (None if field.nullable else ""))

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
