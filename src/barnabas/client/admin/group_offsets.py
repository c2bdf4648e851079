"""The committed offsets of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.admin.admin_api_handler import Outcome
from barnabas.client.admin.lookups import CoordinatorStrategy
from barnabas.client.admin.partition_offsets import by_topic
from barnabas.client.admin.requests import RequestInParts, partitions_of
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import UnstableOffsetCommitError, UnsupportedVersionError, for_code
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.thresholds import OFFSET_FETCH_GROUPS_FROM
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.offset_commit_response import OffsetCommitResponse
    from barnabas.protocol.messages.offset_delete_response import OffsetDeleteResponse
    from barnabas.protocol.messages.offset_fetch_response import (
        OffsetFetchResponse,
        OffsetFetchResponsePartition,
        OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic,
        OffsetFetchResponseTopics,
    )

# From version 10 on partitions go by topic id, which a caller who names topics does not know.
_LAST_WITH_TOPIC_NAMES = 9
# A transaction that is to be waited for has offsets of the partition in it.
_PASSING_WITH_TIME = (UnstableOffsetCommitError.code,)

GroupOffsets = dict[TopicPartition, OffsetAndMetadata]


class OffsetFetchHandler:
    """OffsetFetch, at the coordinators; `partitions` by group, None for all that have an offset."""

    name = "list_consumer_group_offsets"

    def __init__(self, partitions: Mapping[str, Collection[TopicPartition] | None], *, require_stable: bool) -> None:
        self.lookup = CoordinatorStrategy()
        self._partitions = partitions
        self._require_stable = require_stable
        self._is_of_groups = True

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""

        def build(version: int) -> OffsetFetchRequest:
            self._is_of_groups = version >= OFFSET_FETCH_GROUPS_FROM
            if self._is_of_groups:
                groups = [OffsetFetchRequestGroup(group_id=key, topics=self._topics_of(key)) for key in keys]
                return OffsetFetchRequest(groups=groups, require_stable=self._require_stable)
            if len(keys) > 1:
                raise UnsupportedVersionError("this broker gives the offsets of one group at a time")
            asked = self._partitions[keys[0]]
            topics = (
                None
                if asked is None
                else [
                    OffsetFetchRequestTopic(name=topic, partition_indexes=[p.partition for p in partitions])
                    for topic, partitions in by_topic(asked)
                ]
            )
            return OffsetFetchRequest(group_id=keys[0], topics=topics, require_stable=self._require_stable)

        return RequestBuilder(
            ApiKey.OFFSET_FETCH, build, stable_versions(ApiKey.OFFSET_FETCH)[0], _LAST_WITH_TOPIC_NAMES
        )

    def _topics_of(self, group_id: str) -> list[OffsetFetchRequestTopics] | None:
        asked = self._partitions[group_id]
        if asked is None:
            return None
        return [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[p.partition for p in partitions])
            for topic, partitions in by_topic(asked)
        ]

    def handle_response(
        self, keys: list[str], response: OffsetFetchResponse, outcome: Outcome[str, GroupOffsets]
    ) -> None:
        """See `AdminApiHandler`."""
        groups = {group.group_id: group for group in response.groups} if self._is_of_groups else {keys[0]: response}
        for key in keys:
            group = groups.get(key)
            if group is None or not outcome.is_success(key, group.error_code):
                continue
            topics: Sequence[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = group.topics
            partitions: list[tuple[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = (
                list(partitions_of(topics))
            )
            failed = next(((at, partition.error_code) for at, partition in partitions if partition.error_code), None)
            if failed is not None:
                at, code = failed
                outcome.is_success(key, code, f"{at}: {for_code(code)}", _PASSING_WITH_TIME)
                continue
            offsets = {
                at: OffsetAndMetadata(
                    partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                )
                for at, partition in partitions
                if partition.committed_offset >= 0
            }
            outcome.complete(key, offsets)


def commit_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> RequestInParts[TopicPartition]:
    """OffsetCommit for a group without members, at its coordinator."""

    def build(group_id: str, timeout_ms: int) -> RequestBuilder:
        message = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(name=topic, partitions=[_committed(key, offsets[key]) for key in partitions])
                for topic, partitions in by_topic(offsets)
            ],
        )
        low = stable_versions(ApiKey.OFFSET_COMMIT)[0]
        return RequestBuilder(ApiKey.OFFSET_COMMIT, lambda _: message, low, _LAST_WITH_TOPIC_NAMES)

    return RequestInParts("alter_consumer_group_offsets", CoordinatorStrategy(), build, _errors)


def _committed(key: TopicPartition, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=key.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def delete_offsets(partitions: Collection[TopicPartition]) -> RequestInParts[TopicPartition]:
    """OffsetDelete, at the group's coordinator."""

    def build(group_id: str, timeout_ms: int) -> OffsetDeleteRequest:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=key.partition) for key in keys]
            )
            for topic, keys in by_topic(partitions)
        ]
        return OffsetDeleteRequest(group_id=group_id, topics=topics)

    return RequestInParts("delete_consumer_group_offsets", CoordinatorStrategy(), build, _errors)


def _errors(response: OffsetCommitResponse | OffsetDeleteResponse) -> Iterable[tuple[TopicPartition, int, str | None]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code, None
