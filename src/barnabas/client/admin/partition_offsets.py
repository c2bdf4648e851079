"""The operations on the offsets of partitions: which there are, and cutting off the old ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Outcome
from barnabas.client.admin.lookups import PartitionLeaderStrategy
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.delete_records_response import DeleteRecordsResponse
    from barnabas.protocol.messages.list_offsets_response import ListOffsetsResponse


class OffsetSpec(IntEnum):
    """Which offset to ask for, with the numbers of the protocol; an epoch time in milliseconds stands for itself."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The version of ListOffsets that first knows each of the special offsets.
_FIRST_VERSION_WITH = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
_FIRST_VERSION_WITH_ISOLATION = 2
_CONSUMER = -1


class ListedOffset(NamedTuple):
    """An offset, the timestamp of its record (-1 when not asked by time) and the leader's epoch (-1: not known).

    Asked by a time after the last record, `offset` is -1.
    """

    offset: int
    timestamp: int
    leader_epoch: int


def by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[TopicPartition]]]:
    """Partitions grouped by topic, both in order."""
    for topic, group in groupby(sorted(partitions), key=lambda partition: partition.topic):
        yield topic, list(group)


class ListOffsetsHandler:
    """ListOffsets, at the leaders."""

    name = "list_offsets"

    def __init__(self, specs: Mapping[TopicPartition, int], *, read_committed: bool) -> None:
        self.lookup = PartitionLeaderStrategy()
        self._specs = specs
        self._read_committed = read_committed

    def build_request(self, keys: list[TopicPartition], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        message = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(self._read_committed),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=key.partition, timestamp=self._specs[key])
                        for key in partitions
                    ],
                )
                for topic, partitions in by_topic(keys)
            ],
            timeout_ms=timeout_ms,
        )
        low, high = stable_versions(ApiKey.LIST_OFFSETS)
        needed = [first for spec, first in _FIRST_VERSION_WITH.items() if any(self._specs[key] == spec for key in keys)]
        if self._read_committed:
            needed.append(_FIRST_VERSION_WITH_ISOLATION)
        return RequestBuilder(ApiKey.LIST_OFFSETS, lambda _: message, max([low, *needed]), high)

    def handle_response(
        self, keys: list[TopicPartition], response: ListOffsetsResponse, outcome: Outcome[TopicPartition, ListedOffset]
    ) -> None:
        """See `AdminApiHandler`."""
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                if outcome.is_success(key, partition.error_code):
                    outcome.complete(key, ListedOffset(partition.offset, partition.timestamp, partition.leader_epoch))


class DeleteRecordsHandler:
    """DeleteRecords, at the leaders; offset -1 stands for the high watermark."""

    name = "delete_records"

    def __init__(self, before: Mapping[TopicPartition, int]) -> None:
        self.lookup = PartitionLeaderStrategy()
        self._before = before

    def build_request(self, keys: list[TopicPartition], timeout_ms: int) -> DeleteRecordsRequest:
        """See `AdminApiHandler`."""
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=key.partition, offset=self._before[key])
                        for key in partitions
                    ],
                )
                for topic, partitions in by_topic(keys)
            ],
            timeout_ms=timeout_ms,
        )

    def handle_response(
        self, keys: list[TopicPartition], response: DeleteRecordsResponse, outcome: Outcome[TopicPartition, int]
    ) -> None:
        """See `AdminApiHandler`."""
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                if outcome.is_success(key, partition.error_code):
                    outcome.complete(key, partition.low_watermark)
