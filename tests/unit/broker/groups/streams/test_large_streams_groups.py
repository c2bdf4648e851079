"""A large streams group gets its assignment in pieces: the broker answers others in between."""

from __future__ import annotations

import pytest

from barnabas.broker.groups.streams import sticky_assignor, target_assignment
from tests.support.streams_member import StreamsMember
from tests.unit.broker.groups.streams.streams_group_harness import DELAYED, StreamsHarness

PARTITIONS, PIECE = 40, 8


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> StreamsHarness:
    """Groups of ten members and tasks are large ones."""
    monkeypatch.setattr(target_assignment, "LARGE", 10)
    monkeypatch.setattr(sticky_assignor, "PIECE", PIECE)
    made = StreamsHarness()
    for name in ("lines", "app-words", "app-counts"):
        made.topic(name, PARTITIONS)
    return made


def beat(member: StreamsMember) -> list[int]:
    """One heartbeat; the statuses that it is told."""
    return [one.status_code for one in member.heartbeat().status or []]


def turns_until_assigned(harness: StreamsHarness) -> int:
    """How many turns of the broker's loop it takes, for the epoch of now."""
    turns, epoch = 0, harness.group().epoch
    while harness.group().target_epoch < epoch:
        harness.advance(0.001)
        turns += 1
        assert turns < 200, "the assignment does not come"
    return turns


def test_it_is_said_that_the_assignment_is_on_its_way_and_it_comes_piece_by_piece(harness: StreamsHarness) -> None:
    member = harness.member("a")
    assert DELAYED in beat(member)
    assert member.active == {}
    assert turns_until_assigned(harness) > PARTITIONS // PIECE
    assert DELAYED not in beat(member)
    assert {part: len(tasks) for part, tasks in member.active.items()} == {"0": PARTITIONS, "1": PARTITIONS}


def test_who_joins_or_leaves_meanwhile_is_in_the_next_one(harness: StreamsHarness) -> None:
    first, second = harness.member("a", process="p"), harness.member("b", process="q")
    beat(first)
    harness.advance(0.001)
    beat(second)
    harness.advance(1)
    assert harness.group().target_epoch == harness.group().epoch - 1
    assert harness.group().targets.keys() == {"a"}
    beat(first)
    turns_until_assigned(harness)
    assert {name: sum(map(len, target.active.values())) for name, target in harness.group().targets.items()} == {
        "a": PARTITIONS,
        "b": PARTITIONS,
    }
    second.leave()
    beat(first)
    harness.advance(0.001)
    first.leave()
    harness.advance(1)
    assert harness.group().targets == {}


def test_a_coordinator_that_is_started_again_begins_anew(harness: StreamsHarness) -> None:
    member = harness.member("a")
    beat(member)
    harness.advance(0.001)
    harness.restart()
    harness.advance(1)
    assert harness.group().target_epoch < harness.group().epoch
    beat(member)
    turns_until_assigned(harness)
