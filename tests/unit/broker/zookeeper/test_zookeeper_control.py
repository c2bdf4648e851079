"""A broker under ZooKeeper: what it reads there, how it is registered, and what the controller makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.membership.broker_lifecycle import LifecycleState
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.operations import Create, Delete
from barnabas.errors import ConfigError
from barnabas.protocol.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse, RemainingPartition
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.core_broker import DATA, batch, produce
from tests.support.zookeeper_member import CONTROLLER, ME, ZooKeeperBroker, has_topic, known, leading

FLIGHTS, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"
MINE = f"{znodes.BROKER_IDS}/{ME}"


def metadata(found: ZooKeeperBroker, name: str) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return found.connect().request(request, 12)


def setting(found: ZooKeeperBroker, entity: str, **config: str) -> None:
    """Change settings as Kafka's tools do: the znode, then its announcement."""
    found.zookeeper.put(f"{znodes.CONFIG}/{entity}", znodes.encode_config(config))
    change = Create(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.encode_config_change(entity), sequential=True)
    found.zookeeper.carry_out(0, change)
    found.zookeeper.deliver()


# -- ZooKeeper -------------------------------------------------------------------------------------------------------


def test_the_first_broker_makes_what_has_to_be_there_and_the_next_takes_its_cluster_id() -> None:
    zookeeper = ModelZooKeeper()
    first, second = ZooKeeperBroker(zookeeper), ZooKeeperBroker(zookeeper, {"broker.id": 4})
    assert set(znodes.PERSISTENT) <= set(zookeeper.nodes)
    cluster_id = json.loads(zookeeper.nodes["/cluster/id"].data or b"")["id"]
    assert first.node.metadata.cluster_id == second.node.metadata.cluster_id == cluster_id
    assert len(cluster_id) == 22


def test_the_registration_is_ephemeral_and_its_transaction_is_the_broker_epoch() -> None:
    found = ZooKeeperBroker(settings={"broker.rack": "r3"}).register()
    node = found.zookeeper.nodes[MINE]
    assert node.owner == found.session.id
    assert found.control.broker_epoch == node.created
    value = json.loads(node.data or b"")
    assert value["endpoints"] == ["PLAINTEXT://127.0.0.1:9092"]
    assert (value["rack"], value["version"]) == ("r3", 5)
    assert found.states == [LifecycleState.RUNNING]


def test_a_session_that_expires_registers_the_broker_in_another_epoch() -> None:
    found = ZooKeeperBroker().register()
    before = found.control.broker_epoch
    found.session.expire()
    assert MINE not in found.zookeeper.nodes
    found.session.connect()
    found.zookeeper.deliver()
    assert found.control.broker_epoch == found.zookeeper.nodes[MINE].created > before


def test_a_connection_that_is_lost_and_found_keeps_the_registration() -> None:
    found = ZooKeeperBroker().register()
    before = found.control.broker_epoch
    found.session.disconnect()
    found.session.connect()
    found.zookeeper.deliver()
    assert found.control.broker_epoch == before == found.zookeeper.nodes[MINE].created


def test_a_registration_that_was_made_unheard_is_taken_over() -> None:
    found = ZooKeeperBroker()
    found.control.register({}, bytes(16), -1, found.states.append)
    found.session.disconnect()
    assert found.control.broker_epoch == -1
    found.session.connect()
    found.zookeeper.deliver()
    assert found.control.broker_epoch == found.zookeeper.nodes[MINE].created


def test_another_process_with_this_id_is_waited_for() -> None:
    zookeeper = ModelZooKeeper()
    before = ZooKeeperBroker(zookeeper).register()
    found = ZooKeeperBroker(zookeeper)
    found.control.register({}, bytes(16), -1, found.states.append)
    zookeeper.deliver()
    assert found.control.broker_epoch == -1
    assert any("another process with broker.id=3" in text for text in found.warnings)
    before.session.expire()
    zookeeper.deliver()
    assert found.control.broker_epoch == zookeeper.nodes[MINE].created
    assert zookeeper.nodes[MINE].owner == found.session.id


def test_the_data_directory_of_another_cluster_is_refused() -> None:
    zookeeper = ModelZooKeeper()
    found = ZooKeeperBroker(zookeeper)
    zookeeper.put("/cluster/id", znodes.encode_cluster_id("another"))
    found.control._known_cluster_id = "mine"
    found.session.expire()
    found.session.connect()
    zookeeper.deliver()
    assert any("belongs to cluster mine" in text for text in found.warnings)


