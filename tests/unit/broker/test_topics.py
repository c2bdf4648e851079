"""CreateTopics, DeleteTopics, CreatePartitions, Metadata, DescribeConfigs: the controller's rules."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED
from barnabas.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics_request import CreatableReplicaAssignment, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


def create_one(client: CoreClient, topic: str, **changes: Any) -> Any:
    request = create(topic)
    for name, value in changes.items():
        setattr(request.topics[0], name, value)
    return client.request(request, 7).topics[0]


def names(client: CoreClient) -> list[str]:
    return [topic.name for topic in client.request(MetadataRequest(topics=None), 12).topics]


class TestCreating:
    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "a b", "x" * 250])
    def test_names_that_cannot_be(self, client: CoreClient, name: str) -> None:
        assert create_one(client, name).error_code == errors.InvalidTopicError.code

    def test_the_longest_name(self, client: CoreClient) -> None:
        assert create_one(client, "x" * 249).error_code == 0

    def test_a_topic_that_exists(self, client: CoreClient) -> None:
        create_one(client, "t")
        assert create_one(client, "t").error_code == errors.TopicExistsError.code

    def test_names_that_differ_in_dots_and_underscores_only_collide(self, client: CoreClient) -> None:
        create_one(client, "a.b")
        assert create_one(client, "a_b").error_code == errors.InvalidTopicError.code
        both = CreateTopicsRequest(topics=create("c.d").topics + create("c_d").topics)
        assert [t.error_code for t in client.request(both, 7).topics] == [0, errors.InvalidTopicError.code]

    def test_a_name_given_twice_in_a_request_creates_nothing(self, client: CoreClient) -> None:
        request = CreateTopicsRequest(topics=create("t").topics + create("t").topics + create("u").topics)
        found = {topic.name: topic.error_code for topic in client.request(request, 7).topics}
        assert found == {"t": errors.InvalidRequestError.code, "u": 0}
        assert names(client) == ["u"]

    @pytest.mark.parametrize("count", [0, -2])
    def test_impossible_partition_counts(self, client: CoreClient, count: int) -> None:
        assert create_one(client, "t", num_partitions=count).error_code == errors.InvalidPartitionsError.code

    def test_too_many_partitions_for_one_request(self, client: CoreClient) -> None:
        assert create_one(client, "t", num_partitions=10_001).error_code == errors.PolicyViolationError.code

    @pytest.mark.parametrize("factor", [0, -2, 2])
    def test_impossible_replication_factors(self, client: CoreClient, factor: int) -> None:
        found = create_one(client, "t", replication_factor=factor)
        assert found.error_code == errors.InvalidReplicationFactorError.code

    def test_minus_1_takes_the_brokers_defaults(self) -> None:
        client = CoreBroker({"num.partitions": 4}).connect()
        found = create_one(client, "t", num_partitions=-1, replication_factor=-1)
        assert (found.error_code, found.num_partitions, found.replication_factor) == (0, 4, 1)

    def test_assignments_by_hand(self, client: CoreClient) -> None:
        def assigned(*partitions: tuple[int, list[int]], **changes: Any) -> int:
            made = [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in partitions]
            fields = {"num_partitions": -1, "replication_factor": -1, "assignments": made, **changes}
            code: int = create_one(client, "t", **fields).error_code
            return code

        assert assigned((0, [1]), num_partitions=1) == errors.InvalidRequestError.code
        assert assigned((0, [1]), replication_factor=1) == errors.InvalidRequestError.code
        assert assigned((0, [1]), (2, [1])) == errors.InvalidReplicaAssignmentError.code
        assert assigned((0, [2])) == errors.InvalidReplicaAssignmentError.code
        assert assigned((0, [1]), (1, [1])) == 0

    @pytest.mark.parametrize(
        ("name", "value"), [("retention.ms", "soon"), ("retenshun.ms", "1"), ("cleanup.policy", "burn")]
    )
    def test_settings_that_make_no_sense(self, client: CoreClient, name: str, value: str) -> None:
        found = client.request(create("t", **{name: value}), 7).topics[0]
        assert found.error_code == errors.InvalidConfigurationError.code
        assert name in found.error_message
        assert names(client) == []

    def test_validate_only_creates_nothing(self, client: CoreClient) -> None:
        request = create("t")
        request.validate_only = True
        assert client.request(request, 7).topics[0].error_code == 0
        assert names(client) == []

    def test_kafkas_metadata_topic_cannot_be_created(self, client: CoreClient) -> None:
        assert create_one(client, "__cluster_metadata").error_code == errors.InvalidRequestError.code


class TestDeleting:
    def delete(self, client: CoreClient, **state: Any) -> Any:
        return client.request(DeleteTopicsRequest(topics=[DeleteTopicState(**state)]), 6).responses[0]

    def test_by_name_and_by_id(self, client: CoreClient) -> None:
        create_one(client, "t")
        found = create_one(client, "u")
        assert self.delete(client, name="t").error_code == 0
        assert self.delete(client, topic_id=found.topic_id).name == "u"
        assert names(client) == []

    def test_what_is_not_there(self, client: CoreClient) -> None:
        assert self.delete(client, name="t").error_code == errors.UnknownTopicOrPartitionError.code
        assert self.delete(client, topic_id=b"x" * 16).error_code == errors.UnknownTopicIdError.code

    def test_both_and_neither_are_invalid(self, client: CoreClient) -> None:
        found = create_one(client, "t")
        assert self.delete(client, name="t", topic_id=found.topic_id).error_code == errors.InvalidRequestError.code
        assert self.delete(client).error_code == errors.InvalidRequestError.code

    def test_it_can_be_disabled(self) -> None:
        client = CoreBroker({"delete.topic.enable": False}).connect()
        create_one(client, "t")
        assert self.delete(client, name="t").error_code == errors.TopicDeletionDisabledError.code
        assert names(client) == ["t"]

    def test_a_topic_made_again_is_empty_and_another(self, client: CoreClient) -> None:
        first = create_one(client, "t")
        client.request(produce("t", batch(b"old")), 12)
        self.delete(client, name="t")
        second = create_one(client, "t")
        assert first.topic_id != second.topic_id
        found = client.request(fetch("t"), 12).responses[0].partitions[0]
        assert (found.high_watermark, len(found.records)) == (0, 0)
        old = client.request(fetch("", topic_id=first.topic_id), 13).responses[0].partitions[0]
        assert old.error_code == errors.UnknownTopicIdError.code

    def test_a_crash_right_after_the_metadata_changed_leaves_no_log(self, client: CoreClient) -> None:
        create_one(client, "t")
        client.request(produce("t", batch(b"old")), 12)
        broker = client.broker
        broker.state.metadata.on_topics_changed = lambda deleted: None  # the crash comes before the logs go
        broker.state.metadata.delete_topics(["t"])
        after = broker.crashed()
        after.advance(1)
        assert list(after.node.logs) == []
        assert after.warnings == []
        assert after.state.metadata.deleted_topic_ids() == set()

    def test_logs_of_topics_that_nobody_deleted_are_left_alone(self, client: CoreClient) -> None:
        create_one(client, "t")
        client.request(produce("t", batch(b"precious")), 12)
        after = CoreBroker(filesystem=client.broker.filesystem_after_crash())
        after.advance(1)
        assert "/data/t-0 belongs to no topic" in after.warnings[0]
        assert after.filesystem.exists("/data/t-0/00000000000000000000.log")


class TestEnlarging:
    def enlarge(self, client: CoreClient, count: int, **fields: Any) -> Any:
        topic = CreatePartitionsTopic(name="t", count=count, assignments=fields.pop("assignments", None))
        return client.request(CreatePartitionsRequest(topics=[topic], **fields), 3).results[0]

    def test_new_partitions_can_be_written_and_old_ones_stay(self, client: CoreClient) -> None:
        create_one(client, "t")
        client.request(produce("t", batch(b"old")), 12)
        assert self.enlarge(client, 3).error_code == 0
        assert client.request(produce("t", batch(b"new"), 2), 12).responses[0].partition_responses[0].error_code == 0
        assert client.request(fetch("t"), 12).responses[0].partitions[0].high_watermark == 1

    @pytest.mark.parametrize("count", [2, 1, 0])
    def test_the_number_must_grow(self, client: CoreClient, count: int) -> None:
        create_one(client, "t", num_partitions=2)
        assert self.enlarge(client, count).error_code == errors.InvalidPartitionsError.code

    def test_assignments_must_match_and_name_this_broker(self, client: CoreClient) -> None:
        create_one(client, "t")
        wrong = [CreatePartitionsAssignment(broker_ids=[9])]
        assert self.enlarge(client, 2, assignments=wrong).error_code == errors.InvalidReplicaAssignmentError.code
        assert self.enlarge(client, 3, assignments=wrong).error_code == errors.InvalidReplicaAssignmentError.code
        right = [CreatePartitionsAssignment(broker_ids=[1])]
        assert self.enlarge(client, 2, assignments=right).error_code == 0

    def test_validate_only_changes_nothing(self, client: CoreClient) -> None:
        create_one(client, "t")
        assert self.enlarge(client, 3, validate_only=True).error_code == 0
        assert client.broker.state.metadata.topic("t").partitions == 1

    def test_an_unknown_topic(self, client: CoreClient) -> None:
        assert self.enlarge(client, 3).error_code == errors.UnknownTopicOrPartitionError.code


class TestMetadata:
    def ask(self, client: CoreClient, version: int = 12, *, auto: bool = True, **topic: Any) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(**topic)], allow_auto_topic_creation=auto)
        return client.request(request, version).topics[0]

    def test_asking_creates_the_topic(self) -> None:
        client = CoreBroker({"num.partitions": 3}).connect()
        assert len(self.ask(client, name="t").partitions) == 3

    def test_unless_the_client_or_the_broker_says_no(self, client: CoreClient) -> None:
        assert self.ask(client, auto=False, name="t").error_code == errors.UnknownTopicOrPartitionError.code
        strict = CoreBroker({"auto.create.topics.enable": False}).connect()
        assert self.ask(strict, name="t").error_code == errors.UnknownTopicOrPartitionError.code
        assert names(client) == names(strict) == []

    def test_a_name_that_cannot_be_is_an_invalid_topic(self, client: CoreClient) -> None:
        assert self.ask(client, name="a b").error_code == errors.InvalidTopicError.code

    def test_by_id(self, client: CoreClient) -> None:
        found = create_one(client, "t")
        assert self.ask(client, name=None, topic_id=found.topic_id).name == "t"
        assert self.ask(client, name=None, topic_id=b"x" * 16).error_code == errors.UnknownTopicIdError.code
        early = self.ask(client, version=11, name=None, topic_id=found.topic_id)
        assert early.error_code == errors.InvalidRequestError.code

    def test_an_empty_list_is_no_topic_from_version_1_on(self, client: CoreClient) -> None:
        create_one(client, "t")
        assert client.request(MetadataRequest(topics=[]), 1).topics == []

    def test_authorized_operations_only_when_asked_for(self, client: CoreClient) -> None:
        create_one(client, "t")
        plain = client.request(MetadataRequest(topics=None), 12).topics[0]
        assert plain.topic_authorized_operations == AUTHORIZED_OPERATIONS_NOT_REQUESTED
        request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        # READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, as Apache Kafka answers.
        assert client.request(request, 12).topics[0].topic_authorized_operations == 0x0DF8

    def test_internal_topics_are_marked(self, client: CoreClient) -> None:
        found = self.ask(client, name="__consumer_offsets")
        assert (found.is_internal, len(found.partitions)) == (True, 50)
        assert client.broker.state.metadata.topic("__consumer_offsets").configs["cleanup.policy"] == "compact"

    def test_describe_cluster_refuses_to_describe_controllers(self, client: CoreClient) -> None:
        assert client.request(DescribeClusterRequest(endpoint_type=1), 2).error_code == 0
        for kind, error in ((2, errors.MismatchedEndpointTypeError), (9, errors.UnsupportedEndpointTypeError)):
            assert client.request(DescribeClusterRequest(endpoint_type=kind), 2).error_code == error.code


class TestDescribeConfigs:
    def describe(self, client: CoreClient, kind: int, name: str, keys: list[str] | None = None) -> Any:
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        return client.request(DescribeConfigsRequest(resources=[asked]), 4).results[0]

    def test_a_topic_shows_its_own_the_brokers_and_the_default_values(self) -> None:
        client = CoreBroker({"log.segment.bytes": 2_000_000}).connect()
        client.request(create("t", retention_ms="5000"), 7)
        found = {config.name: config for config in self.describe(client, 2, "t").configs}
        shown = {name: (found[name].value, found[name].config_source) for name in found}
        assert shown["retention.ms"] == ("5000", 1)
        assert shown["segment.bytes"] == ("2000000", 4)
        assert shown["max.message.bytes"] == ("1048588", 5)
        assert len(found) == 33

    def test_the_broker_shows_all_its_settings(self, client: CoreClient) -> None:
        found = {config.name: config.value for config in self.describe(client, 4, "1").configs}
        assert found["num.partitions"] == "1"
        assert found["auto.create.topics.enable"] == "true"

    def test_what_is_not_there(self, client: CoreClient) -> None:
        assert self.describe(client, 2, "t").error_code == errors.UnknownTopicOrPartitionError.code
        assert self.describe(client, 4, "7").error_code == errors.InvalidRequestError.code
        assert self.describe(client, 99, "x").error_code == errors.InvalidRequestError.code
