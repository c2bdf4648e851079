"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.share_group import ShareGroup
from barnabas.broker.share.persister import UNINITIALIZED_COUNT, UNINITIALIZED_START_OFFSET, SharePartitionKey
from barnabas.protocol.messages import alter_share_group_offsets_response as altered
from barnabas.protocol.messages import delete_share_group_offsets_response as deleted
from barnabas.protocol.messages import describe_share_group_offsets_response as described

if TYPE_CHECKING:
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.share.state_partitions import ShareStates
    from barnabas.broker.groups.topic_image import TopicDescription, TopicImage
    from barnabas.broker.instant import Instant
    from barnabas.broker.share.persister import Persister, StateSummary
    from barnabas.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
    from barnabas.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
    from barnabas.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestGroup

_UNKNOWN = errors.UnknownTopicOrPartitionError("There is no such topic, or it has no such partition.")

#: Tells where a partition ends for readers, or why that is not known.
EndOffset = Callable[[str, int, Callable[["int | errors.KafkaError"], None]], None]


class ShareOffsets:
    """What administrators ask about the offsets of share groups, and have them changed to."""

    __slots__ = ("_end_offset", "_image", "_persister", "_states", "_store")

    def __init__(
        self,
        store: GroupStore,
        image: TopicImage,
        persister: Callable[[], Persister],
        states: ShareStates,
        end_offset: EndOffset,
    ) -> None:
        self._store = store
        self._image = image
        self._persister = persister
        self._states = states
        self._end_offset = end_offset

    # --- describing

    def describe(
        self,
        request: DescribeShareGroupOffsetsRequestGroup,
        at: Instant,
        tell: Callable[[described.DescribeShareGroupOffsetsResponseGroup], None],
    ) -> None:
        """Tell how far share-partitions are; without topics those that the group has."""
        response = described.DescribeShareGroupOffsetsResponseGroup(group_id=request.group_id)
        waiting = 1

        def done() -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                tell(response)

        for name, numbers in self._asked(request):
            topic = self._image.topic(name)
            result = described.DescribeShareGroupOffsetsResponseTopic(topic_name=name)
            response.topics.append(result)
            if topic is not None:
                result.topic_id = topic.id
            for number in numbers:
                one = described.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=number, start_offset=UNINITIALIZED_START_OFFSET
                )
                result.partitions.append(one)
                if topic is None:
                    one.error_code, one.error_message = _UNKNOWN.code, str(_UNKNOWN)
                    continue
                waiting += 1
                key = SharePartitionKey(request.group_id, topic.id, number)
                self._persister().read_summary(key, at, partial(self._described, topic, one, done))
        done()

    def _asked(self, request: DescribeShareGroupOffsetsRequestGroup) -> list[tuple[str, list[int]]]:
        if request.topics is not None:
            return [(topic.topic_name, list(topic.partitions)) for topic in request.topics]
        group = self._store.group(request.group_id)
        if not isinstance(group, ShareGroup):
            raise errors.GroupIdNotFoundError(f"Group {request.group_id} is not a share group.")
        found = ((self._image.topic_by_id(id), topic) for id, topic in group.states.initialized.items())
        return [(topic.name, sorted(shared.partitions)) for topic, shared in found if topic is not None]

    def _described(
        self,
        topic: TopicDescription,
        result: described.DescribeShareGroupOffsetsResponsePartition,
        done: Callable[[], None],
        summary: StateSummary | errors.KafkaError,
    ) -> None:
        if isinstance(summary, errors.KafkaError):
            done()
            return
        result.start_offset, result.leader_epoch = summary.start_offset, summary.leader_epoch
        has_begun = summary.start_offset != UNINITIALIZED_START_OFFSET
        if not has_begun or summary.delivery_complete_count == UNINITIALIZED_COUNT:
            done()
            return
        complete = summary.start_offset + summary.delivery_complete_count

        def ends_at(end: int | errors.KafkaError) -> None:
            if isinstance(end, errors.KafkaError):
                result.error_code, result.error_message = end.code, str(end)
            else:
                result.lag = end - complete
            done()

        self._end_offset(topic.name, result.partition_index, ends_at)

    # --- altering

    def alter(
        self,
        request: AlterShareGroupOffsetsRequest,
        at: Instant,
        tell: Callable[[altered.AlterShareGroupOffsetsResponse], None],
    ) -> None:
        """Have share-partitions begin at other offsets; a group that is not there is made. Raises KafkaError."""
        group = self._store.groups.get(request.group_id) or ShareGroup(request.group_id)
        if not isinstance(group, ShareGroup):
            raise errors.GroupIdNotFoundError(f"Group {request.group_id} is not a share group.")
        if not group.is_empty:
            raise errors.GroupNotEmptyError()
        if request.group_id not in self._store.groups:
            self._store.check_room(request.group_id)
        response = altered.AlterShareGroupOffsetsResponse()
        offsets: dict[bytes, dict[int, int]] = {}
        begun: list[altered.AlterShareGroupOffsetsResponsePartition] = []
        for asked in request.topics:
            topic = self._image.topic(asked.topic_name)
            result = altered.AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
            response.responses.append(result)
            if topic is not None:
                result.topic_id = topic.id
            for partition in asked.partitions:
                one = altered.AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
                result.partitions.append(one)
                if topic is None or not 0 <= partition.partition_index < topic.partitions:
                    one.error_code, one.error_message = _UNKNOWN.code, str(_UNKNOWN)
                else:
                    offsets.setdefault(topic.id, {})[partition.partition_index] = partition.start_offset
                    begun.append(one)

        def done(problem: errors.KafkaError | None) -> None:
            if problem is not None:
                for one in begun:
                    one.error_code, one.error_message = problem.code, str(problem)
            tell(response)

        if offsets:
            self._states.alter(group, offsets, at, done)
        else:
            tell(response)

    # --- deleting

    def delete(
        self,
        request: DeleteShareGroupOffsetsRequest,
        at: Instant,
        tell: Callable[[deleted.DeleteShareGroupOffsetsResponse], None],
    ) -> None:
        """Have the share-partitions of topics forgotten. Raises KafkaError."""
        group = self._store.group(request.group_id)
        if not isinstance(group, ShareGroup):
            raise errors.GroupIdNotFoundError(f"Group {request.group_id} is not a share group.")
        if not group.is_empty:
            raise errors.GroupNotEmptyError()
        response = deleted.DeleteShareGroupOffsetsResponse()
        ended: dict[bytes, deleted.DeleteShareGroupOffsetsResponseTopic] = {}
        for asked in request.topics:
            topic = self._image.topic(asked.topic_name)
            result = deleted.DeleteShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
            response.responses.append(result)
            if topic is None:
                result.error_code, result.error_message = _UNKNOWN.code, str(_UNKNOWN)
            elif topic.id in group.states.initialized or topic.id in group.states.deleting:
                result.topic_id = topic.id
                ended[topic.id] = result
            else:
                result.error_code = _UNKNOWN.code
                result.error_message = "There is no offset information to delete."

        def done(problem: errors.KafkaError | None) -> None:
            if problem is not None:
                for result in ended.values():
                    result.error_code, result.error_message = problem.code, str(problem)
            tell(response)

        if ended:
            self._states.delete(group, list(ended), at, done)
        else:
            tell(response)