def test_the_data_directory_says_whose_it_is_as_brokers_under_zookeeper_read_it() -> None:
    found = ZooKeeperBroker()
    lines = found.filesystem.read(f"{DATA}/meta.properties").decode().splitlines()
    assert {"version=0", f"broker.id={ME}"} <= set(lines)
    assert not any(line.startswith("node.id") for line in lines)


def test_a_malformed_znode_ends_the_start_and_is_named() -> None:
    zookeeper = ModelZooKeeper()
    zookeeper.put("/brokers/topics/flights", b"x")
    with pytest.raises(errors.KafkaError, match="/brokers/topics/flights"):
        ZooKeeperBroker(zookeeper)


# -- settings --------------------------------------------------------------------------------------------------------


def test_topics_and_settings_are_known_before_the_broker_opens_its_logs() -> None:
    zookeeper = ModelZooKeeper()
    has_topic(zookeeper, "flights", FLIGHTS, [3, 1], [1, 2], max_message_bytes="777")
    zookeeper.put("/config/users/alice/clients/c1", znodes.encode_config({"producer_byte_rate": "1000"}))
    zookeeper.put("/config/brokers/<default>", znodes.encode_config({"log.retention.ms": "5000"}))
    found = ZooKeeperBroker(zookeeper)
    topic = found.node.metadata.topic("flights")
    assert topic is not None
    assert (topic.id, topic.partitions, topic.configs) == (FLIGHTS, 2, {"max.message.bytes": "777"})
    assert found.member.is_assigned(TopicPartition("flights", 0))
    assert not found.member.is_assigned(TopicPartition("flights", 1))
    pair = frozenset({("user", "alice"), ("client-id", "c1")})
    assert found.control.image.client_quotas[pair] == {"producer_byte_rate": 1000.0}
    assert found.node.config.get_int("log.retention.ms") == 5000


def test_changes_of_settings_are_followed_one_notification_after_the_other() -> None:
    zookeeper = ModelZooKeeper()
    has_topic(zookeeper, "flights", FLIGHTS, [3, 1])
    found = ZooKeeperBroker(zookeeper).register()
    found.lead(leading("flights", FLIGHTS, [3, 1]))
    for size in ("100", "200", "300"):
        setting(found, "topics/flights", **{"max.message.bytes": size})
        assert found.partition("flights").log.config.max_message_bytes == int(size)
    setting(found, "topics/flights")
    assert found.partition("flights").log.config.max_message_bytes > 1000
    setting(found, "clients/%3Cb%3E", consumer_byte_rate="5.5")
    assert found.control.image.client_quotas == {frozenset({("client-id", "<b>")}): {"consumer_byte_rate": 5.5}}


def test_a_scram_user_comes_and_goes() -> None:
    found = ZooKeeperBroker()
    credential = "salt=c2FsdA==,stored_key=a2V5,server_key=c2VydmVy,iterations=4096"
    found.zookeeper.put("/config/users/alice", znodes.encode_config({"SCRAM-SHA-256": credential}))
    setting(found, "users/alice", **{"SCRAM-SHA-256": credential})
    record = found.control.image.scram_credentials["alice", 1]
    assert (record.salt, record.stored_key, record.server_key, record.iterations) == (b"salt", b"key", b"server", 4096)
    setting(found, "users/alice")
    assert not found.control.image.scram_credentials


def test_what_changed_while_zookeeper_was_away_is_there_when_it_is_back() -> None:
    zookeeper = ModelZooKeeper()
    has_topic(zookeeper, "flights", FLIGHTS, [3, 1], retention_ms="1000")
    zookeeper.put("/config/clients/a", znodes.encode_config({"producer_byte_rate": "1"}))
    found = ZooKeeperBroker(zookeeper)
    found.session.disconnect()
    zookeeper.put("/config/topics/flights", znodes.encode_config({"segment.bytes": "2000"}))
    zookeeper.put("/config/clients/a", znodes.encode_config({}))
    found.session.connect()
    zookeeper.deliver()
    assert found.control.image.configs == {(2, "flights"): {"segment.bytes": "2000"}}
    assert found.control.image.client_quotas == {}


