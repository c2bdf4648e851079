"""The records of share groups in `__consumer_offsets`, in Apache Kafka's formats, and what they do to a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.record_table import (
    Effect,
    RecordTable,
    drop_target,
    group_record,
    nothing,
    put_target_epoch,
)
from barnabas.broker.groups.share_group import (
    Partitions,
    SharedTopic,
    SharedTopics,
    ShareGroup,
    ShareGroupMember,
    StatePartitions,
)
from barnabas.protocol.messages import share_group_current_member_assignment_value as current_value
from barnabas.protocol.messages import share_group_state_partition_metadata_value as states_value
from barnabas.protocol.messages import share_group_target_assignment_member_value as target_value
from barnabas.protocol.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from barnabas.protocol.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from barnabas.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from barnabas.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from barnabas.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from barnabas.protocol.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from barnabas.protocol.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from barnabas.protocol.messages.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.messages.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from barnabas.protocol.message import Message

#: The state of every member: it has its part of the target.
_STABLE = 1


# --- written


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the group epoch and what its topics were like."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return group_record(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareGroupMember) -> Record:
    """Who the member is and what it subscribes to."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
    )
    return group_record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """For which group epoch, and when, the target assignment was computed."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return group_record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Return a member's part of the target assignment."""
    partitions = [target_value.TopicPartition(topic_id, numbers) for topic_id, numbers in _sorted(target)]
    value = target_value.ShareGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return group_record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ShareGroupMember) -> Record:
    """Return what a member has, and since which epoch."""
    value = current_value.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=_STABLE,
        assigned_partitions=[
            current_value.TopicPartitions(topic_id, numbers) for topic_id, numbers in _sorted(member.assigned)
        ],
    )
    return group_record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def states_record(group_id: str, states: StatePartitions) -> Record:
    """Return which share-partitions have a state."""
    value = states_value.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[
            states_value.TopicInfo(topic_id, states.deleting[topic_id]) for topic_id in sorted(states.deleting)
        ],
    )
    return group_record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _infos(topics: SharedTopics) -> list[states_value.TopicPartitionsInfo]:
    return [
        states_value.TopicPartitionsInfo(topic_id, topics[topic_id].name, sorted(topics[topic_id].partitions))
        for topic_id in sorted(topics)
    ]


def _sorted(partitions: Partitions) -> list[tuple[bytes, list[int]]]:
    return [(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the end of a member."""
    return [
        group_record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        group_record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        group_record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group: ShareGroup) -> list[Record]:
    """Return the end of a group without members."""
    group_id = group.group_id
    return [
        group_record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        group_record(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        group_record(ShareGroupMetadataKey(group_id=group_id)),
    ]


# --- read back


def _put_member(group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue) -> None:
    member = group.members.get(key.member_id) or ShareGroupMember(key.member_id)
    group.members[key.member_id] = member._replace(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
    )


def _put_epoch(group: ShareGroup, key: Message, value: ShareGroupMetadataValue) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _drop_target_epoch(group: ShareGroup, key: Message) -> None:
    group.target_epoch = 0


def _put_target(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMemberKey,
    value: target_value.ShareGroupTargetAssignmentMemberValue,
) -> None:
    group.targets[key.member_id] = _partitions(value.topic_partitions)


def _put_current(
    group: ShareGroup,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: current_value.ShareGroupCurrentMemberAssignmentValue,
) -> None:
    member = group.members.get(key.member_id) or ShareGroupMember(key.member_id)
    group.members[key.member_id] = member._replace(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned=_partitions(value.assigned_partitions),
    )


def _drop_current(group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.members[key.member_id] = ShareGroupMember(*member.metadata)  # type: ignore[arg-type]  # its first fields


def _put_states(group: ShareGroup, key: Message, value: states_value.ShareGroupStatePartitionMetadataValue) -> None:
    group.states = StatePartitions(
        _topics(value.initializing_topics),
        _topics(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _drop_states(group: ShareGroup, key: Message) -> None:
    group.states = StatePartitions()


def _topics(infos: Iterable[states_value.TopicPartitionsInfo]) -> dict[bytes, SharedTopic]:
    return {info.topic_id: SharedTopic(info.topic_name, frozenset(info.partitions)) for info in infos}


def _partitions(
    topics: Iterable[target_value.TopicPartition | current_value.TopicPartitions],
) -> dict[bytes, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


TABLE = RecordTable(
    ShareGroup,
    ShareGroupMetadataKey,
    [
        Effect(
            ShareGroupMemberMetadataKey,
            ShareGroupMemberMetadataValue,
            _put_member,
            lambda group, key: group.members.pop(key.member_id, None),
        ),
        Effect(ShareGroupMetadataKey, ShareGroupMetadataValue, _put_epoch, nothing),
        Effect(
            ShareGroupTargetAssignmentMetadataKey,
            ShareGroupTargetAssignmentMetadataValue,
            put_target_epoch,
            _drop_target_epoch,
        ),
        Effect(
            ShareGroupTargetAssignmentMemberKey,
            target_value.ShareGroupTargetAssignmentMemberValue,
            _put_target,
            drop_target,
        ),
        Effect(
            ShareGroupCurrentMemberAssignmentKey,
            current_value.ShareGroupCurrentMemberAssignmentValue,
            _put_current,
            _drop_current,
        ),
        Effect(
            ShareGroupStatePartitionMetadataKey,
            states_value.ShareGroupStatePartitionMetadataValue,
            _put_states,
            _drop_states,
        ),
    ],
    group_tombstones,
)
