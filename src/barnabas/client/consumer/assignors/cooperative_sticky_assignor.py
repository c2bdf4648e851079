"""The cooperative sticky assignor."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    COOPERATIVE,
    EAGER,
    NO_RACKS,
    Assignment,
    PartitionRacks,
    RackAwareAssignor,
    Subscription,
)
from barnabas.client.consumer.assignors.sticky_balance import Claim, balance
from barnabas.client.consumer.offsets import ConsumerGroupMetadata
from barnabas.protocol.topic_partition import TopicPartition


class CooperativeStickyAssignor(RackAwareAssignor):
    """Balances as `StickyAssignor` does, while members go on reading what they keep (KIP-429).

    A partition that moves is taken from its owner in one rebalance and given to the new one in the next.
    """

    name = "cooperative-sticky"
    protocols = (COOPERATIVE, EAGER)

    def __init__(self) -> None:
        self._generation = -1

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the last assignment's generation, for leaders that do not read it from the subscription."""
        return struct.pack(">i", self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Remember the generation."""
        self._generation = metadata.generation_id

    def assign_partitions(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        racks: PartitionRacks = NO_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Balance, then hold back what another member has yet to give up."""
        claims = {member: _claim(subscription) for member, subscription in subscriptions.items()}
        dealt = balance(partitions_per_topic, subscriptions, claims, racks)
        hold_back_moving(dealt, subscriptions)
        return dealt


def hold_back_moving(dealt: dict[str, list[TopicPartition]], subscriptions: Mapping[str, Subscription]) -> None:
    """Leave out every partition that is new to its member while another one still owns it."""
    moving = moving_partitions(dealt, subscriptions)
    for member, partitions in dealt.items():
        owned = set(subscriptions[member].owned_partitions)
        dealt[member] = [partition for partition in partitions if partition in owned or partition not in moving]


def moving_partitions(
    dealt: Mapping[str, Iterable[TopicPartition]], subscriptions: Mapping[str, Subscription]
) -> set[TopicPartition]:
    """Partitions that this assignment takes from one member and gives to another."""
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, partitions in dealt.items():
        owned = set(subscriptions[member].owned_partitions)
        given = set(partitions)
        added |= given - owned
        revoked |= owned - given
    return added & revoked


def _claim(subscription: Subscription) -> Claim:
    generation = subscription.generation_id
    data = subscription.user_data
    if generation < 0 and data is not None and len(data) >= 4:
        (generation,) = struct.unpack_from(">i", data)
    return Claim(subscription.owned_partitions, generation)