def test_a_topic_that_went_while_the_broker_had_no_session_is_not_told_of_any_more() -> None:
    found = ZooKeeperBroker().register()
    has_topic(found.zookeeper, "flights", FLIGHTS, [1, 2])
    found.update(known("flights", FLIGHTS, [1, 2]))
    found.session.expire()
    found.zookeeper.carry_out(0, Delete(znodes.topic_path("flights")))
    found.session.connect()
    # What the controller tells while znodes are read is later than they are.
    found.update(known("delays", OTHER, [1, 2]), broker_epoch=-1)
    found.zookeeper.deliver()
    assert metadata(found, "flights").topics[0].error_code == 3
    assert metadata(found, "delays").topics[0].error_code == 0


def test_a_setting_that_kafka_does_not_write_is_told_and_the_rest_goes_on() -> None:
    found = ZooKeeperBroker()
    setting(found, "clients/a", producer_byte_rate="many")
    assert any("producer_byte_rate" in text for text in found.warnings)
    setting(found, "clients/b", producer_byte_rate="7")
    assert found.control.image.client_quotas[frozenset({("client-id", "b")})] == {"producer_byte_rate": 7.0}


# -- LeaderAndIsr ----------------------------------------------------------------------------------------------------


def test_roles_come_from_leader_and_isr_only() -> None:
    found = ZooKeeperBroker().register()
    found.update(known("flights", FLIGHTS, [3, 1], [1, 3]))
    assert found.partition("flights", 0) is None
    response = found.lead(leading("flights", FLIGHTS, [3, 1], [1, 3]))
    assert (response.error_code, response.topics[0].topic_id) == (0, FLIGHTS)
    assert [one.error_code for one in response.topics[0].partition_errors] == [0, 0]
    assert (found.partition("flights", 0).is_leader, found.partition("flights", 1).is_leader) == (True, False)
    found.update(known("flights", FLIGHTS, [1, 3], [1, 3], epoch=1))
    assert found.partition("flights", 0).is_leader


def test_settings_of_a_new_topic_are_read_before_its_log_is_made() -> None:
    found = ZooKeeperBroker().register()
    has_topic(found.zookeeper, "flights", FLIGHTS, [3, 1], max_message_bytes="777")
    assert found.lead(leading("flights", FLIGHTS, [3, 1])).error_code == 0
    assert found.partition("flights").log.config.max_message_bytes == 777


def test_a_request_that_waits_for_settings_is_carried_out_when_zookeeper_is_back() -> None:
    found = ZooKeeperBroker().register()
    has_topic(found.zookeeper, "flights", FLIGHTS, [3, 1], max_message_bytes="777")
    found.session.disconnect()
    assert found.lead(leading("flights", FLIGHTS, [3, 1])) is None
    assert found.partition("flights") is None
    found.session.connect()
    found.zookeeper.deliver()
    assert found.partition("flights").log.config.max_message_bytes == 777


def test_an_earlier_or_equal_leader_epoch_changes_nothing() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [3, 1], epoch=5, version=5))
    for epoch in (4, 5):
        response = found.lead(leading("flights", FLIGHTS, [1, 3], epoch=epoch, version=6))
        assert response.topics[0].partition_errors[0].error_code == errors.ControllerMovedError.code
    assert found.partition("flights").is_leader


def test_a_partition_that_is_not_assigned_here_is_refused() -> None:
    found = ZooKeeperBroker().register()
    response = found.lead(leading("flights", FLIGHTS, [1, 2]))
    assert response.topics[0].partition_errors[0].error_code == errors.UnknownTopicOrPartitionError.code
    assert found.partition("flights") is None


def test_requests_of_an_earlier_controller_or_for_an_earlier_life_change_nothing() -> None:
    found = ZooKeeperBroker().register()
    found.update(controller_epoch=5)
    old, stale = errors.ControllerMovedError.code, errors.StaleBrokerEpochError.code
    earlier = found.control.broker_epoch - 1
    for fields, code in (({"controller_epoch": 4}, old), ({"controller_epoch": 5, "broker_epoch": earlier}, stale)):
        found_codes = [
            found.lead(leading("flights", FLIGHTS, [3, 1]), **fields).error_code,
            found.update(known("flights", FLIGHTS, [3, 1]), **fields).error_code,
            found.stop_replica("flights", 0, 0, delete=True, **fields).error_code,
        ]
        assert found_codes == [code] * 3
    assert found.partition("flights") is None
    assert "flights" not in found.control.image.topic_ids


def test_a_broker_epoch_that_this_broker_has_not_heard_of_is_believed() -> None:
    found = ZooKeeperBroker().register()
    later = found.control.broker_epoch + 7
    assert found.lead(leading("flights", FLIGHTS, [3, 1]), broker_epoch=later).error_code == 0


