"""The records of `__consumer_offsets` in Apache Kafka's formats.

A key is its record type as int16, then the key message; a value its version as int16, then the value message; a value
of None is a tombstone. Versions are those that Kafka 4.3 writes.
"""

from __future__ import annotations

from struct import pack, unpack_from

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.errors import ProtocolError
from barnabas.protocol.messages.group_metadata_key import GroupMetadataKey
from barnabas.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from barnabas.protocol.messages.offset_commit_key import OffsetCommitKey
from barnabas.protocol.messages.offset_commit_value import OffsetCommitValue

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

GROUP_METADATA_VALUE_VERSION = 3
#: The only version with an expiry of its own.
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
OFFSET_COMMIT_VALUE_VERSION = 4


def offset_commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return pack(">h", OFFSET_COMMIT) + key.encode(0)


def offset_commit_record(group_id: str, topic: str, partition: int, offset: OffsetAndMetadata) -> Record:
    """Return a committed offset."""
    expires = offset.expire_timestamp_ms != -1
    version = OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY if expires else OFFSET_COMMIT_VALUE_VERSION
    value = OffsetCommitValue(
        offset=offset.committed_offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp_ms,
        expire_timestamp=offset.expire_timestamp_ms,
        topic_id=offset.topic_id,
    )
    return offset_commit_key(group_id, topic, partition), pack(">h", version) + value.encode(version)


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Return the end of a committed offset."""
    return offset_commit_key(group_id, topic, partition), None


def group_metadata_key(group_id: str) -> bytes:
    """Return the key of a classic group."""
    return pack(">h", GROUP_METADATA) + GroupMetadataKey(group=group_id).encode(0)


def group_metadata_record(group: ClassicGroup, assignments: dict[str, bytes]) -> Record:
    """Return the group as it stands, each member with its part of `assignments`."""
    protocol = group.protocol_name
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(protocol) if protocol is not None else b"",
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp_ms,
        members=members,
    )
    return group_metadata_key(group.group_id), _group_value(value)


def new_group_record(group_id: str, now_ms: int) -> Record:
    """Return a group without members, before its first generation."""
    value = GroupMetadataValue(protocol_type="", current_state_timestamp=now_ms, protocol=None, leader=None)
    return group_metadata_key(group_id), _group_value(value)


def group_metadata_tombstone(group_id: str) -> Record:
    """Return the end of a classic group."""
    return group_metadata_key(group_id), None


def _group_value(value: GroupMetadataValue) -> bytes:
    return pack(">h", GROUP_METADATA_VALUE_VERSION) + value.encode(GROUP_METADATA_VALUE_VERSION)


def record_type(key: bytes) -> int:
    """Return the record type in front of a key. Raises ProtocolError if there is none."""
    return _version(key, "key")


def decode_offset_commit_key(key: bytes) -> OffsetCommitKey:
    """Return the key of a committed offset. Raises ProtocolError."""
    return OffsetCommitKey.decode(key[2:], 0)


def decode_offset_commit_value(value: bytes, record_offset: int) -> OffsetAndMetadata:
    """Return a committed offset that was read from `record_offset`. Raises ProtocolError."""
    message = OffsetCommitValue.decode(value[2:], _version(value, "value"))
    return OffsetAndMetadata(
        committed_offset=message.offset,
        leader_epoch=message.leader_epoch,
        metadata=message.metadata,
        commit_timestamp_ms=message.commit_timestamp,
        expire_timestamp_ms=message.expire_timestamp,
        topic_id=message.topic_id,
        record_offset=record_offset,
    )


def decode_group_metadata_key(key: bytes) -> str:
    """Return the group id in a group's key. Raises ProtocolError."""
    return GroupMetadataKey.decode(key[2:], 0).group


def decode_group_metadata_value(group_id: str, value: bytes) -> ClassicGroup:
    """Return the group that a record describes: Stable, or Empty when it has no members. Raises ProtocolError."""
    message = GroupMetadataValue.decode(value[2:], _version(value, "value"))
    group = ClassicGroup(group_id, message.current_state_timestamp, loaded_stable=bool(message.members))
    group.generation_id = message.generation
    group.protocol_type = message.protocol_type or None
    group.protocol_name = message.protocol
    group.leader_id = message.leader
    for stored in message.members:
        group.add(_member_from(stored, message.protocol_type, message.protocol))
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def _member_from(stored: MemberMetadata, protocol_type: str, protocol: str | None) -> ClassicGroupMember:
    rebalance_timeout_ms = stored.rebalance_timeout
    return ClassicGroupMember(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout,
        protocol_type=protocol_type,
        protocols={protocol or "": bytes(stored.subscription)},
        assignment=bytes(stored.assignment),
    )


def _version(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise ProtocolError(f"The {what} of a record in __consumer_offsets has {len(data)} bytes and no version")
    version: int = unpack_from(">h", data)[0]
    return version
