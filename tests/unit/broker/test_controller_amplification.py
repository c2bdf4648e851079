"""A small request costs a controller little: the worst cases of `test_amplification`, for the APIs of controllers.

Those of the quorum and of brokers are among them, and what a controller under ZooKeeper tells brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.zookeeper.zookeeper_control import ZooKeeperControl
from barnabas.protocol.api import request_class, stable_versions
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.controllers import registration
from tests.support.core_broker import CoreClient
from tests.support.core_controller import CoreController, ask
from tests.support.worst_cases import BIG_TOPIC, BYTES_PER_BYTE, FEW, LONGEST_TURN, STRINGS, Cost, Generator, everything
from tests.support.zookeeper_member import ZooKeeperBroker, known, leading

PARTITIONS = 500
#: Fewer than of a broker: the records of each are made, and committed.
MANY = 200
SAME = pytest.mark.parametrize(
    "same", [pytest.param(True, marks=pytest.mark.slow, id="the same"), pytest.param(False, id="others")]
)
#: What the quorum appends in its own time is committed by then, in seconds.
SOON = 0.1
SETTINGS = {"broker.session.timeout.ms": 3_600_000, "replication.quota.window.num": 11}
KEYS = sorted(CoreController().node.requests._handlers)


class ControllerCost(Cost):
    """What a request costs a controller, with the turns in which its records are committed."""

    def _rest(self, client: CoreClient) -> None:
        controller: Any = client.broker
        end = controller.now + SOON
        while (due := controller.next_turn()) <= end:
            self._turn(lambda due=due: controller.turn(due))  # type: ignore[misc]
        controller.now = end
        super()._rest(client)


@pytest.fixture(scope="module")
def shared() -> CoreController:
    """A controller that leads, and three brokers at work."""
    controller = CoreController(SETTINGS)
    client = controller.connect()
    for number in (1, 2, 3):
        epoch = ask(controller, client, registration(number, cluster_id=controller.node.cluster_id), 4).broker_epoch
        offset = controller.node.controller.committed_image.offset
        ask(controller, client, BrokerHeartbeatRequest(number, epoch, offset), 1)
    return controller


@pytest.fixture
def large(shared: CoreController) -> CoreController:
    """The same, with a large topic, which a request before may have deleted."""
    if BIG_TOPIC not in shared.node.controller.committed_image.topic_ids:
        request = CreateTopicsRequest([CreatableTopic(BIG_TOPIC, PARTITIONS, 3)], timeout_ms=1000)
        assert ask(shared, shared.connect(), request, 7).topics[0].error_code == 0
    assert shared.node.controller.is_active
    return shared


def check(make: Callable[[], CoreClient], cost: type[Cost], asked: tuple[int, int, bytes], *, same: bool) -> None:
    """Compare few elements with many, for each array of an API in a version, of which topics have an id."""
    for path in Generator(*asked).paths():
        few, many = (cost(make(), Generator(*asked, path, count, same).request(), asked[1]) for count in (FEW, MANY))
        allowed = BYTES_PER_BYTE * (many.asked - few.asked)
        assert many.answered - few.answered <= allowed, f"{path}: {many.answered} bytes for {many.asked}"
        assert max(many.turns) < LONGEST_TURN, path


@SAME
@pytest.mark.parametrize("key", KEYS, ids=lambda key: request_class(key).NAME)
def test_more_of_anything_costs_a_controller_what_it_takes_to_ask(
    large: CoreController, monkeypatch: pytest.MonkeyPatch, key: int, same: bool
) -> None:
    monkeypatch.setitem(STRINGS, "cluster_id", large.node.cluster_id)
    topic_id = large.node.controller.committed_image.topic_ids[BIG_TOPIC]
    check(large.connect, ControllerCost, (key, stable_versions(key)[1], topic_id), same=same)
    assert not large.problems
    assert not [line for line in large.warnings if "please report this" in line]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: request_class(key).NAME)
def test_asking_a_controller_for_everything_takes_no_long_turn(large: CoreController, key: int) -> None:
    version = stable_versions(key)[1]
    assert max(ControllerCost(large.connect(), everything(key, version), version).turns) < LONGEST_TURN
    assert not large.problems


@pytest.mark.parametrize("count", [10_001, (1 << 31) - 1 - PARTITIONS])
def test_a_controller_refuses_too_many_partitions_at_once(large: CoreController, count: int) -> None:
    for request, version in (
        (CreateTopicsRequest([CreatableTopic("huge", count, 3)], timeout_ms=1000), 7),
        (CreatePartitionsRequest([CreatePartitionsTopic(BIG_TOPIC, PARTITIONS + count)], timeout_ms=1000), 3),
    ):
        before = large.node.controller.committed_image
        assert max(ControllerCost(large.connect(), request, version).turns) < LONGEST_TURN
        assert large.node.controller.committed_image.topics == before.topics


def test_the_measure_sees_the_turns_in_which_records_are_committed(large: CoreController) -> None:
    request = CreateTopicsRequest([CreatableTopic(f"more-{n}", 1, 3) for n in range(MANY)], timeout_ms=1000)
    cost = ControllerCost(large.connect(), request, 7)
    assert len(cost.turns) >= 3
    assert cost.answered > 20 * MANY
    assert f"more-{MANY - 1}" in large.node.controller.committed_image.topic_ids


# -- what a controller under ZooKeeper tells brokers, and what brokers ask it ----------------------------------------

TOPIC_ID = bytes(range(16))
TOLD = {key: highest for key, (_, _, highest) in ZooKeeperControl.served.items()}


@pytest.fixture
def under_zookeeper() -> ZooKeeperBroker:
    """A broker that leads a large topic."""
    broker = ZooKeeperBroker().register()
    replicas = [[3] for _ in range(PARTITIONS // 5)]
    broker.update(known(BIG_TOPIC, TOPIC_ID, *replicas))
    assert not broker.lead(leading(BIG_TOPIC, TOPIC_ID, *replicas)).error_code
    return broker


@SAME
@pytest.mark.parametrize("key", sorted(TOLD), ids=lambda key: request_class(key).NAME)
def test_more_of_anything_that_a_controller_under_zookeeper_tells_costs_what_it_takes(
    under_zookeeper: ZooKeeperBroker, key: int, same: bool
) -> None:
    check(under_zookeeper.connect, Cost, (key, TOLD[key], TOPIC_ID), same=same)
    assert not [line for line in under_zookeeper.warnings if "please report this" in line]