def test_a_follower_fetches_from_where_update_metadata_says_its_leader_is() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [1, 3]))
    asked = found.channel("fetcher").requester.next_request(found.now)
    assert asked is not None
    node, request = asked
    assert (node.id, node.host, node.port) == (1, "host1", 9091)
    assert isinstance(request, FetchRequest)
    assert request.replica_state.replica_id == ME
    assert request.replica_state.replica_epoch == found.control.broker_epoch


def test_records_are_committed_when_the_follower_has_them_and_isr_changes_go_to_the_controller() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [3, 1]))
    client = found.connect()
    assert client.request(produce("flights", batch(b"v")), 9) is None
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=1, replica_epoch=77),
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=FLIGHTS, partitions=[FetchPartition(partition=0, fetch_offset=1)])],
    )
    found.connect().request(fetch, 17)
    assert client.responses[-1].responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
    client.request(produce("flights", batch(b"w")), 9)
    found.advance(60)
    asked = found.asked("alter-partition")
    assert isinstance(asked, AlterPartitionRequest)
    assert asked.broker_epoch == found.control.broker_epoch
    [part] = asked.topics[0].partitions
    assert [member.broker_id for member in part.new_isr_with_epochs] == [ME]


# -- UpdateMetadata --------------------------------------------------------------------------------------------------


def test_clients_are_told_what_update_metadata_says_and_who_is_controller() -> None:
    found = ZooKeeperBroker().register()
    found.update(known("flights", FLIGHTS, [1, 2], [2, 1], leader=2, epoch=4))
    told = metadata(found, "flights")
    assert told.controller_id == CONTROLLER
    assert [(node.node_id, node.host, node.rack) for node in told.brokers][:2] == [
        (1, "host1", "r1"),
        (2, "host2", "r2"),
    ]
    assert [(part.leader_id, part.leader_epoch) for part in told.topics[0].partitions] == [(2, 4), (2, 4)]
    found.update(alive=(1, ME))
    told = metadata(found, "flights")
    assert [node.node_id for node in told.brokers] == [1, ME]
    assert told.topics[0].partitions[0].offline_replicas == [2]


def test_a_partition_that_never_had_a_leader_is_told_without_one() -> None:
    found = ZooKeeperBroker().register()
    topic = known("flights", FLIGHTS, [1, 2], [2, 1], [1, 2])
    del topic.partition_states[1]
    found.update(topic)
    told = [(part.partition_index, part.leader_id) for part in metadata(found, "flights").topics[0].partitions]
    assert told == [(0, 1), (1, -1), (2, 1)]


def test_news_that_are_older_than_leader_and_isr_do_not_undo_it() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [3, 1], epoch=2, version=2))
    found.update(known("flights", FLIGHTS, [1, 3], epoch=1))
    assert metadata(found, "flights").topics[0].partitions[0].leader_epoch == 2


# -- the end of replicas ---------------------------------------------------------------------------------------------


def test_a_stopped_replica_keeps_its_log_and_fetches_no_more() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [1, 3], epoch=1, version=1))
    assert found.stop_replica("flights", 0, 1, delete=False).partition_errors[0].error_code == 0
    assert found.asked("fetcher") is None
    assert found.partition("flights").leader_id == -1
    assert found.node.logs.get_log(TopicPartition("flights", 0)) is not None


def test_a_leader_that_is_stopped_leads_no_more() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [3, 1]))
    found.stop_replica("flights", 0, -2, delete=False)
    assert not found.partition("flights").is_leader


def test_a_replica_is_deleted_unless_the_epoch_is_an_old_one() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [3, 1], epoch=3, version=3))
    response = found.stop_replica("flights", 0, 2, delete=True)
    assert response.partition_errors[0].error_code == errors.FencedLeaderEpochError.code
    assert found.partition("flights") is not None
    found.stop_replica("flights", 0, 3, delete=True)
    assert found.partition("flights") is None
    assert found.node.logs.get_log(TopicPartition("flights", 0)) is None


def test_a_topic_is_deleted_and_made_again_under_its_name() -> None:
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [3, 1]))
    found.update(known("flights", FLIGHTS, [3, 1], leader=-2))
    assert metadata(found, "flights").topics[0].error_code == errors.UnknownTopicOrPartitionError.code
    found.stop_replica("flights", 0, -2, delete=False)
    found.stop_replica("flights", 0, -2, delete=True)
    assert found.node.logs.get_log(TopicPartition("flights", 0)) is None
    has_topic(found.zookeeper, "flights", OTHER, [3, 1], max_message_bytes="777")
    assert found.lead(leading("flights", OTHER, [3, 1])).topics[0].partition_errors[0].error_code == 0
    assert found.partition("flights").topic_id == OTHER
    assert found.partition("flights").log.config.max_message_bytes == 777


