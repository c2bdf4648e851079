"""A rule of the operator's own for new topics: on a controller, and on a broker that is alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.topic_policy import TopicRequest, make_topic_policy
from barnabas.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.support.controllers import Controllers
from tests.support.core_broker import CoreBroker

_SETTING = "create.topic.policy.class.name"


class Replicated:
    """Wants names that begin with a team, and fails where the team is `odd`."""

    settings: Mapping[str, Any] = {}
    asked: list[TopicRequest] = []  # noqa: RUF012  what the last instance was asked, for the test

    def configure(self, settings: Mapping[str, Any]) -> None:
        Replicated.settings = settings
        Replicated.asked = []

    def validate(self, request: TopicRequest) -> None:
        Replicated.asked.append(request)
        if request.topic.startswith("odd."):
            raise ZeroDivisionError("a bug of the policy")
        if not request.topic.startswith("team."):
            raise errors.PolicyViolationError(f"{request.topic} names no team")


_POLICY = {_SETTING: f"{__name__}:Replicated"}


def test_a_controller_refuses_what_the_policy_refuses_and_goes_on_when_it_fails() -> None:
    controllers = Controllers(config=_POLICY)
    controllers.elect()
    controllers.start(1, 2)
    found = {
        name: controllers.create(name, partitions=3, factor=2, configs={"retention.ms": "5"}).topics[0]
        for name in ("flights", "team.flights", "odd.flights")
    }
    assert (found["flights"].error_code, found["flights"].error_message) == (
        errors.PolicyViolationError.code,
        "flights names no team",
    )
    assert found["team.flights"].error_code == 0
    assert found["odd.flights"].error_code == errors.UnknownServerError.code
    assert "ZeroDivisionError: a bug of the policy" in found["odd.flights"].error_message
    assert controllers.active.is_active
    assert set(controllers.active.state.image.topic_ids) == {"team.flights"}
    assert Replicated.asked[1] == TopicRequest("team.flights", 3, 2, None, {"retention.ms": "5"})
    assert Replicated.settings[_SETTING] == _POLICY[_SETTING]


def test_the_replicas_that_a_client_assigns_are_given_in_place_of_the_numbers() -> None:
    controllers = Controllers(config=_POLICY)
    controllers.elect()
    controllers.start(1, 2)
    controllers.create("team.flights", [[1, 2], [2, 1]])
    assert Replicated.asked == [TopicRequest("team.flights", None, None, {0: (1, 2), 1: (2, 1)}, {})]


def test_a_broker_that_is_alone_asks_the_policy_also_for_what_is_only_validated() -> None:
    broker = CoreBroker(_POLICY)
    client = broker.connect()
    topics = [
        CreatableTopic("flights", 1, 1),
        CreatableTopic("team.flights", 2, 1, [], [CreatableTopicConfig("retention.ms", "5")]),
        CreatableTopic("team.seats", -1, -1, [CreatableReplicaAssignment(0, [broker.node.state.config.node_id])]),
    ]
    for validate_only in (True, False):
        response = client.request(CreateTopicsRequest(topics, 1000, validate_only), 7)
        assert [topic.error_code for topic in response.topics] == [errors.PolicyViolationError.code, 0, 0]
    assert Replicated.asked[1] == TopicRequest("team.flights", 2, 1, None, {"retention.ms": "5"})
    assert Replicated.asked[2].num_partitions is None


@pytest.mark.parametrize(
    ("name", "text"),
    [("org.example.Policy", "is a Java class"), ("nowhere:Policy", "cannot be loaded"), ("json:loads2", "cannot be")],
)
def test_a_policy_that_cannot_be_loaded_is_refused(name: str, text: str) -> None:
    with pytest.raises(errors.ConfigError, match=text):
        make_topic_policy(BrokerConfig({_SETTING: name}))
