"""Lines of CHECKLIST.md that the broker shows by itself."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.records import read_batches
from tools.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


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