def test_a_topic_that_is_about_to_be_deleted_is_not_fetched_any_more() -> None:
    """Clients are told first that it is gone; StopReplica follows, and may be late."""
    found = ZooKeeperBroker().register()
    found.lead(leading("flights", FLIGHTS, [1, 3]), leading("trains", OTHER, [1, 3]))
    found.update(known("flights", FLIGHTS, [1, 3], leader=-2))
    asked = found.channel("fetcher").requester.next_request(found.now)
    assert asked is not None
    assert [topic.topic_id for topic in asked[1].topics] == [OTHER]


def test_stopping_what_is_not_here_is_no_error() -> None:
    found = ZooKeeperBroker().register()
    assert found.stop_replica("flights", 0, -2, delete=True).partition_errors[0].error_code == 0
    assert found.push(StopReplicaRequest(), 4).error_code == 0


# -- the controller --------------------------------------------------------------------------------------------------


def test_requests_for_the_controller_go_there_as_they_came() -> None:
    found = ZooKeeperBroker().register()
    client = found.connect()
    assert client.request(CreateTopicsRequest(topics=[CreatableTopic("new", 1, 1)]), 7) is None
    asked = found.answer("forwarding", CreateTopicsResponse(topics=[CreatableTopicResult(name="new")]))
    assert isinstance(asked, CreateTopicsRequest)
    assert asked.topics[0].name == "new"
    assert client.responses[-1].topics[0].error_code == 0  # type: ignore[attr-defined]


def altered(found: ZooKeeperBroker, kind: int, name: str, **values: str) -> Any:
    """Ask for settings, as AlterConfigs does: these and no others."""
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    client = found.connect()
    client.request(AlterConfigsRequest(resources=[resource]), 2)
    for _ in range(3):
        found.zookeeper.deliver()
        found.advance(0)
        found.node.core.settle(found.instant)
    return client.responses[-1].responses[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "name", "entity", "values"),
    [
        (4, str(ME), f"brokers/{ME}", {"log_cleaner_threads": "2"}),
        (4, "", "brokers/<default>", {"log_retention_ms": "12345"}),
        (2, "flights", "topics/flights", {"max_message_bytes": "777"}),
    ],
)
def test_settings_are_written_here_and_announced(kind: int, name: str, entity: str, values: Any) -> None:
    zookeeper = ModelZooKeeper()
    has_topic(zookeeper, "flights", FLIGHTS, [3, 1], retention_ms="1")
    found, other = ZooKeeperBroker(zookeeper).register(), ZooKeeperBroker(zookeeper, {"broker.id": 4})
    assert altered(found, kind, name, **values).error_code == 0
    wanted = {key.replace("_", "."): value for key, value in values.items()}
    assert json.loads(zookeeper.nodes[f"/config/{entity}"].data or b"")["config"] == wanted
    [announced] = [node for path, node in zookeeper.nodes.items() if path.startswith("/config/changes/")]
    assert json.loads(announced.data or b"") == {"version": 2, "entity_path": entity}
    for broker in (found, other):
        assert broker.control.image.configs[kind, name] == wanted


def test_settings_of_another_broker_are_refused() -> None:
    found = ZooKeeperBroker().register()
    assert altered(found, 4, "1", log_retention_ms="1").error_code == errors.InvalidRequestError.code
    assert "/config/brokers/1" not in found.zookeeper.nodes


def test_settings_that_zookeeper_did_not_confirm_may_be_there() -> None:
    zookeeper = ModelZooKeeper()
    has_topic(zookeeper, "flights", FLIGHTS, [3, 1])
    found = ZooKeeperBroker(zookeeper).register()
    config = [AlterableConfig(name="max.message.bytes", value="777")]
    resource = AlterConfigsResource(resource_type=2, resource_name="flights", configs=config)
    client = found.connect()
    assert client.request(AlterConfigsRequest(resources=[resource]), 2) is None
    found.session.disconnect()
    found.advance(0)
    found.node.core.settle(found.instant)
    answer = client.responses[-1].responses[0]  # type: ignore[attr-defined]
    assert answer.error_code == errors.KafkaTimeoutError.code
    assert "may have been written, or not" in answer.error_message


