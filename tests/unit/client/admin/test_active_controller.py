"""Who is controller, by what a cluster and its quorum tell."""

from __future__ import annotations

import pytest

from barnabas.client.admin.cluster import ClusterDescription
from barnabas.client.admin.quorum import ActiveController, QuorumInfo, active_controller
from barnabas.errors import ClusterAuthorizationError, KafkaError, KafkaTimeoutError, UnsupportedVersionError
from barnabas.network.node import Node

ONE, TWO = Node(1, "one", 9092), Node(2, "two", 9092)
NAMES_BROKER_2 = ClusterDescription("c", [ONE, TWO], TWO)


def test_a_quorum_tells_its_leader_whatever_broker_is_named() -> None:
    quorum = QuorumInfo(100, 7, 50, [], [], {})

    assert active_controller(NAMES_BROKER_2, quorum) == ActiveController(100, 7)


def test_a_quorum_without_a_leader_has_no_controller() -> None:
    found = active_controller(NAMES_BROKER_2, QuorumInfo(-1, 8, 50, [], [], {}))

    assert found == ActiveController(None, 8)
    assert found.is_missing


def test_without_a_quorum_the_broker_that_is_named_is_controller() -> None:
    no_quorum = UnsupportedVersionError("the broker does not support DESCRIBE_QUORUM at all")

    assert active_controller(NAMES_BROKER_2, no_quorum) == ActiveController(2, None)
    assert active_controller(NAMES_BROKER_2._replace(controller=None), no_quorum).is_missing


@pytest.mark.parametrize(
    ("error", "is_missing"), [(KafkaTimeoutError("no answer"), True), (ClusterAuthorizationError("not allowed"), False)]
)
def test_a_quorum_that_does_not_answer_has_none_unless_it_was_not_allowed_to_ask(
    error: KafkaError, is_missing: bool
) -> None:
    found = active_controller(NAMES_BROKER_2, error)

    assert found == ActiveController(None, None, error)
    assert found.is_missing is is_missing
