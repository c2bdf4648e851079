"""DescribeTopicPartitions, ElectLeaders, reassignments, UpdateFeatures; the answers are Apache Kafka 4.3's."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.core_broker import CoreBroker, CoreClient, create

UNKNOWN = errors.UnknownTopicOrPartitionError.code
Page = tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]


@pytest.fixture
def topics(client: CoreClient) -> CoreClient:
    client.request(create("u", 5), 7)
    client.request(create("v", 3), 7)
    return client


class TestDescribingTopicPartitions:
    def ask(self, client: CoreClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Page:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        response = client.request(request, 0)
        found = [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in response.topics]
        after = response.next_cursor
        return found, None if after is None else (after.topic_name, after.partition_index)

    def test_all_topics_when_none_is_named(self, topics: CoreClient) -> None:
        assert self.ask(topics) == ([("u", 0, [0, 1, 2, 3, 4]), ("v", 0, [0, 1, 2])], None)

    @pytest.mark.parametrize("limit", range(1, 10))
    def test_pages_give_every_partition_once_in_order(self, topics: CoreClient, limit: int) -> None:
        seen: list[tuple[str, int]] = []
        cursor = None
        for _ in range(9):
            found, cursor = self.ask(topics, "v", "u", "v", limit=limit, cursor=cursor)
            page = [(name, index) for name, _, indexes in found for index in indexes]
            assert 1 <= len(page) <= limit
            seen += page
            if cursor is None:
                break
        assert seen == [("u", index) for index in range(5)] + [("v", index) for index in range(3)]

    def test_what_is_not_there_counts_nothing(self, topics: CoreClient) -> None:
        assert self.ask(topics, "nope", "u", limit=2) == ([("nope", UNKNOWN, []), ("u", 0, [0, 1])], ("u", 2))
        assert self.ask(topics, "a b") == ([("a b", errors.InvalidTopicError.code, [])], None)

    def test_a_cursor_that_does_not_fit_is_refused(self, topics: CoreClient) -> None:
        code = errors.InvalidRequestError.code
        refused = ([("u", code, []), ("v", code, [])], None)
        assert self.ask(topics, "u", "v", cursor=("uu", 1)) == refused
        assert self.ask(topics, "u", "v", cursor=("z", 0)) == refused
        assert self.ask(topics, "u", cursor=("u", -1)) == ([("u", code, [])], None)

    def test_a_cursor_past_the_last_partition_goes_on_with_the_next_topic(self, topics: CoreClient) -> None:
        assert self.ask(topics, "u", "v", cursor=("u", 99)) == ([("u", 0, []), ("v", 0, [0, 1, 2])], None)

    def test_the_limit_of_the_broker_holds_too(self) -> None:
        client = CoreBroker({"max.request.partition.size.limit": 2}).connect()
        client.request(create("u", 5), 7)
        assert self.ask(client, "u") == ([("u", 0, [0, 1])], ("u", 2))


class TestElectingLeaders:
    def elect(self, client: CoreClient, *partitions: tuple[str, list[int]], kind: int = 0, version: int = 2) -> Any:
        asked = [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in partitions]
        return client.request(ElectLeadersRequest(election_type=kind, topic_partitions=asked), version)

    def test_it_is_not_needed(self, topics: CoreClient) -> None:
        for version in range(3):
            response = self.elect(topics, ("u", [0, 99]), ("nope", [0]), version=version)
            found = [[p.error_code for p in t.partition_result] for t in response.replica_election_results]
            assert found == [[errors.ElectionNotNeededError.code, UNKNOWN], [UNKNOWN]]
            assert response.error_code == 0

    def test_for_all_partitions_only_those_that_changed_are_named(self, topics: CoreClient) -> None:
        response = topics.request(ElectLeadersRequest(topic_partitions=None), 2)
        assert [(t.topic, t.partition_result) for t in response.replica_election_results] == [("u", []), ("v", [])]

    def test_an_unknown_kind_of_election(self, topics: CoreClient) -> None:
        assert self.elect(topics, ("u", [0]), kind=5).error_code == errors.InvalidRequestError.code


class TestReassigning:
    @pytest.mark.parametrize(
        ("topic", "index", "replicas", "code"),
        [
            ("u", 0, [1], 0),
            ("u", 0, None, errors.NoReassignmentInProgressError.code),
            ("u", 0, [1, 2], errors.InvalidReplicaAssignmentError.code),
            ("u", 0, [2], errors.InvalidReplicaAssignmentError.code),
            ("u", 0, [1, 1], errors.InvalidReplicaAssignmentError.code),
            ("u", 0, [], errors.InvalidReplicaAssignmentError.code),
            ("u", 99, [1], UNKNOWN),
            ("nope", 0, [1], UNKNOWN),
        ],
    )
    def test_only_this_broker_can_be_named(
        self, topics: CoreClient, topic: str, index: int, replicas: list[int] | None, code: int
    ) -> None:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        asked = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])
        response = topics.request(asked, 1)
        assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, code)

    def test_none_is_ever_under_way(self, topics: CoreClient) -> None:
        response = topics.request(ListPartitionReassignmentsRequest(topics=None), 0)
        assert (response.error_code, response.topics) == (0, [])


class TestFeatures:
    def update(self, client: CoreClient, *updates: tuple[str, int, int], **fields: Any) -> Any:
        asked = [FeatureUpdateKey(feature=n, max_version_level=level, upgrade_type=kind) for n, level, kind in updates]
        version = fields.pop("version", 2)
        return client.request(UpdateFeaturesRequest(feature_updates=asked, **fields), version)

    def levels(self, client: CoreClient) -> dict[str, int]:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        return {f.name: f.max_version_level for f in client.request(request, 4).finalized_features}

    def test_they_can_be_lowered_and_raised_and_last(self, client: CoreClient) -> None:
        before = self.levels(client)
        assert (before["metadata.version"], before["group.version"]) == (30, 1)
        assert self.update(client, ("group.version", 0, 2)).error_code == 0
        assert "group.version" not in self.levels(client)
        after = client.broker.crashed().connect()
        assert "group.version" not in self.levels(after)
        assert self.update(after, ("group.version", 1, 1)).error_code == 0
        assert self.levels(after) == before

    @pytest.mark.parametrize(
        "update",
        [
            ("nope", 1, 1),
            ("group.version", 5, 1),
            ("group.version", 0, 1),
            ("group.version", 1, 7),
            ("group.version", -1, 1),
            ("metadata.version", 6, 2),
            ("metadata.version", 29, 2),
            ("metadata.version", 29, 3),
        ],
    )
    def test_what_cannot_be_changes_nothing(self, client: CoreClient, update: tuple[str, int, int]) -> None:
        before = self.levels(client)
        response = self.update(client, update)
        assert response.error_code == errors.InvalidUpdateVersionError.code
        assert update[0] in response.error_message
        assert self.levels(client) == before

    def test_without_group_version_there_is_no_consumer_protocol(self, client: CoreClient) -> None:
        joining = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        self.update(client, ("group.version", 0, 2))
        assert client.request(joining, 1).error_code == errors.UnsupportedVersionError.code
        self.update(client, ("group.version", 1, 1))
        assert client.request(joining, 1).error_code == 0

    def test_all_updates_or_none(self, client: CoreClient) -> None:
        assert self.update(client, ("group.version", 0, 2), ("nope", 1, 1)).error_code != 0
        assert self.levels(client)["group.version"] == 1

    def test_validate_only(self, client: CoreClient) -> None:
        assert self.update(client, ("group.version", 0, 2), validate_only=True).error_code == 0
        assert self.levels(client)["group.version"] == 1

    def test_version_1_names_each_feature_in_its_answer(self, client: CoreClient) -> None:
        response = self.update(client, ("group.version", 1, 1), version=1)
        assert [(r.feature, r.error_code) for r in response.results] == [("group.version", 0)]

    def test_version_0_says_whether_it_may_be_a_downgrade(self, client: CoreClient) -> None:
        for allowed, code in ((False, errors.InvalidUpdateVersionError.code), (True, 0)):
            key = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=allowed)
            assert client.request(UpdateFeaturesRequest(feature_updates=[key]), 0).error_code == code