def test_the_apis_of_controllers_are_offered_and_those_of_kraft_are_not() -> None:
    found = ZooKeeperBroker().register()
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    offered = {one.api_key: one.max_version for one in found.connect().request(request, 4).api_keys}
    assert (offered[4], offered[5], offered[6]) == (7, 4, 8)
    assert 55 not in offered


def test_features_of_kafka_4_are_off() -> None:
    found = ZooKeeperBroker().register()
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert found.connect().request(request, 4).finalized_features == []


# -- the end ---------------------------------------------------------------------------------------------------------


def test_a_controlled_shutdown_asks_until_nothing_is_led_here() -> None:
    found = ZooKeeperBroker().register()
    found.control.leave()
    left = [RemainingPartition(topic_name="flights", partition_index=0)]
    asked = found.answer("controlled-shutdown", ControlledShutdownResponse(remaining_partitions=left))
    assert (asked.broker_id, asked.broker_epoch) == (ME, found.control.broker_epoch)
    assert not found.control.is_out
    assert found.asked("controlled-shutdown") is None
    found.now += 5
    found.answer("controlled-shutdown", ControlledShutdownResponse())
    assert found.control.is_out
    assert not any("without the controller's consent" in text for text in found.warnings)


def test_the_last_broker_of_a_cluster_does_not_wait_until_another_one_can_lead() -> None:
    found = ZooKeeperBroker(has_controller=False)
    has_topic(found.zookeeper, "flights", FLIGHTS, [ME, 2])
    found.take_office()
    found.control.leave()
    found.settle()
    assert found.control.is_out
    assert any("this is the last one" in text for text in found.warnings)


def test_a_controlled_shutdown_that_is_refused_ends_and_says_so() -> None:
    found = ZooKeeperBroker().register()
    found.control.leave()
    for _ in range(4):
        found.now += 6
        found.answer("controlled-shutdown", ControlledShutdownResponse(error_code=errors.StaleBrokerEpochError.code))
    assert found.control.is_out
    assert any("STALE_BROKER_EPOCH" in text for text in found.warnings)


def test_how_often_and_when_the_controller_is_asked_again_are_settings() -> None:
    settings = {"controlled.shutdown.max.retries": 1, "controlled.shutdown.retry.backoff.ms": 300}
    found = ZooKeeperBroker(settings=settings).register()
    found.control.leave()
    left = ControlledShutdownResponse(remaining_partitions=[RemainingPartition("flights", 0)])
    found.answer("controlled-shutdown", left)
    found.now += 0.2
    assert found.asked("controlled-shutdown") is None
    found.now += 0.2
    found.answer("controlled-shutdown", left)
    assert found.control.is_out
    assert any("1 partitions have no other leader" in text for text in found.warnings)


def test_a_broker_without_controlled_shutdown_asks_nobody() -> None:
    found = ZooKeeperBroker(settings={"controlled.shutdown.enable": "false"}).register()
    found.control.leave()
    assert found.control.is_out
    assert not any("without the controller's consent" in text for text in found.warnings)


def test_a_broker_whose_controller_is_not_known_ends_at_once() -> None:
    found = ZooKeeperBroker()
    found.control.leave()
    assert found.control.is_out
    assert any("no controller is known" in text for text in found.warnings)


# -- settings of the broker ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "joins"),
    [
        ({"zookeeper.connect": "zk1:2181,zk2:2181/flights/a"}, ("zk1:2181,zk2:2181", "/flights/a")),
        ({"zookeeper.connect": "localhost:2181", "inter.broker.protocol.version": "3.9"}, ("localhost:2181", "")),
        ({"zookeeper.connect": "localhost:2181"}, None),
        ({}, None),
    ],
)
def test_a_zookeeper_elsewhere_or_a_protocol_between_brokers_makes_a_member(given: Any, joins: Any) -> None:
    config = BrokerConfig(given)
    assert config.zookeeper == joins
    assert config.is_member == (joins is not None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"inter.broker.protocol.version": "3.5"}, "speaks 3.9 only"),
        (
            {"security.inter.broker.protocol": "SASL_SSL", "listeners": "SASL_SSL://:9092"},
            r"sasl\.mechanism\.inter\.broker\.protocol=GSSAPI",
        ),
    ],
)
def test_what_such_a_member_does_not_do_is_an_error(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig({"zookeeper.connect": "zk:2181", **given})
