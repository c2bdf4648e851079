"""The options of AdminClient's operations, against a running broker: ours, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.client.admin.cluster import FeatureUpdate
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.client.admin.new_topic import NewPartitions
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import InvalidReplicaAssignmentError, KafkaTimeoutError
from barnabas.protocol.kinds import OpType, UpgradeType
from tests.contract.waiting import eventually

NewName = Callable[[str], str]


def test_each_kind_of_offset_is_found(admin: AdminClient, bootstrap_servers: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for timestamp in (1000, 3000, 2000):
            producer.send(topic, value=b"1", partition=0, timestamp_ms=timestamp).result(10)

    def found(spec: int) -> tuple[int, int]:
        offset = admin.list_offsets({partition: spec})[partition]
        return offset.offset, offset.timestamp

    assert found(OffsetSpec.EARLIEST) == found(OffsetSpec.EARLIEST_LOCAL) == (0, -1)
    assert found(OffsetSpec.LATEST) == (3, -1)
    assert found(OffsetSpec.MAX_TIMESTAMP) == (1, 3000)
    assert found(1500) == (1, 3000)
    assert found(4000) == (-1, -1)
    assert found(OffsetSpec.LATEST_TIERED) == found(OffsetSpec.EARLIEST_PENDING_UPLOAD) == (-1, -1)


def test_an_open_transaction_bounds_what_is_committed(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=new_name("transaction")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"1", partition=0).result(10)
        latest = {partition: OffsetSpec.LATEST}
        assert admin.list_offsets(latest)[partition].offset == 1
        assert admin.list_offsets(latest, isolation_level="read_committed")[partition].offset == 0
        node = admin.describe_cluster().nodes[0].id
        (writer,) = admin.describe_producers([partition], broker_id=node)[partition]
        assert writer.current_transaction_start_offset == 0
        producer.commit_transaction()
    eventually(lambda: admin.list_offsets(latest, isolation_level="read_committed")[partition].offset == 2)


def test_offsets_in_an_open_transaction_are_waited_for_on_request(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    group, partition = new_name("group"), TopicPartition(topic, 0)
    admin.alter_consumer_group_offsets(group, {partition: 1})
    with (
        Producer(bootstrap_servers=bootstrap_servers, transactional_id=new_name("transaction")) as producer,
        Consumer(group_id=group, bootstrap_servers=bootstrap_servers) as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(2)}, consumer.group_metadata())
        assert admin.list_consumer_group_offsets(group)[partition].offset == 1
        with pytest.raises(KafkaTimeoutError, match="still open"):
            admin.list_consumer_group_offsets(group, require_stable=True, timeout=0.5)
        producer.commit_transaction()
    assert admin.list_consumer_group_offsets(group, [partition], require_stable=True)[partition].offset == 2


def test_a_list_is_extended_and_shortened(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource.topic(topic)

    def change(operation: OpType, value: str) -> None:
        admin.incremental_alter_configs({resource: [AlterConfigOp("cleanup.policy", value, operation)]})

    def policies() -> set[str]:
        return set((admin.describe_configs([resource])[resource]["cleanup.policy"].value or "").split(","))

    change(OpType.APPEND, "compact")
    eventually(lambda: policies() == {"delete", "compact"})
    change(OpType.SUBTRACT, "delete")
    eventually(lambda: policies() == {"compact"})
    admin.incremental_alter_configs({resource: {"cleanup.policy": "delete"}}, validate_only=True)
    assert policies() == {"compact"}
    change(OpType.DELETE, "")
    eventually(lambda: policies() == {"delete"})


def test_new_partitions_are_placed(admin: AdminClient, topic: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    with pytest.raises(InvalidReplicaAssignmentError):
        admin.create_partitions({topic: NewPartitions(3, [[98765]])})
    admin.create_partitions({topic: NewPartitions(3, [[node]])}, validate_only=True)
    assert len(admin.describe_topics([topic])[topic].partitions) == 2
    admin.create_partitions({topic: NewPartitions(3, [[node]])})
    eventually(lambda: len(admin.describe_topics([topic])[topic].partitions) == 3)


def test_partitions_keep_their_number_of_replicas_if_that_is_asked_for(admin: AdminClient, topic: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    partition = TopicPartition(topic, 0)
    assert partition in admin.alter_partition_reassignments({partition: [node]}, allow_replication_factor_change=False)


def test_a_feature_may_go_down_if_that_is_asked_for(admin: AdminClient) -> None:
    down = {"group.version": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}
    assert list(admin.update_features(down, validate_only=True)) == ["group.version"]
    assert admin.describe_features().finalized["group.version"].max_version == 1
