"""Lines of CHECKLIST.md that the broker shows by itself."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from barnabas import Broker, errors
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import request_class
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


def create_with(client: CoreClient, topic: str, partitions: int, replication_factor: int) -> Any:
    request = create(topic, partitions)
    request.topics[0].replication_factor = replication_factor
    return client.request(request, 7).topics[0]


def values(client: CoreClient) -> list[bytes | None]:
    records = client.request(fetch("t"), 12).responses[0].partitions[0].records
    return [record.value for found in read_batches(records) for record in found]


@pytest.mark.shows("S3.6", breaks="barnabas.broker.topic_admin:TopicAdmin._check_replication_factor")
def test_the_replication_factor_is_set_at_creation_from_1_to_the_number_of_brokers(client: CoreClient) -> None:
    assert create_with(client, "one", 1, 1).replication_factor == 1
    for impossible in (0, 2):
        code = create_with(client, "more", 1, impossible).error_code
        assert code == errors.InvalidReplicationFactorError.code
    defaults = create_with(client, "defaults", -1, -1)
    assert (defaults.num_partitions, defaults.replication_factor) == (1, 1)


@pytest.mark.shows("S3.10", breaks="barnabas.broker.delayed_fetch:read_targets")
@pytest.mark.shows("S3.28", breaks="barnabas.broker.delayed_fetch:read_targets")
def test_consuming_does_not_delete(client: CoreClient) -> None:
    client.request(create("t"), 7)
    client.request(produce("t", batch(b"a", b"b")), 12)
    readers = [client.broker.connect() for _ in range(3)]
    assert [values(reader) for reader in readers for _ in range(2)] == [[b"a", b"b"]] * 6


@pytest.mark.shows("S3.27", breaks="barnabas.broker.log.unified_log:UnifiedLog.append")
def test_a_partition_is_first_in_first_out(broker: CoreBroker) -> None:
    writers = [broker.connect() for _ in range(3)]
    writers[0].request(create("t"), 7)
    for number in range(30):
        writers[number % 3].request(produce("t", batch(b"%d" % number)), 12)
    assert values(broker.connect()) == [b"%d" % number for number in range(30)]


@pytest.mark.shows("S3.23", breaks="barnabas.broker.topic_admin:TopicAdmin._check_partitions")
def test_a_topic_has_one_or_more_partitions(client: CoreClient) -> None:
    assert create_with(client, "none", 0, 1).error_code == errors.InvalidPartitionsError.code
    for count in (1, 2, 100):
        assert create_with(client, f"t{count}", count, 1).num_partitions == count


@pytest.mark.shows("S2.4", breaks="barnabas.broker.handlers.produce:handle")
def test_every_request_has_its_response_but_produce_with_acks_0(client: CoreClient) -> None:
    client.request(create("t"), 7)
    for acks in (-1, 1):
        assert client.request(produce("t", batch(b"a"), acks=acks), 12) is not None
    client.send(produce("t", batch(b"a"), acks=0), 12)
    client._expected.pop()
    assert len(values(client)) == 3
    assert len(client.responses) == 4


def read(client: CoreClient, topic: str = "t", partition: int = 0, **fields: Any) -> bytes:
    response = client.request(fetch(topic, partition=partition, **fields), 12)
    return bytes(response.responses[0].partitions[0].records) if response.responses else b""


@pytest.mark.shows("S2.3", breaks="barnabas.broker.network.socket_server:_ConnectionProtocol.buffer_updated")
def test_the_protocol_is_binary_and_goes_over_tcp() -> None:
    with Broker(in_process=True) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            # ApiVersions version 0 of correlation id 7, without a client id: size, key, version, id, null.
            connection.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            response = connection.recv(size, socket.MSG_WAITALL)
    # Correlation id, no error, then six bytes for each API.
    assert response[:6] == bytes.fromhex("00000007 0000")
    count = int.from_bytes(response[6:10], "big")
    assert len(response) == 10 + 6 * count
    # Kafka says of Produce that it begins at 0, though 3 is the first that is served (KAFKA-18659).
    assert response[10:16] == bytes.fromhex("0000 0000 000d")


@pytest.mark.shows("S3.1", breaks="barnabas.broker.request_dispatcher:RequestDispatcher.handle_frame")
@pytest.mark.shows("S3.4", breaks="barnabas.broker.handlers.fetch:handle")
def test_clients_exchange_data_through_the_broker(broker: CoreBroker) -> None:
    writer, reader = broker.connect(), broker.connect()
    writer.request(create("t"), 7)
    writer.request(produce("t", batch(b"hello")), 12)
    writer.lose()
    assert values(reader) == [b"hello"]


@pytest.mark.shows("S3.3", breaks="barnabas.broker.log.unified_log:UnifiedLog.append")
def test_data_goes_to_files_and_is_there_for_the_next_process(client: CoreClient) -> None:
    client.request(create("t"), 7)
    client.request(produce("t", batch(b"kept")), 12)
    assert client.broker.filesystem.exists("/data/t-0/00000000000000000000.log")
    assert values(client.broker.crashed().connect()) == [b"kept"]


@pytest.mark.shows("S3.22", breaks="barnabas.broker.replica_manager:ReplicaManager.partition")
@pytest.mark.shows("S3.25", breaks="barnabas.broker.replica_manager:ReplicaManager.append")
def test_topics_and_their_partitions_keep_their_records_apart(client: CoreClient) -> None:
    places = [(topic, partition) for topic in ("s", "t") for partition in (0, 1)]
    for topic in ("s", "t"):
        client.request(create(topic, 2), 7)
    for topic, partition in places:
        client.request(produce(topic, batch(f"{topic}{partition}".encode()), partition), 12)
    for topic, partition in places:
        found = [record.value for one in read_batches(read(client, topic, partition)) for record in one]
        assert found == [f"{topic}{partition}".encode()]


@pytest.mark.shows("S3.29", breaks="barnabas.broker.handlers.produce:handle")
def test_what_is_stored_does_not_change_whatever_is_asked_for(client: CoreClient) -> None:
    client.request(create("t"), 7)
    client.request(produce("t", batch(b"first", b"second")), 12)
    stored = read(client)
    # The same offsets once more, other settings, more partitions: nothing touches what is there.
    client.request(produce("t", batch(b"FIRST", b"SECOND")), 12)
    config = AlterableConfig(name="compression.type", config_operation=0, value="gzip")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    client.request(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]), 3)
    assert read(client)[: len(stored)] == stored
    assert values(client)[:2] == [b"first", b"second"]


@pytest.mark.shows("S3.24", breaks="barnabas.broker.topic_admin:TopicAdmin.plan")
def test_a_topic_cannot_be_renamed_only_made_anew(client: CoreClient) -> None:
    first = create_with(client, "old", 1, 1)
    client.request(produce("old", batch(b"a")), 12)
    second = create_with(client, "new", 1, 1)
    assert first.topic_id != second.topic_id
    assert read(client, "new") == b""
    # No API takes a topic and another name for it.
    renaming = [name for name in (request_class(key).NAME for key in SERVED) if "Rename" in name]
    assert renaming == []


@pytest.mark.shows("S2.44", breaks="barnabas.broker.delayed_fetch:DelayedFetch.on_expiration")
@pytest.mark.shows("S2.45", breaks="barnabas.broker.delayed_fetch:DelayedFetch.try_complete")
def test_the_broker_waits_for_enough_bytes_but_no_longer_than_asked(client: CoreClient) -> None:
    client.request(create("t"), 7)
    small = batch(b"x" * 100)
    enough = fetch("t", min_bytes=2 * len(small), max_wait_ms=500)
    other = client.broker.connect()
    assert client.request(enough, 12) is None
    other.request(produce("t", small), 12)
    assert client.responses[1:] == []
    other.request(produce("t", small), 12)
    assert len(client.responses[1].responses[0].partitions[0].records) == 2 * len(small)
    late = fetch("t", 2, min_bytes=2 * len(small), max_wait_ms=500)
    assert client.request(late, 12) is None
    other.request(produce("t", small), 12)
    client.broker.advance(0.49)
    assert len(client.responses) == 2
    client.broker.advance(0.02)
    assert len(client.responses[2].responses[0].partitions[0].records) == len(small)


@pytest.mark.shows("S2.46", breaks="barnabas.broker.delayed_fetch:read_targets")
@pytest.mark.shows("S2.47", breaks="barnabas.broker.delayed_fetch:read_targets")
def test_a_fetch_has_limits_in_all_and_for_each_partition_but_always_brings_a_first_batch(client: CoreClient) -> None:
    client.request(create("t", 2), 7)
    large = batch(b"x" * 1000)
    for partition in (0, 1):
        for _ in range(3):
            client.request(produce("t", large, partition), 12)

    def sizes(max_bytes: int, partition_max_bytes: int) -> list[int]:
        request = fetch("t", partition_max_bytes=partition_max_bytes, max_bytes=max_bytes)
        other = fetch("t", partition=1, partition_max_bytes=partition_max_bytes).topics[0].partitions[0]
        request.topics[0].partitions.append(other)
        found = client.request(request, 12).responses[0].partitions
        return [sum(one.size_in_bytes for one in read_batches(partition.records)) for partition in found]

    size = len(large)
    assert sizes(1 << 20, 1 << 20) == [3 * size, 3 * size]
    assert sizes(1 << 20, 2 * size) == [2 * size, 2 * size]
    assert sizes(4 * size, 1 << 20) == [3 * size, size]
    assert sizes(10, 10) == [size, 0]
