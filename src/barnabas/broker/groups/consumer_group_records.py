"""The records of consumer groups in `__consumer_offsets`, in Apache Kafka's formats, and what they do to a group."""

from __future__ import annotations

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.broker.groups.consumer_group_member import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupMember,
    Partitions,
)
from barnabas.broker.groups.record_table import (
    Effect,
    RecordTable,
    drop_target,
    group_record,
    nothing,
    put_target_epoch,
    with_epochs,
)
from barnabas.protocol.epochs import LEAVE_EPOCH
from barnabas.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from barnabas.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata as ClassicMemberMetadataValue,
)
from barnabas.protocol.messages.consumer_group_member_metadata_value import (
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from barnabas.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from barnabas.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from barnabas.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from barnabas.protocol.message import Message


# --- written


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the group epoch and what its topics were like."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return group_record(ConsumerGroupMetadataKey(group_id=group_id), value)


def partition_metadata_tombstone(group_id: str) -> Record:
    """Return the end of a record that brokers before Apache Kafka 4.1 wrote."""
    return group_record(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_record(group_id: str, member: ConsumerGroupMember) -> Record:
    """Who the member is and what it subscribes to."""
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadataValue(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.classic.protocols],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return group_record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """For which group epoch, and when, the target assignment was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return group_record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Set a member's part of the target assignment."""
    partitions = [TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return group_record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ConsumerGroupMember) -> Record:
    """Where a member is on its way to the target assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    return group_record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """Return the topics that a regular expression stands for."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return group_record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Return the end of a regular expression that no member subscribes to any more."""
    return group_record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def _topic_partitions(assigned: AssignedPartitions) -> list[TopicPartitions]:
    found = []
    for topic_id in sorted(assigned):
        partitions = sorted(assigned[topic_id])
        epochs = [assigned[topic_id][partition] for partition in partitions]
        found.append(TopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs))
    return found


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the end of a member."""
    return [
        group_record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        group_record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        group_record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """Return the end of everything that the log may hold of a group."""
    group_id = group.group_id
    keys: list[Message] = [
        *(ConsumerGroupCurrentMemberAssignmentKey(group_id, one) for one in group.members),
        *(ConsumerGroupTargetAssignmentMemberKey(group_id, one) for one in {**group.members, **group.targets}),
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        *(ConsumerGroupMemberMetadataKey(group_id, one) for one in group.members),
        *(ConsumerGroupRegularExpressionKey(group_id, regex) for regex in group.regexes),
    ]
    if group.has_partition_metadata_record:
        keys.append(ConsumerGroupPartitionMetadataKey(group_id))
    return [group_record(key) for key in (*keys, ConsumerGroupMetadataKey(group_id))]


# --- read back


def _put_epoch(group: ConsumerGroup, key: Message, value: ConsumerGroupMetadataValue) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _put_partition_metadata(group: ConsumerGroup, key: Message, value: None) -> None:
    group.has_partition_metadata_record = True


def _drop_partition_metadata(group: ConsumerGroup, key: Message) -> None:
    group.has_partition_metadata_record = False


def _put_member(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue
) -> None:
    classic = None
    if value.classic_member_metadata is not None:
        classic = ClassicMemberMetadata(
            value.classic_member_metadata.session_timeout_ms,
            tuple((item.name, bytes(item.metadata)) for item in value.classic_member_metadata.supported_protocols),
        )
    member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
    group.put(
        member._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic,
        )
    )


def _drop_target_epoch(group: ConsumerGroup, key: Message) -> None:
    group.target_epoch, group.target_timestamp_ms = 0, 0


def _put_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue,
) -> None:
    group.targets[key.member_id] = {item.topic_id: frozenset(item.partitions) for item in value.topic_partitions}


def _put_current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue,
) -> None:
    member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
    epoch = value.member_epoch
    group.put(
        member._replace(
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=_assigned(value.assigned_partitions, epoch),
            pending_revocation=_assigned(value.partitions_pending_revocation, epoch),
        )
    )


def _drop_current(group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.put(
            member._replace(
                member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned={}, pending_revocation={}
            )
        )


def _assigned(topics: list[TopicPartitions], member_epoch: int) -> AssignedPartitions:
    return {topic.topic_id: with_epochs(topic.partitions, topic.assignment_epochs, member_epoch) for topic in topics}


def _put_regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue
) -> None:
    resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.put_regex(key.regular_expression, resolved)


TABLE = RecordTable(
    ConsumerGroup,
    ConsumerGroupMetadataKey,
    [
        Effect(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, _put_epoch, nothing),
        Effect(ConsumerGroupPartitionMetadataKey, None, _put_partition_metadata, _drop_partition_metadata),
        Effect(
            ConsumerGroupMemberMetadataKey,
            ConsumerGroupMemberMetadataValue,
            _put_member,
            lambda group, key: group.remove(key.member_id),
        ),
        Effect(
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue,
            put_target_epoch,
            _drop_target_epoch,
        ),
        Effect(
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
            _put_target,
            drop_target,
        ),
        Effect(
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue,
            _put_current,
            _drop_current,
        ),
        Effect(
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
            _put_regex,
            lambda group, key: group.put_regex(key.regular_expression, None),
        ),
    ],
    group_tombstones,
)
