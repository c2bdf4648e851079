"""The server-side assignors on random groups: everything is assigned once, evenly, and little moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.groups.consumer.assignor import Assignor, MemberSpec
from barnabas.broker.groups.consumer.assignors import ASSIGNORS
from barnabas.broker.groups.consumer_group_member import Partitions

UNIFORM: Assignor = ASSIGNORS["uniform"]
RANGE: Assignor = ASSIGNORS["range"]
BOTH = st.sampled_from([UNIFORM, RANGE])
Group = tuple[dict[str, MemberSpec], dict[bytes, int]]


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


@st.composite
def groups(draw: Callable[[Any], Any], alike: bool | None = None) -> Group:
    """Members with subscriptions (all the same with `alike`) and targets from some earlier time."""
    counts = {topic_id(number): draw(st.integers(1, 8)) for number in range(draw(st.integers(1, 5)))}
    some_topics = st.frozensets(st.sampled_from(sorted(counts)))
    same = draw(some_topics)
    names = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    owners = {
        (id, partition): draw(st.sampled_from([None, *names]))
        for id, count in counts.items()
        for partition in range(count + 1)
    }
    members = {}
    for name in draw(st.permutations(names)):
        target: dict[bytes, set[int]] = {}
        for (id, partition), owner in owners.items():
            if owner == name:
                target.setdefault(id, set()).add(partition)
        instance = draw(st.sampled_from([None, f"i-{name}"]))
        topics = same if alike else draw(some_topics)
        members[name] = MemberSpec(instance, topics, {id: frozenset(indexes) for id, indexes in target.items()})
    return members, counts


def flat(partitions: Partitions) -> set[tuple[bytes, int]]:
    return {(id, index) for id, indexes in partitions.items() for index in indexes}


def again(members: dict[str, MemberSpec], assigned: dict[str, Partitions]) -> dict[str, MemberSpec]:
    """The same members after the assignment."""
    return {name: spec._replace(target=assigned.get(name, {})) for name, spec in members.items()}


def loads(assigned: dict[str, Partitions]) -> dict[str, int]:
    return {name: len(flat(partitions)) for name, partitions in assigned.items()}


@given(groups(), BOTH)
def test_every_partition_goes_to_one_subscriber(group: Group, assign: Assignor) -> None:
    members, counts = group

    assigned = assign(members, counts)

    assert assigned.keys() == members.keys()
    given_out = [item for partitions in assigned.values() for item in flat(partitions)]
    read = set().union(*(spec.topic_ids for spec in members.values()))
    assert sorted(given_out) == sorted((id, index) for id in read for index in range(counts[id]))
    assert all(partitions.keys() <= members[name].topic_ids for name, partitions in assigned.items())


@given(groups(), BOTH)
def test_what_is_settled_does_not_move(group: Group, assign: Assignor) -> None:
    members, counts = group
    assigned = assign(members, counts)

    assert assign(again(members, assigned), counts) == assigned


@given(groups(alike=True))
def test_equal_members_get_equally_much(group: Group) -> None:
    sizes = loads(UNIFORM(*group)).values()

    assert max(sizes) - min(sizes) <= 1


@given(groups())
def test_no_partition_could_go_to_somebody_with_clearly_less(group: Group) -> None:
    members, counts = group

    assigned = UNIFORM(members, counts)

    load = loads(assigned)
    for name, partitions in assigned.items():
        for id in partitions:
            subscribers = [other for other, spec in members.items() if id in spec.topic_ids]
            assert all(load[name] - load[other] <= 1 for other in subscribers)


@given(groups(alike=True))
def test_a_newcomer_takes_from_the_others_and_nobody_else_gets_more(group: Group) -> None:
    members, counts = group
    before = UNIFORM(members, counts)
    topics = next(iter(members.values())).topic_ids

    after = UNIFORM({**again(members, before), "new": MemberSpec(None, topics, {})}, counts)

    for name, partitions in before.items():
        assert flat(after[name]) <= flat(partitions)


@given(groups(alike=True), st.data())
def test_when_somebody_leaves_the_others_keep_what_they_have(group: Group, data: st.DataObject) -> None:
    members, counts = group
    before = UNIFORM(members, counts)
    gone = data.draw(st.sampled_from(sorted(members)))
    rest = {name: spec for name, spec in again(members, before).items() if name != gone}

    after = UNIFORM(rest, counts)

    for name in rest:
        assert flat(before[name]) <= flat(after[name])


@given(groups())
def test_ranges_are_runs_of_equal_length(group: Group) -> None:
    members, counts = group

    assigned = RANGE(members, counts)

    for id in counts:
        subscribers = [name for name, spec in members.items() if id in spec.topic_ids]
        runs = [sorted(assigned[name].get(id, ())) for name in subscribers]
        assert all(run == list(range(run[0], run[0] + len(run))) for run in runs if run)
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1


@given(st.integers(1, 5), st.integers(1, 9))
def test_ranges_bring_the_same_partitions_of_two_topics_together(member_count: int, partitions: int) -> None:
    ids = frozenset((topic_id(1), topic_id(2)))
    members = {f"m{number}": MemberSpec(None, ids, {}) for number in range(member_count)}

    assigned = RANGE(members, dict.fromkeys(ids, partitions))

    assert all(found.get(topic_id(1)) == found.get(topic_id(2)) for found in assigned.values())
