"""A whole broker in memory that is controller: what it answers to clients and brokers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.membership.broker_lifecycle import LifecycleState
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_apis
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.core_broker import batch, produce
from tests.support.zookeeper_member import ME, ZooKeeperBroker


@pytest.fixture
def broker() -> ZooKeeperBroker:
    return ZooKeeperBroker(has_controller=False).take_office()


def ask(broker: ZooKeeperBroker, request: Any, version: int, *, client_id: str = "test") -> Any:
    client = broker.connect()
    client.request(request, version, client_id)
    broker.settle()
    (response,) = client.responses
    return response


def create(broker: ZooKeeperBroker, *topics: CreatableTopic, **fields: Any) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1000, **fields)
    return ask(broker, request, 7).topics


def flights(count: int = 2, factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name="flights", num_partitions=count, replication_factor=factor, **fields)


def data(broker: ZooKeeperBroker, path: str) -> Any:
    return json.loads(broker.zookeeper.nodes[path].data or b"{}")


def test_the_broker_is_alive_by_what_it_tells_itself(broker: ZooKeeperBroker) -> None:
    assert broker.states == [LifecycleState.RUNNING]
    assert broker.connect().request(MetadataRequest(topics=[]), 12).controller_id == ME


def test_what_fails_in_the_controller_is_answered_with_its_error_and_it_goes_on(
    broker: ZooKeeperBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Kafka 3.9.1: NOT_CONTROLLER would have the client ask again until its time is over."""
    broker.zookeeper.put("/latest_producer_id_block", b"no block")
    asked = AllocateProducerIdsRequest(broker_id=ME, broker_epoch=broker.control.broker_epoch)
    assert ask(broker, asked, 0).error_code == errors.UnknownServerError.code

    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    moves = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None)
    with monkeypatch.context() as patch:
        patch.setitem(controller_apis._ANSWERS, moves.API_KEY, fail)
        assert ask(broker, moves, 0).error_code == errors.UnknownServerError.code
    assert ask(broker, moves, 0).error_code == errors.NONE


# -- topics ----------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_and_known_when_the_client_hears_of_it(broker: ZooKeeperBroker) -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="1000")]
    (result,) = create(broker, flights(configs=configs))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert result.topic_id == broker.node.metadata.topic("flights").id  # type: ignore[union-attr]
    assert data(broker, "/config/topics/flights")["config"] == {"retention.ms": "1000"}
    assert sorted(data(broker, "/brokers/topics/flights")["partitions"]) == ["0", "1"]
    response = broker.connect().request(produce("flights", batch(b"x")), 9)
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatableTopic(name="a b", num_partitions=1, replication_factor=1), errors.InvalidTopicError),
        (flights(count=0), errors.InvalidPartitionsError),
        (flights(factor=0), errors.InvalidReplicationFactorError),
        (flights(factor=2), errors.InvalidReplicationFactorError),
        (flights(configs=[CreatableTopicConfig(name="nonsense", value="1")]), errors.InvalidConfigurationError),
        (
            flights(assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[ME])]),
            errors.InvalidRequestError,
        ),
        (
            flights(-1, -1, assignments=[CreatableReplicaAssignment(partition_index=1, broker_ids=[ME])]),
            errors.InvalidReplicaAssignmentError,
        ),
        (
            flights(-1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[ME, ME])]),
            errors.InvalidReplicaAssignmentError,
        ),
    ],
)
def test_topics_that_cannot_be_are_refused(
    broker: ZooKeeperBroker, topic: CreatableTopic, error: type[errors.KafkaError]
) -> None:
    (result,) = create(broker, topic)
    assert result.error_code == error.code
    assert result.error_message
    assert not broker.zookeeper.nodes[znodes.TOPICS].children


def test_names_that_are_taken_or_too_alike_are_refused(broker: ZooKeeperBroker) -> None:
    create(broker, CreatableTopic(name="a.b", num_partitions=1, replication_factor=1))
    found = create(
        broker,
        CreatableTopic(name="a.b", num_partitions=1, replication_factor=1),
        CreatableTopic(name="a_b", num_partitions=1, replication_factor=1),
    )
    assert [one.error_code for one in found] == [errors.TopicExistsError.code, errors.InvalidTopicError.code]


def test_what_is_only_tried_is_not_made(broker: ZooKeeperBroker) -> None:
    (result,) = create(broker, flights(), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 2)
    assert not broker.zookeeper.nodes[znodes.TOPICS].children


