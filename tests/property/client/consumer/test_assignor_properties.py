"""What every assignment must satisfy, whatever the group looks like."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    Assignment,
    PartitionCountAssignor,
    Subscription,
)
from barnabas.client.consumer.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from barnabas.client.consumer.assignors.range_assignor import RangeAssignor
from barnabas.client.consumer.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.consumer.assignors.sticky_assignor import StickyAssignor, decode_claim, encode_claim
from barnabas.client.consumer.assignors.sticky_balance import Claim, balance
from barnabas.client.consumer.coordinator.consumer_protocol import (
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
    serialize_subscription,
)
from barnabas.protocol.topic_partition import TopicPartition

Dealt = Mapping[str, list[TopicPartition]]

TOPICS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 9), min_size=1)


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[dict[str, int], dict[str, Subscription]]:
    """Topics with partition counts, and members with subscriptions; some static, some to topics that do not exist."""
    topics = draw(TOPICS)
    names = [*topics, "missing"]
    every = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    subscriptions = {}
    for number in range(draw(st.integers(1, 7))):
        chosen = every if alike else draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        static = draw(st.sampled_from([None, f"i{9 - number}"]))
        subscriptions[f"m{number}"] = Subscription(chosen, group_instance_id=static)
    return topics, subscriptions


def check_dealt_out(topics: Mapping[str, int], subscriptions: Mapping[str, Subscription], dealt: Dealt) -> None:
    """Every partition that somebody reads belongs to exactly one member, who reads its topic."""
    given_out = [partition for partitions in dealt.values() for partition in partitions]
    wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics} & topics.keys()
    assert sorted(given_out) == sorted(TopicPartition(topic, n) for topic in wanted for n in range(topics[topic]))
    assert dealt.keys() == subscriptions.keys()
    for member, partitions in dealt.items():
        assert {partition.topic for partition in partitions} <= set(subscriptions[member].topics)


def check_balanced(subscriptions: Mapping[str, Subscription], dealt: Dealt) -> None:
    """Nobody has two more than a member that could take one of them."""
    for member, partitions in dealt.items():
        for partition in partitions:
            for other in dealt:
                if partition.topic in subscriptions[other].topics:
                    assert len(dealt[other]) + 1 >= len(partitions), (member, other, dealt)


@pytest.mark.parametrize(
    "assignor", [RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]
)
@given(group=groups())
def test_every_partition_goes_to_exactly_one_member_that_wants_it(
    assignor: PartitionCountAssignor, group: tuple[dict[str, int], dict[str, Subscription]]
) -> None:
    topics, subscriptions = group

    check_dealt_out(topics, subscriptions, assignor.assign_partitions(topics, subscriptions))


@given(group=groups(), data=st.data())
def test_sticky_is_balanced_whatever_the_members_claim(
    group: tuple[dict[str, int], dict[str, Subscription]], data: st.DataObject
) -> None:
    topics, subscriptions = group
    partition = st.builds(TopicPartition, st.sampled_from([*topics, "gone"]), st.integers(0, 10))
    claim = st.builds(Claim, st.lists(partition, unique=True), st.integers(-1, 3))
    claims = {member: data.draw(claim) for member in subscriptions}

    dealt = balance(topics, subscriptions, claims)

    check_dealt_out(topics, subscriptions, dealt)
    check_balanced(subscriptions, dealt)


@given(group=groups())
def test_sticky_changes_nothing_when_nothing_changed(group: tuple[dict[str, int], dict[str, Subscription]]) -> None:
    topics, subscriptions = group
    before = balance(topics, subscriptions, {})

    after = balance(topics, subscriptions, {member: Claim(owned, 1) for member, owned in before.items()})

    assert {member: set(owned) for member, owned in after.items()} == {
        member: set(owned) for member, owned in before.items()
    }


@given(group=groups(alike=True), leaver=st.integers(0, 6))
def test_when_a_member_leaves_sticky_moves_only_what_it_had(
    group: tuple[dict[str, int], dict[str, Subscription]], leaver: int
) -> None:
    topics, subscriptions = group
    before = balance(topics, subscriptions, {})
    gone = sorted(subscriptions)[leaver % len(subscriptions)]
    left = {member: subscription for member, subscription in subscriptions.items() if member != gone}
    if not left:
        return

    after = balance(topics, left, {member: Claim(before[member], 1) for member in left})

    for member in left:
        assert set(before[member]) <= set(after[member])


@given(group=groups(alike=True))
def test_when_a_member_comes_sticky_moves_only_what_the_newcomer_gets(
    group: tuple[dict[str, int], dict[str, Subscription]],
) -> None:
    topics, subscriptions = group
    before = balance(topics, subscriptions, {})
    more = {**subscriptions, "newcomer": next(iter(subscriptions.values()))._replace(group_instance_id=None)}

    after = balance(topics, more, {member: Claim(owned, 1) for member, owned in before.items()})

    for member, owned in before.items():
        assert set(after[member]) <= set(owned)


@settings(max_examples=60)
@given(data=st.data())
def test_a_partition_is_never_owned_twice_while_cooperative_members_come_and_go(data: st.DataObject) -> None:
    topics = data.draw(TOPICS)
    assignor = CooperativeStickyAssignor()
    owned: dict[str, set[TopicPartition]] = {}
    for generation in range(data.draw(st.integers(1, 8))):
        present = data.draw(st.lists(st.sampled_from(["m0", "m1", "m2", "m3", "m4"]), min_size=1, unique=True))
        owned = {member: owned.get(member, set()) for member in present}
        for _ in range(3):
            subscriptions = {
                member: Subscription(sorted(topics), None, sorted(partitions), generation)
                for member, partitions in owned.items()
            }
            dealt = assignor.assign_partitions(topics, subscriptions)
            # Members take notice one after the other: what one is given, no other may still hold.
            for member in data.draw(st.permutations(present)):
                added = set(dealt[member]) - owned[member]
                held = set().union(*(partitions for other, partitions in owned.items() if other != member))
                assert not added & held
                owned[member] = set(dealt[member])
            if sum(map(len, dealt.values())) == sum(topics.values()):
                break
        check_dealt_out(topics, subscriptions, {member: sorted(partitions) for member, partitions in owned.items()})


PARTITIONS = st.lists(
    st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 2**31 - 1)), unique=True, max_size=8
)


@given(
    topics=st.lists(st.text(max_size=8), max_size=5),
    user_data=st.none() | st.binary(max_size=16),
    owned=PARTITIONS,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | st.text(max_size=8),
)
def test_subscriptions_and_assignments_survive_the_wire(
    topics: list[str], user_data: bytes | None, owned: list[TopicPartition], generation: int, rack: str | None
) -> None:
    subscription = Subscription(tuple(sorted(topics)), user_data, tuple(sorted(owned)), generation, rack)
    assignment = Assignment(tuple(sorted(owned)), user_data)

    assert deserialize_subscription(serialize_subscription(subscription)) == subscription
    assert deserialize_assignment(serialize_assignment(assignment)) == assignment
    newer = (9).to_bytes(2, "big") + serialize_subscription(subscription)[2:] + b"more"
    assert deserialize_subscription(newer) == subscription


@given(claim=st.builds(Claim, PARTITIONS.map(tuple), st.integers(-1, 2**31 - 1)), noise=st.binary(max_size=40))
def test_sticky_user_data_survives_the_wire_and_noise_is_no_claim(claim: Claim, noise: bytes) -> None:
    found = decode_claim(encode_claim(claim))

    assert (sorted(found.partitions), found.generation) == (sorted(claim.partitions), claim.generation)
    decode_claim(noise)
