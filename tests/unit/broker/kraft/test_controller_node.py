"""A controller as a node: which requests go where, who may ask them, and what a restart finds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.controller.envelopes import FORWARDABLE
from barnabas.broker.kraft.controller_registration_manager import ControllerRegistrationManager
from barnabas.broker.kraft.controller_requests import OF_QUORUM
from barnabas.broker.kraft.controller_rules import CONTROLLER_RULES
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.membership.forwarding import encode_principal
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.storage_threads import Work
from barnabas.network.node import Node
from barnabas.protocol.api import stable_versions
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from barnabas.protocol.messages.envelope_request import EnvelopeRequest
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.produce_request import ProduceRequest
from tests.support.controllers import registration
from tests.support.core_controller import CoreController, ask

_AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
_QUORUM = DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])])


def _in_envelope(request: Message, principal: str) -> EnvelopeRequest:
    version = stable_versions(request.API_KEY)[1]
    data = encode_request(request, version, 7, "client")[4:]
    return EnvelopeRequest(data, encode_principal(principal), bytes((10, 0, 0, 9)))


def _envelope(controller: CoreController, request: Message, principal: str = "User:alice") -> Any:
    response = ask(controller, controller.connect(), _in_envelope(request, principal), 0)
    if response.error_code:
        return response
    version = stable_versions(request.API_KEY)[1]
    return decode_response(request.API_KEY, version, response.response_data)[1]


class _Disk:
    """Storage, and a disk that notes what waits for it outside of the storage's work."""

    def __init__(self) -> None:
        self.filesystem = MemoryFileSystem(Random(1))
        self.may_wait = True
        self.syncs: list[tuple[bool, str]] = []
        self.filesystem.fail = self._note

    def _note(self, operation: str, path: str) -> None:
        if operation == "sync":
            self.syncs.append((self.may_wait, path))

    def submit(self, work: Work, done: Work) -> None:
        before, self.may_wait = self.may_wait, True
        work()
        self.may_wait = before
        done()

    def drain(self) -> None:
        """See `Storage`."""


def test_a_controller_waits_for_its_disk_beside_the_loop() -> None:
    disk = _Disk()
    settings = {"metadata.log.max.record.bytes.between.snapshots": "100"}
    controller = CoreController(settings, disk.filesystem, disk)
    disk.may_wait = False
    disk.syncs.clear()
    client = controller.connect()
    for broker_id in (1, 2):
        request = registration(broker_id)
        request.cluster_id = controller.node.cluster_id
        assert ask(controller, client, request, 4).error_code == 0
    controller.advance(1)
    assert controller.node.raft.latest_snapshot_id is not None
    assert controller.problems == []
    assert disk.syncs
    assert [path for may_wait, path in disk.syncs if not may_wait] == []


def test_a_node_alone_formats_itself_leads_and_is_found_again_after_a_crash() -> None:
    controller = CoreController()
    assert controller.node.controller.is_active
    client = controller.connect()
    epoch = ask(controller, client, registration(1, cluster_id=controller.node.cluster_id), 4).broker_epoch
    assert epoch > 0
    again = controller.crashed()
    assert again.node.cluster_id == controller.node.cluster_id
    assert again.node.controller.is_active
    assert again.node.controller.committed_image.brokers[1].epoch == epoch
    assert not again.problems
    assert not again.warnings


def test_a_voter_among_others_is_not_formatted_by_itself() -> None:
    with pytest.raises(errors.KafkaStorageError, match="barnabas format --cluster-id"):
        CoreController({"controller.quorum.voters": "100@127.0.0.1:9093,101@127.0.0.1:9094"})


def test_every_api_that_is_served_has_a_rule_and_is_told() -> None:
    controller = CoreController()
    told = ask(controller, controller.connect(), ApiVersionsRequest("test", "1"), 4)
    keys = {one.api_key for one in told.api_keys}
    assert set(OF_QUORUM) <= keys
    assert keys >= FORWARDABLE
    assert keys <= CONTROLLER_RULES.keys()
    assert ApiKey.PRODUCE not in keys
    assert {one.name: one.max_version_level for one in told.finalized_features}["metadata.version"] == 30


