"""The handlers of consumer groups on a whole broker without sockets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.broker_state import BrokerState
from barnabas.broker.config import BrokerConfig
from barnabas.broker.handlers import api_versions, consumer_group_describe, consumer_group_heartbeat
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.node import BrokerNode, Disk
from barnabas.broker.request_context import Connection, RequestContext
from barnabas.broker.security.authorized_operations import AUTHORIZED_OPERATIONS
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ResourceType
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.request_header import RequestHeader

TOPIC_ID = b"0123456789abcdef"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerState]:
    """A broker with the topic "t" of 3 partitions."""
    node = BrokerNode(
        BrokerConfig({"offsets.topic.num.partitions": 4}),
        Disk([str(tmp_path)]),
        MemoryStore(),
        random.Random(1),
        pytest.fail,
    )
    node.start(Instant(0.0, 1000))
    node.metadata.put_topics([TopicMetadata("t", TOPIC_ID, 3, {}, 0)])
    yield node.state
    node.close(2000)


def context(version: int) -> RequestContext:
    header = RequestHeader(request_api_key=0, request_api_version=version, correlation_id=1, client_id="client")
    return RequestContext(header, Connection(1, "127.0.0.1"), Instant(1.0, 1000))


def heartbeat(broker: BrokerState, version: int, **fields: Any) -> Any:
    response = consumer_group_heartbeat.handle(broker, context(version), ConsumerGroupHeartbeatRequest(**fields))
    return type(response).decode(response.encode(version), version)


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_and_is_described(broker: BrokerState, version: int) -> None:
    joined = heartbeat(
        broker,
        version,
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    request = ConsumerGroupDescribeRequest(group_ids=["g", "nobody"], include_authorized_operations=True)
    described = consumer_group_describe.handle(broker, context(version), request)
    group, missing = type(described).decode(described.encode(version), version).groups

    assert (joined.error_code, joined.member_epoch, joined.assignment.topic_partitions[0].partitions) == (
        0,
        2,
        [0, 1, 2],
    )
    assert (group.group_state, group.assignor_name, group.members[0].member_type) == (
        "Stable",
        "uniform",
        1 if version else -1,
    )
    assert group.authorized_operations == AUTHORIZED_OPERATIONS[ResourceType.GROUP]
    assert (missing.error_code, missing.authorized_operations) == (
        errors.GroupIdNotFoundError.code,
        AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    )
    assert missing.error_message == "Group nobody not found."


def test_errors_come_with_their_reason_and_without_an_assignment(broker: BrokerState) -> None:
    response = heartbeat(broker, 1, group_id="", member_id="a", member_epoch=1)

    assert response.error_code == errors.InvalidRequestError.code
    assert response.error_message == "GroupId can't be empty."
    assert response.assignment is None


@pytest.mark.parametrize(("version", "lowest"), [(3, 1), (4, 0)])
def test_clients_are_told_that_the_protocol_is_there(broker: BrokerState, version: int, lowest: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")

    response = api_versions.handle(broker, context(version), request)

    assert {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}[68] == (0, 1)
    (supported,) = [feature for feature in response.supported_features if feature.name == "group.version"]
    assert (supported.min_version, supported.max_version) == (lowest, 1)
    (final,) = [feature for feature in response.finalized_features if feature.name == "group.version"]
    assert (final.min_version_level, final.max_version_level) == (1, 1)