def test_a_topic_that_has_no_leader_in_time_is_made_and_the_client_is_told(broker: ZooKeeperBroker) -> None:
    away = [CreatableReplicaAssignment(partition_index=0, broker_ids=[9])]
    client = broker.connect()
    client.request(CreateTopicsRequest(topics=[flights(-1, -1, assignments=away)], timeout_ms=1000), 7)
    broker.settle()
    assert not client.responses
    broker.advance(1.5)
    assert client.responses[0].topics[0].error_code == errors.KafkaTimeoutError.code  # type: ignore[attr-defined]
    assert "flights" in broker.zookeeper.nodes[znodes.TOPICS].children


def test_partitions_are_added(broker: ZooKeeperBroker) -> None:
    create(broker, flights())
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="flights", count=3, assignments=None)])
    (result,) = ask(broker, request, 3).results
    assert result.error_code == 0
    assert broker.node.metadata.topic("flights").partitions == 3  # type: ignore[union-attr]
    again = ask(broker, request, 3).results[0]
    assert (again.error_code, again.error_message) == (37, "Topic already has 3 partitions.")


@pytest.mark.parametrize("by_id", [False, True])
def test_a_topic_is_gone_when_the_client_hears_of_it(broker: ZooKeeperBroker, by_id: bool) -> None:
    (made,) = create(broker, flights())
    state = DeleteTopicState(name=None, topic_id=made.topic_id) if by_id else DeleteTopicState(name="flights")
    (result,) = ask(broker, DeleteTopicsRequest(topics=[state], timeout_ms=1000), 6).responses
    assert (result.error_code, result.name, result.topic_id) == (0, "flights", made.topic_id)
    assert broker.node.metadata.topic("flights") is None
    assert not broker.zookeeper.nodes[znodes.TOPICS].children


def test_a_topic_that_is_not_there_cannot_be_deleted(broker: ZooKeeperBroker) -> None:
    asked = [DeleteTopicState(name="flights"), DeleteTopicState(name=None, topic_id=bytes(15) + b"\x07")]
    found = ask(broker, DeleteTopicsRequest(topics=asked, timeout_ms=1000), 6).responses
    assert [one.error_code for one in found] == [3, 100]


def test_deletion_that_is_switched_off_is_refused() -> None:
    broker = ZooKeeperBroker(settings={"delete.topic.enable": "false"}, has_controller=False).take_office()
    create(broker, flights())
    (result,) = ask(broker, DeleteTopicsRequest(topics=[DeleteTopicState(name="flights")]), 6).responses
    assert result.error_code == errors.TopicDeletionDisabledError.code


# -- quotas, users, features -----------------------------------------------------------------------------------------


def test_quotas_stand_in_znodes_and_hold_here(broker: ZooKeeperBroker) -> None:
    entity = [EntityData("user", "alice"), EntityData("client-id", None)]
    operations = [OpData("producer_byte_rate", 1024.0, False), OpData("request_percentage", 12.5, False)]
    (entry,) = ask(broker, AlterClientQuotasRequest(entries=[EntryData(entity, operations)]), 1).entries
    assert entry.error_code == 0
    stored = {"producer_byte_rate": "1024", "request_percentage": "12.5"}
    assert data(broker, "/config/users/alice/clients/<default>")["config"] == stored
    removal = [OpData("producer_byte_rate", 0.0, True)]
    ask(broker, AlterClientQuotasRequest(entries=[EntryData(entity, removal)]), 1)
    assert list(broker.node.metadata.client_quotas.values()) == [{"request_percentage": 12.5}]
    wrong = [OpData("nonsense", 1.0, False)]
    (entry,) = ask(broker, AlterClientQuotasRequest(entries=[EntryData(entity, wrong)]), 1).entries
    assert entry.error_code == errors.InvalidRequestError.code


def test_credentials_stand_beside_quotas(broker: ZooKeeperBroker) -> None:
    operations = [OpData("producer_byte_rate", 1024.0, False)]
    ask(broker, AlterClientQuotasRequest(entries=[EntryData([EntityData("user", "alice")], operations)]), 1)
    wanted = ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
    (result,) = ask(broker, AlterUserScramCredentialsRequest(upsertions=[wanted]), 0).results
    assert result.error_code == 0
    config = data(broker, "/config/users/alice")["config"]
    assert config["SCRAM-SHA-256"].endswith(",iterations=4096")
    assert config["producer_byte_rate"] == "1024"
    gone = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="alice", mechanism=1)])
    assert ask(broker, gone, 0).results[0].error_code == 0
    assert "SCRAM-SHA-256" not in data(broker, "/config/users/alice")["config"]
    assert ask(broker, gone, 0).results[0].error_code == errors.ResourceNotFoundError.code


def test_no_feature_can_be_finalized(broker: ZooKeeperBroker) -> None:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=9)])
    (result,) = ask(broker, request, 1).results
    assert result.error_code == errors.InvalidRequestError.code


