"""Every version that ApiVersions offers is really answered, by the module that says so."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.handlers import registry
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import request_class
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

ALL_VERSIONS = [(key, version) for key, (_, low, high) in SERVED.items() for version in range(low, high + 1)]


@pytest.mark.parametrize("key", SERVED)
def test_a_handler_says_of_itself_what_the_table_says_of_it(key: int) -> None:
    module, low, high = SERVED[key]
    handler = import_module(f"barnabas.broker.handlers.{module}")
    assert (key, (low, high)) == (handler.API, handler.VERSIONS)
    known_low, known_high = request_class(key).VALID_VERSIONS
    assert known_low <= low <= high <= known_high


@pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)
def test_an_empty_request_of_every_version_is_answered(client: CoreClient, key: int, version: int) -> None:
    message = request_class(key)()
    if key == 0:
        message.acks = -1  # type: ignore[attr-defined]  # it is a ProduceRequest
    assert client.request(message, version) is not None
    assert not client.closed, client.broker.warnings


def by_name_or_id(broker: CoreBroker, version: int, first_with_ids: int) -> dict[str, Any]:
    topic = broker.state.metadata.topic("flights")
    return {"topic_id": topic.id} if version >= first_with_ids else {}


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_in_every_version(client: CoreClient, version: int) -> None:
    client.request(create("flights"), 7)
    name = "flights" if version < 13 else ""
    response = client.request(produce(name, batch(b"a", b"b"), **by_name_or_id(client.broker, version, 13)), version)
    partition = response.responses[0].partition_responses[0]
    assert (partition.error_code, partition.base_offset) == (0, 0)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_in_every_version(client: CoreClient, version: int) -> None:
    client.request(create("flights"), 7)
    client.request(produce("flights", batch(b"a", b"b")), 12)
    name = "flights" if version < 13 else ""
    response = client.request(fetch(name, 0, **by_name_or_id(client.broker, version, 13)), version)
    partition = response.responses[0].partitions[0]
    assert (response.error_code, partition.error_code, partition.high_watermark) == (0, 0, 2)
    assert len(partition.records) > 0


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(client: CoreClient, version: int) -> None:
    client.request(create("flights", 3), 7)
    everything = MetadataRequest(topics=[] if version == 0 else None)
    for request in (everything, MetadataRequest(topics=[MetadataRequestTopic(name="flights")])):
        response = client.request(request, version)
        assert [(topic.error_code, topic.name) for topic in response.topics] == [(0, "flights")]
        assert [p.partition_index for p in response.topics[0].partitions] == [0, 1, 2]
        assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_in_every_version(client: CoreClient, version: int) -> None:
    response = client.request(create("flights", 3, retention_ms="1000"), version)
    topic = response.topics[0]
    assert topic.error_code == 0
    if version >= 7:
        assert topic.topic_id == client.broker.state.metadata.topic("flights").id
    if version >= 5:
        assert topic.num_partitions == 3
        assert {c.name: c.value for c in topic.configs}["retention.ms"] == "1000"


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_in_every_version(client: CoreClient, version: int) -> None:
    client.request(create("flights"), 7)
    client.request(produce("flights", batch(b"a", b"b")), 12)
    for timestamp, offset in ((-1, 2), (-2, 0)):
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="flights", partitions=[asked])])
        partition = client.request(request, version).topics[0].partitions[0]
        assert (partition.error_code, partition.offset) == (0, offset)


@pytest.mark.parametrize("version", range(2, 5))
def test_offset_for_leader_epoch_in_every_version(client: CoreClient, version: int) -> None:
    client.request(create("flights"), 7)
    client.request(produce("flights", batch(b"a", b"b")), 12)
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="flights", partitions=[asked])])
    partition = client.request(request, version).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_epoch, partition.end_offset) == (0, 0, 2)


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_configs_in_every_version(client: CoreClient, version: int) -> None:
    client.request(create("flights", retention_ms="1000"), 7)
    asked = DescribeConfigsResource(resource_type=2, resource_name="flights", configuration_keys=["retention.ms"])
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    config = client.request(request, version).results[0].configs[0]
    assert (config.value, config.config_source) == ("1000", 1)
    # Of log.retention.ms, which stands for it and has no value, Kafka shows nothing.
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [("retention.ms", "1000", 1)]


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_in_every_version(client: CoreClient, version: int) -> None:
    response = client.request(DescribeClusterRequest(), version)
    assert response.cluster_id == client.broker.state.cluster_id
    assert [b.broker_id for b in response.brokers] == [1]


class TestApiVersions:
    def test_it_lists_what_is_served(self, client: CoreClient) -> None:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        response = client.request(request, 4)
        assert {k.api_key: (k.min_version, k.max_version) for k in response.api_keys} == {
            # Older librdkafka does not compress unless it finds version 0 here (KAFKA-18659).
            key: (0 if key == 0 else low, high)
            for key, (_, low, high) in SERVED.items()
            # Telemetry takes a receiver (test_client_telemetry.py).
            if key not in (71, 72)
        }
        assert client.connection.info.client_software_name == "test"

    def test_a_version_that_is_not_known_is_answered_in_version_0(self, client: CoreClient) -> None:
        # KIP-511: header version 2, whatever follows is not looked at.
        client._expected.append((18, 0, 77))
        frame = bytes.fromhex("0012 7fff 0000004d 0004 74657374 00") + b"what only the future knows"
        client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        response: Any = client.responses[0]
        assert response.error_code == errors.UnsupportedVersionError.code
        assert [(k.api_key, k.max_version) for k in response.api_keys] == [(18, 4)]

    @pytest.mark.parametrize("name", ["", "-x", "a b", "a\n"])
    def test_a_malformed_software_name_is_an_invalid_request(self, client: CoreClient, name: str) -> None:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        assert client.request(request, 3).error_code == errors.InvalidRequestError.code


class TestMalformedRequests:
    @pytest.mark.parametrize(
        "frame",
        [
            "",
            "0003",
            "0003 0001",
            "7fff 0000 00000001 ffff",
            "0003 0063 00000001 ffff 00",
            "0000 000c 00000001 ffff 00",
        ],
    )
    def test_the_connection_is_closed_and_the_log_says_why(self, client: CoreClient, frame: str) -> None:
        data = bytes.fromhex(frame)
        client.send_bytes(len(data).to_bytes(4, "big") + data)
        assert client.closed
        assert client.responses == []
        assert "closing the connection from 10.0.0.1" in client.broker.warnings[0]

    def test_a_request_that_is_too_large_closes_the_connection(self) -> None:
        client = CoreBroker({"socket.request.max.bytes": 1000}).connect()
        client.send_bytes((1001).to_bytes(4, "big"))
        assert client.closed
        assert "socket.request.max.bytes=1000" in client.broker.warnings[0]

    def test_what_was_asked_before_is_answered_first(self, client: CoreClient) -> None:
        good = encode_request(MetadataRequest(topics=[]), 1, 1, None)
        client._expected.append((3, 1, 1))
        client.send_bytes(good + bytes.fromhex("ffffffff"))
        assert client.closed
        assert len(client.responses) == 1

    def test_what_follows_a_message_is_ignored(self, client: CoreClient) -> None:
        client._expected.append((3, 1, 5))
        frame = bytes.fromhex("0003 0001 00000005 ffff ffffffff 010203")
        client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        assert len(client.responses) == 1

    def test_other_connections_go_on(self, broker: CoreBroker) -> None:
        bad, good = broker.connect(), broker.connect()
        bad.send_bytes(b"\xff\xff\xff\xff")
        assert good.request(MetadataRequest(), 1) is not None

    def test_a_fault_in_a_handler_ends_only_its_connection(
        self, broker: CoreBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad, good = broker.connect(), broker.connect()
        with monkeypatch.context() as patch:
            patch.setattr(type(broker.state.metadata), "topics", lambda self: 1 / 0)
            bad.send(MetadataRequest(topics=None), 1)
        assert bad.closed
        assert "ZeroDivisionError" in broker.warnings[0]
        assert good.request(MetadataRequest(topics=None), 1) is not None

    def test_a_handler_that_cannot_be_imported_ends_only_the_connection(
        self, broker: CoreBroker, client: CoreClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = DescribeClusterRequest.API_KEY
        monkeypatch.setitem(SERVED, key, ("there_is_no_such_module", 0, 2))
        monkeypatch.delitem(registry._loaded, key, raising=False)
        client.send(DescribeClusterRequest(), 0)
        assert client.closed
        assert "please report this" in broker.warnings[-1]
        assert "there_is_no_such_module" in broker.warnings[-1]
        assert broker.connect().request(MetadataRequest(topics=[]), 9)

    def test_an_idle_connection_is_closed(self) -> None:
        broker = CoreBroker({"connections.max.idle.ms": 60_000})
        idle, busy = broker.connect(), broker.connect()
        for _ in range(4):
            broker.advance(20)
            assert busy.request(MetadataRequest(topics=[]), 1) is not None
        assert (idle.closed, busy.closed) == (True, False)

    def test_a_fault_in_a_service_is_reported_and_tried_again(
        self, broker: CoreBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = broker.connect()
        with monkeypatch.context() as patch:
            patch.setattr(type(broker.node.logs), "step", lambda self, budget, now_ms: 1 / 0)
            broker.advance(3)
        assert 1 <= len(broker.warnings) <= 3
        assert "LogMaintenance" in broker.warnings[0]
        broker.warnings.clear()
        broker.advance(5)
        assert broker.warnings == []
        assert client.request(MetadataRequest(topics=[]), 1) is not None
