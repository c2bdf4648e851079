"""The APIs of the controller, as messages in and out, and in envelopes."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.controller.envelopes import ForwardedRequest, handle_envelope
from barnabas.broker.envelope import FORWARDABLE, decode_principal, encode_principal
from barnabas.protocol.api import request_class, stable_versions
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.message import Message
from barnabas.protocol.messages import alter_configs_request
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.controller_registration_request import ControllerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.envelope_request import EnvelopeRequest
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.controllers import CLUSTER_ID, Controllers, registration

INVALID = errors.InvalidRequestError.code


class Asked:
    """An active controller with brokers 1 to 3, and its APIs."""

    def __init__(self, **given: Any) -> None:
        self.controllers = Controllers(2, **given)
        self.controllers.elect()
        self.controllers.start(1, 2, 3)
        self.apis = ControllerApis(self.controllers.active, ControllerIdentity(CLUSTER_ID, "CONTROLLER"))

    def ask(self, request: Message, version: int | None = None, **given: Any) -> Any:
        """Return the response, which has gone through its bytes."""
        version = stable_versions(request.API_KEY)[1] if version is None else version
        response = self.controllers.given(self.apis.handle(self.controllers.context(version, **given), request))
        return type(response).decode(response.encode(version), version)

    def envelope(self, request: Message, principal: str = "User:alice") -> Any:
        version = stable_versions(request.API_KEY)[1]
        data = encode_request(request, version, 7, "client")[4:]
        envelope = EnvelopeRequest(data, encode_principal(principal), bytes(4))
        return self.controllers.given(handle_envelope(self.answer, envelope))

    def answer(self, forwarded: ForwardedRequest) -> Deferred[Message]:
        version, principal = forwarded.header.request_api_version, forwarded.principal
        context = self.controllers.context(version, principal=principal, is_forwarded=True)
        return self.apis.handle(context, forwarded.message)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_a_broker_registers_and_is_unfenced(asked: Asked) -> None:
    response = asked.ask(registration(9))
    assert response.broker_epoch > 0
    beat = asked.ask(BrokerHeartbeatRequest(9, response.broker_epoch, response.broker_epoch))
    assert (beat.error_code, beat.is_caught_up, beat.is_fenced) == (0, True, False)
    beat = asked.ask(BrokerHeartbeatRequest(9, response.broker_epoch - 1, 0))
    assert beat.error_code == errors.StaleBrokerEpochError.code
    assert asked.ask(UnregisterBrokerRequest(9)).error_code == 0
    assert asked.ask(UnregisterBrokerRequest(9)).error_code == errors.BrokerIdNotRegisteredError.code


def test_producer_ids_are_given_to_registered_brokers(asked: Asked) -> None:
    epoch = asked.controllers.active.state.image.brokers[1].epoch
    response = asked.ask(AllocateProducerIdsRequest(1, epoch))
    assert (response.producer_id_start, response.producer_id_len) == (0, 1000)
    assert asked.ask(AllocateProducerIdsRequest(1, 0)).error_code == errors.StaleBrokerEpochError.code


def test_a_standby_tells_who_it_is_not(asked: Asked) -> None:
    standby = ControllerApis(asked.controllers.controllers[101], ControllerIdentity(CLUSTER_ID, "CONTROLLER"))
    for request in (
        registration(9),
        BrokerHeartbeatRequest(1, 1),
        CreateTopicsRequest(topics=[CreatableTopic("flights", 1, 1)]),
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 0)]),
        CreateDelegationTokenRequest(),
    ):
        version = stable_versions(request.API_KEY)[1]
        response: Any = standby.handle(asked.controllers.context(version), request).value
        code = response.topics[0].error_code if isinstance(request, CreateTopicsRequest) else response.error_code
        assert code == errors.NotControllerError.code


def test_a_topic_that_is_named_twice_is_not_created(asked: Asked) -> None:
    topics = [CreatableTopic(name, 1, 1) for name in ("a", "b", "a", "__cluster_metadata")]
    response = asked.ask(CreateTopicsRequest(topics=topics))
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "a": INVALID,
        "b": 0,
        "__cluster_metadata": INVALID,
    }


def test_topics_are_deleted_by_id_or_name(asked: Asked) -> None:
    for name in ("a", "b", "c", "d"):
        asked.controllers.create(name)
    ids = {name: asked.controllers.topic_id(name) for name in ("a", "b", "c", "d")}
    states = [
        DeleteTopicState(None, ids["a"]),
        DeleteTopicState("b"),
        DeleteTopicState("c"),
        DeleteTopicState(None, ids["c"]),
        DeleteTopicState("d", ids["d"]),
        DeleteTopicState("d"),
        DeleteTopicState("d"),
        DeleteTopicState(None),
        DeleteTopicState("nowhere"),
        DeleteTopicState(None, bytes([9] * 16)),
    ]
    response = asked.ask(DeleteTopicsRequest(states))
    codes = [(found.name, found.error_code) for found in response.responses]
    assert sorted(codes, key=str) == sorted(
        [
            ("a", 0),
            ("b", 0),
            ("c", INVALID),
            ("d", INVALID),
            ("d", INVALID),
            (None, INVALID),
            ("nowhere", errors.UnknownTopicOrPartitionError.code),
            (None, errors.UnknownTopicIdError.code),
        ],
        key=str,
    )
    assert sorted(asked.controllers.active.state.image.topic_ids) == ["c", "d"]


def test_partitions_that_are_only_asked_about(asked: Asked) -> None:
    asked.controllers.create("flights")
    request = CreatePartitionsRequest([CreatePartitionsTopic("flights", 3, None)], validate_only=True)
    assert asked.ask(request).results[0].error_code == 0
    assert asked.controllers.active.state.image.partition("flights", 1) is None


def test_settings_have_an_outcome_each(asked: Asked) -> None:
    asked.controllers.create("flights")

    def resource(kind: int, name: str, *configs: AlterableConfig) -> AlterConfigsResource:
        return AlterConfigsResource(kind, name, list(configs))

    good = AlterableConfig("retention.ms", 0, "5")
    request = IncrementalAlterConfigsRequest(
        [
            resource(2, "flights", good),
            resource(2, "nowhere", good),
            resource(2, "twice", good),
            resource(2, "twice", good),
            resource(2, "operation", AlterableConfig("retention.ms", 9, "5")),
            resource(2, "null", AlterableConfig("retention.ms", 0, None)),
            resource(2, "again", good, good),
            resource(99, "x", good),
            resource(8, "1", good),
        ]
    )
    response = asked.ask(request)
    assert {found.resource_name: found.error_code for found in response.responses} == {
        "flights": 0,
        "nowhere": errors.UnknownTopicOrPartitionError.code,
        "twice": INVALID,
        "operation": INVALID,
        "null": INVALID,
        "again": INVALID,
        "x": errors.UnsupportedVersionError.code,
        "1": INVALID,
    }


def test_settings_as_a_whole_are_refused_where_one_cannot_be_meant(asked: Asked) -> None:
    asked.controllers.create("flights")
    before = asked.ask(AlterConfigsRequest([settings("flights", ("retention.ms", "5"))]))
    assert before.responses[0].error_code == 0

    request = AlterConfigsRequest(
        [
            settings("flights", ("retention.ms", None)),
            settings("again", ("retention.ms", "6"), ("retention.ms", "7")),
        ]
    )
    response = asked.ask(request)

    assert {found.resource_name: (found.error_code, found.error_message) for found in response.responses} == {
        "flights": (INVALID, "Null value not supported for : retention.ms"),
        "again": (INVALID, "Error due to duplicate config keys: retention.ms"),
    }
    image = asked.controllers.active.committed_image
    assert image.configs[ConfigResourceType.TOPIC, "flights"] == {"retention.ms": "5"}


def settings(topic: str, *configs: tuple[str, str | None]) -> alter_configs_request.AlterConfigsResource:
    found = [alter_configs_request.AlterableConfig(*config) for config in configs]
    return alter_configs_request.AlterConfigsResource(ConfigResourceType.TOPIC, topic, found)


def test_features_fail_as_a_whole(asked: Asked) -> None:
    updates = [FeatureUpdateKey("group.version", 0, upgrade_type=2), FeatureUpdateKey("metadata.version", 99)]
    offered = [Feature("metadata.version", 7, 30), Feature("group.version", 0, 1)]
    asked.ask(ControllerRegistrationRequest(101, bytes([6] * 16), False, [], offered))
    response = asked.ask(UpdateFeaturesRequest(feature_updates=updates))
    assert response.error_code == errors.InvalidUpdateVersionError.code
    assert "metadata.version" in response.error_message
    assert asked.controllers.active.state.image.features["group.version"] == 1
    response = asked.ask(UpdateFeaturesRequest(feature_updates=updates[:1]), 1)
    assert [(found.feature, found.error_code) for found in response.results] == [("group.version", 0)]


def test_the_controllers_are_described_to_who_asks_for_controllers(asked: Asked) -> None:
    listener = Listener("CONTROLLER", "localhost", 9090, 0)
    asked.ask(ControllerRegistrationRequest(100, bytes([5] * 16), False, [listener], []))
    response = asked.ask(DescribeClusterRequest(endpoint_type=2))
    assert (response.controller_id, [(node.broker_id, node.port) for node in response.brokers]) == (100, [(100, 9090)])
    assert asked.ask(DescribeClusterRequest(endpoint_type=1)).error_code == errors.MismatchedEndpointTypeError.code
    assert asked.ask(DescribeClusterRequest(endpoint_type=7)).error_code == errors.UnsupportedEndpointTypeError.code


def test_an_envelope_is_answered_in_the_clients_name(asked: Asked) -> None:
    acl = AclCreation(2, "flights", 3, "User:bob", "*", 3, 3)
    response = asked.envelope(CreateAclsRequest([acl]))
    correlation, inner = decode_response(ApiKey.CREATE_ACLS, 3, response.response_data)
    assert correlation == 7
    assert inner.results[0].error_code == 0  # type: ignore[attr-defined]
    assert decode_principal(encode_principal("User:alice:x")) == "User:alice:x"


def test_an_envelope_with_what_is_not_for_clients_is_refused(asked: Asked) -> None:
    for request in (registration(9), BrokerHeartbeatRequest(1, 1), FetchRequest()):
        assert request.API_KEY not in FORWARDABLE
        assert asked.envelope(request).error_code == INVALID
    broken = EnvelopeRequest(b"\0", encode_principal("User:alice"), bytes(4))
    nowhere = EnvelopeRequest(b"\0", encode_principal("User:alice"), bytes(5))
    for envelope in (broken, nowhere):
        assert asked.controllers.given(handle_envelope(asked.answer, envelope)).error_code == INVALID


def test_an_envelope_to_a_standby_is_not_controller_outside(asked: Asked) -> None:
    asked.apis = ControllerApis(asked.controllers.controllers[101], ControllerIdentity(CLUSTER_ID, "CONTROLLER"))
    topics = CreateTopicsRequest(topics=[CreatableTopic("flights", 1, 1)])
    assert asked.envelope(topics).error_code == errors.NotControllerError.code
    assert asked.envelope(CreateDelegationTokenRequest()).error_code == errors.NotControllerError.code


def test_every_api_answers_an_empty_request_in_every_version(asked: Asked) -> None:
    for key in sorted(ApiKey):
        if not ControllerApis.serves(key):
            continue
        low, high = stable_versions(key)
        for version in range(low, high + 1):
            asked.ask(request_class(key)(), version)
            assert asked.apis.controller.is_active, f"{ApiKey(key).name} version {version} cost the leadership"
    assert not asked.controllers.reports


def test_quotas_without_entity_are_refused(asked: Asked) -> None:
    from barnabas.protocol.messages.alter_client_quotas_request import EntryData

    assert asked.ask(AlterClientQuotasRequest([EntryData()])).entries[0].error_code == INVALID
