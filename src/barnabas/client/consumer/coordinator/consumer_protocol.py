"""What members of a consumer group tell each other through the coordinator: subscriptions and assignments as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeVar

from barnabas.client.consumer.assignors.consumer_partition_assignor import Assignment, Subscription
from barnabas.errors import ProtocolError
from barnabas.protocol.codec import Decoder
from barnabas.protocol.message import Message
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from barnabas.protocol.plan import plan_of
from barnabas.protocol.topic_partition import TopicPartition, numbers_by_topic

M = TypeVar("M", bound=Message)

_VERSION: Final = struct.Struct(">h")
_HIGHEST: Final = ConsumerProtocolAssignment.VALID_VERSIONS[1]


def serialize_subscription(subscription: Subscription) -> bytes:
    """Return the version, then the message.

    Topics and partitions in order, so that equal subscriptions are equal bytes.
    """
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=partitions)
            for topic, partitions in numbers_by_topic(sorted(subscription.owned_partitions)).items()
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(_HIGHEST) + message.encode(_HIGHEST)


def deserialize_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """Return the reverse; a version newer than ours is read as ours, as it only adds fields. Raises `ProtocolError`."""
    message = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=tuple(message.topics),
        user_data=None if message.user_data is None else bytes(message.user_data),
        owned_partitions=tuple(_partitions(message.owned_partitions)),
        generation_id=message.generation_id,
        rack_id=message.rack_id,
        group_instance_id=group_instance_id,
    )


def serialize_assignment(assignment: Assignment) -> bytes:
    """Return the version, then the message."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopic(topic=topic, partitions=partitions)
            for topic, partitions in numbers_by_topic(sorted(assignment.partitions)).items()
        ],
        user_data=assignment.user_data,
    )
    return _VERSION.pack(_HIGHEST) + message.encode(_HIGHEST)


def deserialize_assignment(data: bytes) -> Assignment:
    """Decode it. Raises `ProtocolError`, also for no bytes: the leader has forgotten this member."""
    message = _decode(ConsumerProtocolAssignment, data)
    user_data = None if message.user_data is None else bytes(message.user_data)
    return Assignment(tuple(_partitions(message.assigned_partitions)), user_data)


def _decode(kind: type[M], data: bytes) -> M:
    if len(data) < _VERSION.size:
        raise ProtocolError(
            f"{kind.NAME}: {len(data)} bytes are too few to hold a version; the leader of the group assigned nothing "
            "to this member, or its assignor is broken"
        )
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"{kind.NAME}: version {version} does not exist")
    if version <= _HIGHEST:
        return kind.decode(data[_VERSION.size :], version)
    # Fields that a newer version appends are left unread.
    message: M = Decoder(data[_VERSION.size :], 0, -1).message(plan_of(kind, _HIGHEST))
    return message


def _partitions(topics: Iterable[AssignedTopic | OwnedTopic]) -> list[TopicPartition]:
    return [TopicPartition(entry.topic, partition) for entry in topics for partition in entry.partitions]
