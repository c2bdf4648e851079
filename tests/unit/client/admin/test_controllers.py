"""An AdminClient with `bootstrap.controllers` (KIP-919): whom it asks, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas import AdminClient
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.errors import (
    ClusterAuthorizationError,
    ConfigError,
    KafkaError,
    MismatchedEndpointTypeError,
    UnsupportedEndpointTypeError,
    UnsupportedVersionError,
)
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from barnabas.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from tests.support.network_fakes import all_api_versions

NOT_AUTHORIZED, NOT_CONTROLLER, MISMATCHED = 31, 41, 114


def cluster(active: int, endpoint_type: int = 2, **fields: Any) -> DescribeClusterResponse:
    nodes = [DescribeClusterBroker(broker_id=number, host=host, port=9092) for number, host in ((1, "one"), (2, "two"))]
    return DescribeClusterResponse(
        endpoint_type=endpoint_type, cluster_id="c", controller_id=active, brokers=nodes, **fields
    )


@pytest.fixture
def controllers(new_admin: Callable[..., Any]) -> Any:
    """Two controllers, of which the first is active."""
    admin = new_admin(bootstrap_servers=None, bootstrap_controllers="boot:9092")
    admin.answer(ApiKey.DESCRIBE_CLUSTER, cluster(1))
    del admin.handlers[ApiKey.METADATA]
    return admin


def test_the_cluster_is_described_by_the_active_controller(controllers: Any) -> None:
    found = controllers.client.describe_cluster()
    assert (found.nodes, found.controller) == ([Node(1, "one", 9092), Node(2, "two", 9092)], Node(1, "one", 9092))
    assert controllers.asked(ApiKey.DESCRIBE_CLUSTER) == [-1, 1]
    assert {request.endpoint_type for request in controllers.requests(ApiKey.DESCRIBE_CLUSTER)} == {2}


def test_another_controller_is_asked_when_the_active_one_has_moved(controllers: Any) -> None:
    controllers.answer(ApiKey.DESCRIBE_CLUSTER, cluster(1), cluster(2))
    controllers.answer(
        ApiKey.UNREGISTER_BROKER, UnregisterBrokerResponse(error_code=NOT_CONTROLLER), UnregisterBrokerResponse()
    )
    controllers.client.unregister_broker(7)
    assert controllers.asked(ApiKey.UNREGISTER_BROKER) == [1, 2]


def test_settings_are_changed_by_the_active_controller_and_loggers_where_they_are(controllers: Any) -> None:
    controllers.handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda request: IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
    )
    broker, logger = ConfigResource.broker(2), ConfigResource(ConfigResourceType.BROKER_LOGGER, "2")
    changes = {broker: {"num.io.threads": 9}, logger: [AlterConfigOp("root", "DEBUG")]}
    assert set(controllers.client.incremental_alter_configs(changes)) == {broker, logger}
    by_node = zip(
        controllers.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS),
        controllers.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS),
        strict=True,
    )
    asked = {node: [resource.resource_type for resource in request.resources] for node, request in by_node}
    assert asked == {1: [ConfigResourceType.BROKER], 2: [ConfigResourceType.BROKER_LOGGER]}


def test_the_settings_of_a_controller_are_described_by_itself(controllers: Any) -> None:
    controllers.handlers[ApiKey.DESCRIBE_CONFIGS] = lambda request: DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
    )
    assert controllers.client.describe_configs([ConfigResource.broker(2)])
    assert controllers.asked(ApiKey.DESCRIBE_CONFIGS) == [2]


def test_what_controllers_do_not_serve_is_refused_without_asking(controllers: Any) -> None:
    results = controllers.client.delete_topics(["a", "b"], raise_errors=False)
    assert {name: type(error) for name, error in results.errors.items()} == dict.fromkeys(
        "ab", UnsupportedEndpointTypeError
    )
    with pytest.raises(UnsupportedEndpointTypeError, match="delete_topics is not offered by controllers"):
        controllers.client.delete_topics(["a", "b"])
    with pytest.raises(UnsupportedEndpointTypeError):
        controllers.client.list_groups(raise_errors=False)
    assert controllers.selector.received == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (DescribeClusterResponse(error_code=MISMATCHED, error_message="a broker"), MismatchedEndpointTypeError),
        (cluster(1, endpoint_type=1), MismatchedEndpointTypeError),
        (DescribeClusterResponse(error_code=NOT_AUTHORIZED), ClusterAuthorizationError),
    ],
)
def test_an_endpoint_that_is_no_controller_for_this_client_is_an_error(
    controllers: Any, answer: Any, expected: type[KafkaError]
) -> None:
    controllers.answer(ApiKey.DESCRIBE_CLUSTER, answer)
    with pytest.raises(expected):
        controllers.client.describe_metadata_quorum()
    assert controllers.clock.now < 1001


def test_a_controller_too_old_to_tell_is_an_error(controllers: Any) -> None:
    versions = all_api_versions()
    for key in versions.api_keys:
        if key.api_key == ApiKey.DESCRIBE_CLUSTER:
            key.max_version = 0
    controllers.handlers[ApiKey.API_VERSIONS] = lambda request: versions
    with pytest.raises(UnsupportedVersionError, match=r"controllers of Kafka 3\.7"):
        controllers.client.describe_features()


def test_brokers_and_controllers_are_not_given_together() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers and bootstrap\.controllers are both given"):
        AdminClient(bootstrap_servers="a:1", bootstrap_controllers="b:1")
    with pytest.raises(ConfigError, match="needs bootstrap_servers"):
        AdminClient(bootstrap_controllers="")
    with pytest.raises(ConfigError, match=r"bootstrap\.controllers: 'b' must be host:port"):
        AdminClient(bootstrap_controllers="b")
