"""What is said to one broker holds at all of them, and after their restart: quotas, under either control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.admin import ClientQuotaEntity
from tests.contract.waiting import eventually
from tests.peers import zookeeper

pytestmark = [pytest.mark.timeout(200)]
_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}
_FEW = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
_BROKERS = (1, 2, 3)
_SLOW = "slow"


@pytest.fixture(
    params=[pytest.param(False, id="quorum"), pytest.param(True, id="zookeeper", marks=pytest.mark.slow)],
)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    missing = zookeeper.why_not() if request.param else None
    if missing:
        pytest.skip(missing)
    with Broker(brokers=3, zookeeper=request.param, config=_FEW) as running:
        yield running


def _throttled(broker: Broker, client: str, partition: int) -> bool:
    """Whether the leader of a partition has a client wait that writes far more than the quota."""
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "client.id": client, **_SOON}
    with Producer({**settings, "acks": "all"}) as producer:
        for _ in range(2):
            producer.send("metered", b"." * 20_000, partition=partition).result(60)
        return producer.metrics()["produce-throttle-time-max"] > 0


def _by_one_after_the_other(ask: Callable[[int], bool]) -> list[bool]:
    return [ask(index) for index in range(len(_BROKERS))]


def test_a_quota_that_one_broker_is_told_holds_at_every_leader_and_after_a_restart(broker: Broker) -> None:
    entity = ClientQuotaEntity.of(client_id=_SLOW)
    one_each = {index: [leader] for index, leader in enumerate(_BROKERS)}
    with AdminClient({"bootstrap.servers": broker.bootstrap_servers, **_SOON}) as admin:
        admin.create_topics([NewTopic("metered", replica_assignments=one_each)])
        admin.alter_client_quotas({entity: {"producer_byte_rate": 2_000}})
    eventually(lambda: _by_one_after_the_other(lambda index: _throttled(broker, _SLOW, index)) == [True] * 3, 60)
    assert _by_one_after_the_other(lambda index: _throttled(broker, "another", index)) == [False] * 3

    broker.stop()
    broker.start()
    eventually(lambda: _by_one_after_the_other(lambda index: _throttled(broker, _SLOW, index)) == [True] * 3, 60)

    with AdminClient({"bootstrap.servers": broker.bootstrap_servers, **_SOON}) as admin:
        admin.alter_client_quotas({entity: {"producer_byte_rate": None}})
    eventually(lambda: _by_one_after_the_other(lambda index: _throttled(broker, _SLOW, index)) == [False] * 3, 60)