# -- brokers ---------------------------------------------------------------------------------------------------------


def test_producer_ids_come_in_blocks_of_a_thousand(broker: ZooKeeperBroker) -> None:
    request = AllocateProducerIdsRequest(broker_id=ME, broker_epoch=broker.control.broker_epoch)
    found = [ask(broker, request, 0) for _ in range(2)]
    assert [(one.producer_id_start, one.producer_id_len) for one in found] == [(0, 1000), (1000, 1000)]
    assert data(broker, "/latest_producer_id_block") == {
        "version": 1, "broker": ME, "block_start": "1000", "block_end": "1999"
    }  # fmt: skip
    stale = AllocateProducerIdsRequest(broker_id=ME, broker_epoch=0)
    assert ask(broker, stale, 0).error_code == errors.StaleBrokerEpochError.code
    unknown = AllocateProducerIdsRequest(broker_id=9, broker_epoch=0)
    assert ask(broker, unknown, 0).error_code == errors.BrokerIdNotRegisteredError.code


def test_producer_ids_go_on_behind_what_another_controller_gave() -> None:
    first = ZooKeeperBroker(has_controller=False).take_office()
    given = []
    for broker in (first, None):
        if broker is None:
            first.session.expire()
            first.zookeeper.deliver()
            broker = ZooKeeperBroker(first.zookeeper, has_controller=False).take_office()
        request = AllocateProducerIdsRequest(broker_id=ME, broker_epoch=broker.control.broker_epoch)
        given += [ask(broker, request, 0).producer_id_start for _ in range(2)]
    assert given == [0, 1000, 2000, 3000]


def proposal(broker: ZooKeeperBroker, **fields: Any) -> AlterPartitionRequest:
    topic = broker.node.metadata.topic("flights")
    assert topic is not None
    isr = [BrokerState(broker_id=one) for one in fields.pop("isr", [ME])]
    part = PartitionData(partition_index=0, new_isr_with_epochs=isr, **fields)
    epoch = broker.control.broker_epoch
    return AlterPartitionRequest(ME, epoch, [TopicData(topic_id=topic.id, partitions=[part])])


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 0, "partition_epoch": 0}, 0),
        ({"leader_epoch": 1, "partition_epoch": 0}, errors.NotControllerError.code),
        ({"leader_epoch": 0, "partition_epoch": 1}, errors.NotControllerError.code),
        ({"leader_epoch": -1, "partition_epoch": 0}, errors.FencedLeaderEpochError.code),
        ({"leader_epoch": 0, "partition_epoch": -1, "isr": [ME, 9]}, errors.InvalidUpdateVersionError.code),
        ({"leader_epoch": 0, "partition_epoch": 0, "isr": [ME, 9]}, errors.IneligibleReplicaError.code),
        ({"leader_epoch": 0, "partition_epoch": 0, "leader_recovery_state": 1}, errors.InvalidRequestError.code),
    ],
)
def test_isrs_are_taken_by_their_epochs(broker: ZooKeeperBroker, fields: dict[str, Any], code: int) -> None:
    create(broker, flights(1))
    (topic,) = ask(broker, proposal(broker, **fields), 3).topics
    assert topic.partitions[0].error_code == code


def test_a_proposal_of_an_earlier_life_is_refused(broker: ZooKeeperBroker) -> None:
    create(broker, flights(1))
    request = proposal(broker, leader_epoch=0, partition_epoch=0)
    request.broker_epoch -= 1
    assert ask(broker, request, 3).error_code == errors.StaleBrokerEpochError.code


def test_what_is_for_the_controller_is_refused_where_this_broker_is_none() -> None:
    broker = ZooKeeperBroker().register()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    assert broker.connect().request(request, 0).error_code == errors.NotControllerError.code


def test_what_another_broker_has_sent_on_does_not_go_round() -> None:
    broker = ZooKeeperBroker().register()
    request = ListPartitionReassignmentsRequest(topics=None)
    found = broker.connect().request(request, 0, "broker-2-forwarding")
    assert found.error_code == errors.NotControllerError.code
    assert broker.connect().request(request, 0) is None
    assert broker.asked("forwarding") is not None


def test_requests_that_wait_are_refused_when_the_reign_ends(broker: ZooKeeperBroker) -> None:
    client = broker.connect()
    client.request(CreateTopicsRequest(topics=[flights()], timeout_ms=1000), 7)
    broker.session.expire()
    assert not client.responses
    broker.session.connect()
    assert client.responses[0].topics[0].error_code == errors.NotControllerError.code  # type: ignore[attr-defined]
