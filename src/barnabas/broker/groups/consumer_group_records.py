"""The records of consumer groups in `__consumer_offsets`, in Apache Kafka's formats, and what they do to a group.

Keys are the record type as int16, then the key message; values the version as int16, then the value message; a value of
None is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.broker.groups.consumer_group_member import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupMember,
    Partitions,
)
from barnabas.errors import ProtocolError
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

_VERSION = 0


def _record(key: Message, value: Message | None) -> Record:
    encoded = None if value is None else pack(">h", _VERSION) + value.encode(_VERSION)
    return pack(">h", key.API_KEY) + key.encode(0), encoded


# --- written


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the group epoch and what its topics were like."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def group_epoch_tombstone(group_id: str) -> Record:
    """Return the end of the group."""
    return _record(ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """Return the end of a record that brokers before Apache Kafka 4.1 wrote."""
    return _record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


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
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstone(group_id: str, member_id: str) -> Record:
    """Return the end of a member."""
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """For which group epoch, and when, the target assignment was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> Record:
    """Return the end of the target assignment."""
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Set a member's part of the target assignment."""
    partitions = [TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in sorted(target)]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_tombstone(group_id: str, member_id: str) -> Record:
    """Return the end of a member's part of the target assignment."""
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def current_record(group_id: str, member: ConsumerGroupMember) -> Record:
    """Where a member is on its way to the target assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def current_tombstone(group_id: str, member_id: str) -> Record:
    """Return the tombstone of a member that has no assignment any more."""
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """Return the topics that a regular expression stands for."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Return the end of a regular expression that no member subscribes to any more."""
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def _topic_partitions(assigned: AssignedPartitions) -> list[TopicPartitions]:
    found = []
    for topic_id in sorted(assigned):
        partitions = sorted(assigned[topic_id])
        epochs = [assigned[topic_id][partition] for partition in partitions]
        found.append(TopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs))
    return found


# --- read back


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """Return the end of everything that the log may hold of a group."""
    group_id = group.group_id
    records = [current_tombstone(group_id, member_id) for member_id in group.members]
    records += [target_tombstone(group_id, member_id) for member_id in {**group.members, **group.targets}]
    records.append(target_epoch_tombstone(group_id))
    records += [member_tombstone(group_id, member_id) for member_id in group.members]
    records += [regex_tombstone(group_id, regex) for regex in group.regexes]
    if group.has_partition_metadata_record:
        records.append(partition_metadata_tombstone(group_id))
    records.append(group_epoch_tombstone(group_id))
    return records


#: Record type → the class of its key.
KEYS: dict[int, type[Message]] = {
    key.API_KEY: key
    for key in (
        ConsumerGroupMetadataKey,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupRegularExpressionKey,
    )
}


def group_id_of(key: Message) -> str:
    """Return the group that a record with this key belongs to."""
    group_id: str = getattr(key, "group_id")  # noqa: B009 - every key in KEYS has it, their base class has not
    return group_id


def replay(group: ConsumerGroup, key: Message, value: bytes | None) -> None:
    """Change `group` as a record says; the caller sees to the end of the whole group. Raises ProtocolError."""
    if value is not None:
        if len(value) < 2 or int.from_bytes(value[:2], "big") != _VERSION:
            raise ProtocolError(f"A value of {type(key).__name__} in __consumer_offsets has no version, or not 0")
        value = value[2:]
    _REPLAY[type(key)](group, key, value)


def _replay_epoch(group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: bytes | None) -> None:
    if value is not None:
        message = ConsumerGroupMetadataValue.decode(value, _VERSION)
        group.epoch, group.metadata_hash = message.epoch, message.metadata_hash


def _replay_partition_metadata(
    group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: bytes | None
) -> None:
    group.has_partition_metadata_record = value is not None


def _replay_member(group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: bytes | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    message = ConsumerGroupMemberMetadataValue.decode(value, _VERSION)
    classic = None
    if message.classic_member_metadata is not None:
        classic = ClassicMemberMetadata(
            message.classic_member_metadata.session_timeout_ms,
            tuple((item.name, bytes(item.metadata)) for item in message.classic_member_metadata.supported_protocols),
        )
    member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
    group.put(
        member._replace(
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            client_id=message.client_id,
            client_host=message.client_host,
            subscribed_topic_names=frozenset(message.subscribed_topic_names),
            subscribed_topic_regex=message.subscribed_topic_regex or "",
            rebalance_timeout_ms=message.rebalance_timeout_ms,
            server_assignor=message.server_assignor,
            classic=classic,
        )
    )


def _replay_target_epoch(
    group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMetadataKey, value: bytes | None
) -> None:
    if value is None:
        group.target_epoch, group.target_timestamp_ms = 0, 0
        return
    message = ConsumerGroupTargetAssignmentMetadataValue.decode(value, _VERSION)
    group.target_epoch, group.target_timestamp_ms = message.assignment_epoch, message.assignment_timestamp


def _replay_target(group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: bytes | None) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
        return
    message = ConsumerGroupTargetAssignmentMemberValue.decode(value, _VERSION)
    group.targets[key.member_id] = {item.topic_id: frozenset(item.partitions) for item in message.topic_partitions}


def _replay_current(group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey, value: bytes | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(
                member._replace(
                    member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned={}, pending_revocation={}
                )
            )
        return
    message = ConsumerGroupCurrentMemberAssignmentValue.decode(value, _VERSION)
    epoch = message.member_epoch
    group.put(
        (member or ConsumerGroupMember(key.member_id))._replace(
            member_epoch=epoch,
            previous_member_epoch=message.previous_member_epoch,
            state=message.state,
            assigned=_assigned(message.assigned_partitions, epoch),
            pending_revocation=_assigned(message.partitions_pending_revocation, epoch),
        )
    )


def _assigned(topics: list[TopicPartitions], member_epoch: int) -> AssignedPartitions:
    # Brokers before Apache Kafka 4.3 wrote no assignment epochs.
    return {
        topic.topic_id: (
            dict.fromkeys(topic.partitions, member_epoch)
            if topic.assignment_epochs is None
            else dict(zip(topic.partitions, topic.assignment_epochs, strict=False))
        )
        for topic in topics
    }


def _replay_regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: bytes | None) -> None:
    resolved = None
    if value is not None:
        message = ConsumerGroupRegularExpressionValue.decode(value, _VERSION)
        resolved = ResolvedRegex(frozenset(message.topics), message.version, message.timestamp)
    group.put_regex(key.regular_expression, resolved)


_REPLAY: dict[type[Message], Callable[..., None]] = {
    ConsumerGroupMetadataKey: _replay_epoch,
    ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}