def test_an_api_of_brokers_ends_the_connection() -> None:
    client = CoreController().connect()
    client.request(ProduceRequest(), 12)
    assert client.closed


def test_the_quorum_is_described_directly_and_in_an_envelope() -> None:
    controller = CoreController()
    direct = ask(controller, controller.connect(), _QUORUM, 2)
    for response in (direct, _envelope(controller, _QUORUM)):
        partition = response.topics[0].partitions[0]
        assert partition.leader_id == 100
        assert [voter.replica_id for voter in partition.current_voters] == [100]


def test_a_fetch_that_waits_is_forgotten_with_its_connection() -> None:
    controller = CoreController()
    client = controller.connect()
    client.request(FetchRequest(), 17)
    client.connection.lost()
    controller.advance(2)
    assert not controller.problems


def test_nodes_of_the_cluster_need_cluster_action_and_clients_what_they_ask() -> None:
    controller = CoreController(_AUTHORIZED)
    stranger = controller.connect()
    refused = errors.ClusterAuthorizationError.code
    assert ask(controller, stranger, registration(1), 4).error_code == refused
    assert ask(controller, stranger, _QUORUM, 2).error_code == refused
    assert ask(controller, stranger, _in_envelope(_QUORUM, "User:admin"), 0).error_code == refused
    broker = controller.connect()
    broker.connection.info.principal = "User:admin"
    assert ask(controller, broker, _QUORUM, 2).error_code == 0


def test_within_an_envelope_counts_what_the_client_may() -> None:
    controller = CoreController(_AUTHORIZED)
    broker = controller.connect()
    broker.connection.info.principal = "User:admin"
    asked = CreateTopicsRequest([CreatableTopic("news", 1, 1)])
    found = {}
    for principal in ("User:alice", "User:admin"):
        response = ask(controller, broker, _in_envelope(asked, principal), 0)
        inner: Any = decode_response(ApiKey.CREATE_TOPICS, 7, response.response_data)[1]
        found[principal] = inner.topics[0].error_code
    assert found["User:alice"] == errors.TopicAuthorizationError.code
    # There is no broker that it could be on.
    assert found["User:admin"] == errors.InvalidReplicationFactorError.code


def test_loggers_and_settings_of_the_controller_are_described_and_changed() -> None:
    controller = CoreController()
    client = controller.connect()
    change = [AlterableConfig("kafka.request.logger", 0, "ERROR")]
    resource = AlterConfigsResource(ConfigResourceType.BROKER_LOGGER, "100", change)
    changed = ask(controller, client, IncrementalAlterConfigsRequest([resource]), 1)
    assert [one.error_code for one in changed.responses] == [0]
    asked = [
        DescribeConfigsResource(ConfigResourceType.BROKER_LOGGER, "100", ["kafka.request.logger"]),
        DescribeConfigsResource(ConfigResourceType.BROKER, "100", ["node.id"]),
    ]
    described = ask(controller, client, DescribeConfigsRequest(asked), 4)
    assert [one.configs[0].value for one in described.results] == ["ERROR", "100"]


def test_a_controller_registers_each_of_its_lives_once() -> None:
    controller = CoreController()
    image = controller.node.controller.committed_image
    manager = ControllerRegistrationManager(
        100,
        bytes([5] * 16),
        {"CONTROLLER": Endpoint("127.0.0.1", 9093, 0)},
        lambda: controller.node.leader,
        lambda: controller.node.controller.committed_image,
        controller.warnings.append,
    )
    assert 100 not in image.controllers
    asked = manager.next_request(controller.now)
    assert asked is not None
    where, request = asked
    assert where == Node(100, "127.0.0.1", 9093)
    response = ask(controller, controller.connect(), request, 0)
    manager.receive(response, controller.instant)
    registered = controller.node.controller.committed_image.controllers[100]
    assert registered.listeners["CONTROLLER"].port == 9093
    controller.advance(20)
    assert manager.next_request(controller.now) is None
    assert isinstance(response, ControllerRegistrationResponse)
