"""The transition table of classic groups, and what their parts refuse."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.groups.classic_group import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.embedded_protocol import subscribed_topics

#: From → to, as Kafka's ClassicGroupState has them.
LEGAL = {
    (EMPTY, PREPARING_REBALANCE),
    (PREPARING_REBALANCE, COMPLETING_REBALANCE),
    (PREPARING_REBALANCE, EMPTY),
    (COMPLETING_REBALANCE, STABLE),
    (COMPLETING_REBALANCE, PREPARING_REBALANCE),
    (STABLE, PREPARING_REBALANCE),
    *((state, DEAD) for state in (EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD)),
}
#: How to get there from Empty.
PATHS = {
    EMPTY: [],
    PREPARING_REBALANCE: [PREPARING_REBALANCE],
    COMPLETING_REBALANCE: [PREPARING_REBALANCE, COMPLETING_REBALANCE],
    STABLE: [PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE],
    DEAD: [DEAD],
}


def member(member_id: str, instance: str | None = None, protocols: str = "range") -> ClassicGroupMember:
    metadata = dict.fromkeys(protocols.split(), b"")
    return ClassicGroupMember(member_id, instance, "c", "/h", 60_000, 10_000, "consumer", metadata)


@pytest.mark.parametrize("target", PATHS)
@pytest.mark.parametrize("source", PATHS)
def test_only_the_tables_transitions_are_possible(source: str, target: str) -> None:
    group = ClassicGroup("g", 0)
    for state in PATHS[source]:
        group.transition_to(state, 1)

    if (source, target) in LEGAL:
        group.transition_to(target, 5)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (target, source, 5)
    else:
        with pytest.raises(errors.IllegalStateError, match=f"from {source} to {target}"):
            group.transition_to(target, 5)


def test_two_members_cannot_have_one_instance_id() -> None:
    group = ClassicGroup("g", 0)
    group.add(member("a-1", "a"))

    with pytest.raises(errors.IllegalStateError, match=r"group\.instance\.id a"):
        group.add(member("a-2", "a"))


def test_leadership_passes_to_the_member_that_has_been_there_longest() -> None:
    group = ClassicGroup("g", 0)
    for member_id in ("a", "b", "c"):
        group.add(member(member_id))

    leaders = []
    while group.members:
        leaders.append(group.leader_id)
        group.remove(group.leader_id)

    assert leaders == ["a", "b", "c"]
    assert group.leader_id is None


def test_a_protocol_that_not_everybody_supports_any_more_is_no_candidate() -> None:
    group = ClassicGroup("g", 0)
    first, second = member("a", protocols="range sticky"), member("b", protocols="range sticky")
    group.add(first)
    group.add(second)

    group.update_member(second, {"sticky": b""}, 1, 2)

    assert group.select_protocol() == "sticky"
    assert (second.rebalance_timeout_ms, second.session_timeout_ms) == (1, 2)


def test_a_member_cannot_vote_for_what_it_does_not_know() -> None:
    with pytest.raises(LookupError):
        member("a").vote({"sticky"})


def topic_list(*topics: bytes, count: int | None = None, version: int = 0) -> bytes:
    encoded = b"".join(len(topic).to_bytes(2, "big") + topic for topic in topics)
    no_user_data = (-1).to_bytes(4, "big", signed=True)
    number = len(topics) if count is None else count
    return version.to_bytes(2, "big") + number.to_bytes(4, "big") + encoded + no_user_data


@pytest.mark.parametrize(
    ("subscriptions", "topics"),
    [
        ([], frozenset()),
        ([topic_list()], frozenset()),
        ([topic_list(b"a", b"b"), topic_list(b"b", "주문".encode())], frozenset({"a", "b", "주문"})),
        ([topic_list(b"a", version=3) + b"owned partitions, generation, rack ..."], frozenset({"a"})),
        ([topic_list(b"a"), b""], None),
        ([topic_list(b"a"), topic_list(b"a")[:-1]], None),
        ([topic_list(b"a")[:-5]], None),
        ([topic_list(b"a", count=2)], None),
        ([topic_list(count=2**31 - 1)], None),
        ([topic_list(b"\xff")], None),
        ([b"\xff\xff\0\0\0\0"], None),
        ([b"\0\0\xff\xff\xff\xff"], None),
        ([b"\0\0\0\0\0\1\xff\xff"], None),
    ],
)
def test_topics_are_read_from_subscriptions_of_any_version(
    subscriptions: list[bytes], topics: frozenset[str] | None
) -> None:
    assert subscribed_topics(subscriptions) == topics
