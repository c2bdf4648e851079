"""What happens often must not cost more in a large group; what ends all at once is ended in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import GROUP, Harness


class Unwalkable(dict[str, Any]):
    """Looks up what it is asked for, and lets no one walk over all of it."""

    def _refuse(self) -> Any:
        pytest.fail("a heartbeat walks over all members")

    __iter__ = keys = values = items = copy = _refuse


def large_group(**settings: object) -> tuple[ConsumerHarness, list[Consumer]]:
    harness = ConsumerHarness(**settings)
    harness.topic("t", 40)
    members = [Consumer(harness, f"member-{number:02}") for number in range(20)]
    for member in members:
        member.join()
    harness.settle(*members)
    return harness, members


@pytest.mark.parametrize("regex", [None, "t.*"])
def test_a_heartbeat_that_changes_nothing_looks_at_its_own_member_only(regex: str | None) -> None:
    harness, members = large_group()
    if regex is not None:
        members[0].regex, members[0].topics = regex, None
        members[0].join()
        harness.settle(*members)
    group = harness.group()
    for name in ("members", "targets", "_owners", "_static_members"):
        setattr(group, name, Unwalkable(getattr(group, name)))

    for member in members:
        member.heartbeat()

    assert harness.group() is group


def test_a_target_that_stays_as_it_was_is_not_made_anew() -> None:
    harness, members = large_group()
    before = dict(harness.group().targets)
    Consumer(harness, "one more").join()

    group = harness.group()
    kept = [member.id for member in members if group.targets[member.id] is before[member.id]]
    assert len(kept) == len(members) - 1, "one more of 21 gets one partition of forty: one member gives one up"


def test_expressions_are_forgotten_with_the_last_member_that_has_them() -> None:
    harness = ConsumerHarness()
    harness.topic("t", 4)
    first, second = Consumer(harness, "a", regex="t.*"), Consumer(harness, "b", regex="t.*")
    first.join()
    second.join()
    first.leave()
    assert harness.group().subscribed_regexes() == {"t.*"}

    second.regex, second.topics = None, ["t"]
    second.heartbeat(subscribed_topic_names=["t"], subscribed_topic_regex="")
    assert (harness.group().subscribed_regexes(), harness.group().regexes) == (set(), {})


def test_sessions_that_end_at_once_are_ended_in_pieces() -> None:
    """A network that fails takes a thousand members at a time; requests are answered between the pieces."""
    harness = Harness()
    for number in range(1000):
        harness.join(group=f"group-{number}", version=3)
    members = sum(len(harness.member_ids(f"group-{number}")) for number in range(1000))
    assert members == 1000
    harness.now += 301

    ticks = 0
    while harness.coordinator.next_deadline() <= harness.now:
        harness.coordinator.tick(harness.at)
        ticks += 1
    assert ticks >= 10
    assert all(not harness.member_ids(f"group-{number}") for number in range(1000))


def test_a_thousand_members_of_one_group_lose_their_sessions_and_nothing_is_left() -> None:
    harness = Harness()
    idle = harness.coordinator.statistics()["timers"]
    for _ in range(1000):
        harness.join(version=3)
    harness.advance(1000)

    assert harness.member_ids(GROUP) == []
    assert harness.coordinator.statistics()["timers"] == idle
