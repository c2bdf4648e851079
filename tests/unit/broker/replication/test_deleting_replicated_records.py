"""DeleteRecords of a partition with followers: answered when all of them start where they shall (KIP-107)."""

from __future__ import annotations

from typing import Any

from barnabas import errors
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.unit.broker.replication.test_replicated_partition import SECOND, THIRD, Bench

TIMEOUT = 5.0


def replicated() -> Bench:
    """Three replicas with two committed records."""
    bench = Bench()
    bench.produce(acks=1)
    bench.produce(acks=1)
    for broker_id in (SECOND, THIRD):
        bench.follow(broker_id, 2, log_start_offset=0)
    return bench


def delete(bench: Bench, offset: int) -> Any:
    client = bench.broker.connect()
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
    client.send(DeleteRecordsRequest(topics=topics, timeout_ms=int(TIMEOUT * 1000)), 2)
    bench.broker.node.core.settle(bench.broker.instant)
    return client


def result(bench: Bench, client: Any) -> tuple[int, int] | None:
    """(error code, low watermark) once it is answered."""
    bench.broker.advance(0)
    if not client.responses:
        return None
    found = client.responses[-1].topics[0].partitions[0]
    return found.error_code, found.low_watermark


def test_it_waits_for_every_follower() -> None:
    bench = replicated()
    client = delete(bench, 1)
    assert result(bench, client) is None
    bench.follow(SECOND, 2, log_start_offset=1)
    assert result(bench, client) is None
    bench.follow(THIRD, 2, log_start_offset=1)
    assert result(bench, client) == (0, 1)


def test_it_does_not_wait_for_brokers_that_are_gone() -> None:
    bench = replicated()
    del bench.others.epochs[THIRD]
    client = delete(bench, 1)
    bench.follow(SECOND, 2, log_start_offset=1)
    assert result(bench, client) == (0, 1)


def test_when_the_time_is_over_it_tells_how_far_the_replicas_are() -> None:
    bench = replicated()
    client = delete(bench, 2)
    bench.follow(SECOND, 2, log_start_offset=2)
    bench.broker.advance(TIMEOUT + 1)
    assert result(bench, client) == (errors.KafkaTimeoutError.code, 0)
    assert bench.partition.log.log_start_offset == 2


def test_a_leader_that_resigns_cannot_tell() -> None:
    bench = replicated()
    client = delete(bench, 2)
    bench.apply(leader=SECOND, leader_epoch=1)
    assert result(bench, client) == (errors.NotLeaderOrFollowerError.code, -1)


def test_a_client_that_goes_leaves_nothing_behind() -> None:
    bench = replicated()
    client = delete(bench, 2)
    client.lose()
    for broker_id in (SECOND, THIRD):
        bench.follow(broker_id, 2, log_start_offset=2)
    assert result(bench, client) is None
