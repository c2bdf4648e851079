"""The sticky assignor (eager)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    NO_RACKS,
    Assignment,
    PartitionRacks,
    RackAwareAssignor,
    Subscription,
)
from barnabas.client.consumer.assignors.sticky_balance import Claim, balance
from barnabas.client.consumer.offsets import ConsumerGroupMetadata
from barnabas.protocol.topic_partition import TopicPartition, numbers_by_topic


class StickyAssignor(RackAwareAssignor):
    """Balances, and leaves partitions where they were (KIP-54).

    Everything is given up before each rebalance, so a member sends what it had as user data: topics with their
    partitions, then the generation, in Kafka's form.
    """

    name = "sticky"

    def __init__(self) -> None:
        self._owned: Sequence[TopicPartition] = ()
        self._generation = -1

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the last assignment and its generation; nothing before the first one."""
        return encode_claim(Claim(self._owned, self._generation)) if self._owned else None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Remember the assignment for the next rebalance."""
        self._owned = tuple(assignment.partitions)
        self._generation = metadata.generation_id

    def assign_partitions(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        racks: PartitionRacks = NO_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Balance with what the members say they had."""
        claims = {member: _claim(subscription) for member, subscription in subscriptions.items()}
        return balance(partitions_per_topic, subscriptions, claims, racks)


def _claim(subscription: Subscription) -> Claim:
    if subscription.owned_partitions:
        return Claim(subscription.owned_partitions, subscription.generation_id)
    return decode_claim(subscription.user_data)


def encode_claim(claim: Claim) -> bytes:
    """Partitions by topic and the generation, as `StickyAssignor` sends them."""
    topics = numbers_by_topic(claim.partitions)
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    parts.append(struct.pack(">i", claim.generation))
    return b"".join(parts)


def decode_claim(data: bytes | None) -> Claim:
    """Return the reverse of `encode_claim`; other members' bytes that do not follow the form count as no claim.

    The first version of the form had no generation: such a claim counts as older than any other.
    """
    partitions: list[TopicPartition] = []
    try:
        view = memoryview(data or b"\0\0\0\0")
        (topics,), position = struct.unpack_from(">i", view, 0), 4
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", view, position)
            name = bytes(view[position + 2 : position + 2 + size]).decode()
            (count,) = struct.unpack_from(">i", view, position + 2 + size)
            position += 6 + size
            numbers = struct.unpack_from(f">{count}i", view, position)
            position += 4 * count
            partitions.extend(TopicPartition(name, number) for number in numbers)
        generation = struct.unpack_from(">i", view, position)[0] if len(view) >= position + 4 else -1
    except (struct.error, UnicodeDecodeError):
        return Claim((), -1)
    return Claim(tuple(partitions), generation)
