"""Assignors that bring partitions to the members whose racks have replicas of them (KIP-881)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas import TopicPartition
from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    Assignment,
    ConsumerPartitionAssignor,
    PartitionRacks,
    Subscription,
)
from barnabas.client.consumer.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from barnabas.client.consumer.assignors.range_assignor import RangeAssignor
from barnabas.client.consumer.assignors.sticky_assignor import StickyAssignor
from barnabas.client.consumer.coordinator.consumer_protocol import serialize_subscription
from barnabas.client.consumer.coordinator.group_leader import GroupLeader
from barnabas.client.consumer.membership.messages import Generation, GroupMember, LeaderElected
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_cluster import ScriptedCluster

ASSIGNORS = [RangeAssignor, StickyAssignor, CooperativeStickyAssignor]


def members(*racks: str | None, topics: tuple[str, ...] = ("t",)) -> dict[str, Subscription]:
    return {f"m{number}": Subscription(topics, rack_id=rack) for number, rack in enumerate(racks)}


def racks_of(topic: str, *racks: str) -> PartitionRacks:
    """A rack is a letter; each word has those of one partition."""
    return {TopicPartition(topic, number): frozenset(word) for number, word in enumerate(racks)}


def dealt(assignments: dict[str, Assignment], topic: str = "t") -> list[list[int]]:
    return [
        sorted(p.partition for p in assignments[member].partitions if p.topic == topic)
        for member in sorted(assignments)
    ]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_get_what_has_a_replica_in_their_rack(assignor: type[ConsumerPartitionAssignor]) -> None:
    found = assignor().assign_with_racks({"t": 4}, members("a", "b"), racks_of("t", "b", "a", "b", "a"))

    assert dealt(found) == [[1, 3], [0, 2]]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_balance_comes_before_racks(assignor: type[ConsumerPartitionAssignor]) -> None:
    found = assignor().assign_with_racks({"t": 4}, members("a", "b"), racks_of("t", "a", "a", "a", "a"))

    # Replicas in one rack only, the same one for all: racks make no difference.
    assert [len(partitions) for partitions in dealt(found)] == [2, 2]
    found = assignor().assign_with_racks({"t": 4}, members("a", "b"), racks_of("t", "a", "a", "a", "b"))
    assert [len(partitions) for partitions in dealt(found)] == [2, 2]
    assert 3 in dealt(found)[1]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_without_racks_nothing_changes(assignor: type[ConsumerPartitionAssignor]) -> None:
    plain = assignor().assign({"t": 5}, members(None, None))

    assert assignor().assign_with_racks({"t": 5}, members("a", "b"), {}) == assignor().assign(
        {"t": 5}, members("a", "b")
    )
    assert assignor().assign_with_racks({"t": 5}, members(None, None), racks_of("t", *"abcab")) == plain
    assert assignor().assign_with_racks({"t": 5}, members("x", None), racks_of("t", *"abcab")) == assignor().assign(
        {"t": 5}, members("x", None)
    )


def test_range_keeps_topics_alike_together_also_with_racks() -> None:
    racks = {**racks_of("t", "b", "a"), **racks_of("u", "b", "a")}
    found = RangeAssignor().assign_with_racks({"t": 2, "u": 2}, members("a", "b", topics=("t", "u")), racks)

    assert dealt(found, "t") == dealt(found, "u") == [[1], [0]]


def test_sticky_gives_up_what_lies_in_another_members_rack_and_keeps_what_lies_in_nobodys() -> None:
    owned = [TopicPartition("t", 0), TopicPartition("t", 1)]
    subscriptions = {
        "m0": Subscription(("t",), owned_partitions=owned, generation_id=1, rack_id="a"),
        "m1": Subscription(("t",), owned_partitions=[TopicPartition("t", 2)], generation_id=1, rack_id="b"),
    }
    found = StickyAssignor().assign_with_racks({"t": 4}, subscriptions, racks_of("t", "b", "c", "a", "b"))

    assert dealt(found) == [[1, 2], [0, 3]]


RACKS = st.sampled_from(["a", "b", "c"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | RACKS, min_size=1, max_size=6),
    st.lists(st.frozensets(RACKS, max_size=3), min_size=1, max_size=12),
    st.sampled_from(ASSIGNORS),
)
def test_every_partition_has_one_owner_and_counts_are_even_whatever_the_racks(
    consumer_racks: list[str | None], racks: list[frozenset[str]], assignor: type[ConsumerPartitionAssignor]
) -> None:
    by_partition = {TopicPartition("t", number): found for number, found in enumerate(racks)}
    found = assignor().assign_with_racks({"t": len(racks)}, members(*consumer_racks), by_partition)

    partitions = sorted(number for owned in dealt(found) for number in owned)
    assert partitions == list(range(len(racks)))
    sizes = [len(owned) for owned in dealt(found)]
    assert max(sizes) - min(sizes) <= 1


def test_the_leader_tells_the_assignor_where_the_replicas_are(cluster: ScriptedCluster) -> None:
    consumer = cluster.consumer("t", group_id="g")
    brokers = [MetadataResponseBroker(node_id=n, host="h", port=n + 1, rack="ab"[n]) for n in range(2)]
    partitions = [
        MetadataResponsePartition(partition_index=n, leader_id=n, leader_epoch=0, replica_nodes=[1 - n])
        for n in range(2)
    ]
    topics = [MetadataResponseTopic(name="t", partitions=partitions)]
    consumer._parts.metadata.update(MetadataResponse(brokers=brokers, topics=topics), cluster.now)
    group = [
        GroupMember(name, None, serialize_subscription(subscription))
        for name, subscription in members("a", "b").items()
    ]
    leader = GroupLeader(
        LeaderElected(1, Generation(1, "m0", "range"), group, False),
        consumer._parts.subscriptions,
        consumer._parts.metadata,
    )
    seen: list[PartitionRacks] = []

    class Watching(RangeAssignor):
        def assign_with_racks(
            self, counts: object, subscriptions: object, racks: PartitionRacks
        ) -> dict[str, Assignment]:
            seen.append(racks)
            return super().assign_with_racks(counts, subscriptions, racks)  # type: ignore[arg-type]  # as they came

    leader.assign(Watching(), "eager")

    assert seen == [racks_of("t", "b", "a")]
