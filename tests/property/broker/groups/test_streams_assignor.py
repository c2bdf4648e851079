"""The sticky task assignor: what stays, what moves, and where copies go (KIP-1071, KIP-708)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.broker.groups.streams import sticky_assignor
from barnabas.broker.groups.streams.sticky_assignor import MemberSpec, TaskCount, assign
from barnabas.broker.groups.streams_group_member import TasksTuple
from tests.support.streams_oracle import flat


def world(random: Random) -> tuple[dict[str, MemberSpec], dict[str, TaskCount], int]:
    parts = {str(number): TaskCount(random.randint(1, 12), random.random() < 0.7) for number in range(3)}
    zones = {f"p{number}": {"zone": f"z{number % 3}", "cluster": "c"} for number in range(6)}
    members = {}
    for number in range(random.randint(1, 12)):
        process = random.choice(sorted(zones))
        members[f"m{number}"] = MemberSpec(process, zones[process], TasksTuple())
    return members, parts, random.choice([0, 1, 2])


def again(members: dict[str, MemberSpec], found: dict[str, TasksTuple]) -> dict[str, MemberSpec]:
    return {name: spec._replace(target=found[name]) for name, spec in members.items() if name in found}


@pytest.mark.parametrize("seed", range(60))
def test_who_is_asked_again_leaves_all_as_it_is(seed: int) -> None:
    members, parts, replicas = world(Random(seed))
    found = assign(members, parts, replicas)
    after = assign(again(members, found), parts, replicas)
    assert [target.active for target in after.values()] == [target.active for target in found.values()]
    copies = [{(name, task) for name, of in one.items() for task in flat(of.standby)} for one in (found, after)]
    # Where zones and processes are uneven, a member may have been given more copies than are its share.
    assert len(copies[0] - copies[1]) <= len(copies[0]) // 4


@pytest.mark.parametrize("seed", range(60))
def test_active_tasks_are_even_and_those_who_stay_keep_theirs(seed: int) -> None:
    random = Random(seed)
    members, parts, replicas = world(random)
    found = assign(members, parts, replicas)
    counts = [len(flat(target.active)) for target in found.values()]
    total = sum(part.tasks for part in parts.values())
    assert sum(counts) == total

    gone = random.choice(sorted(members))
    left = {name: spec for name, spec in again(members, found).items() if name != gone}
    after = assign(left, parts, replicas)
    assert (
        sorted(task for target in after.values() for task in flat(target.active))
        == sorted((name, number) for name, part in parts.items() for number in range(part.tasks))
        or not left
    )
    most = -(-total // len(left)) if left else 0
    for name, target in after.items():
        kept = flat(target.active) & flat(found[name].active)
        assert len(kept) >= min(len(flat(found[name].active)), most) - 1, "at most one moves for evenness"


@pytest.mark.parametrize("seed", range(60))
def test_copies_lie_where_no_tag_is_the_same(seed: int) -> None:
    members, parts, replicas = world(Random(seed))
    found = assign(members, parts, replicas)
    zone_of = {name: spec.client_tags["zone"] for name, spec in members.items()}
    zones = set(zone_of.values())
    for name, part in parts.items():
        for number in range(part.tasks if part.is_stateful else 0):
            holders = [
                member
                for member, target in found.items()
                if (name, number) in flat(target.active) | flat(target.standby)
            ]
            processes = {members[member].process_id for member in holders}
            assert len(processes) == len(holders)
            held_in = {zone_of[member] for member in holders}
            assert len(held_in) == min(len(zones), len(holders)), "each copy in a zone of its own while there are any"


def planted(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault == "tags do not matter":
        original = sticky_assignor._Process.__init__
        monkeypatch.setattr(
            sticky_assignor._Process, "__init__", lambda self, order, tags: original(self, order, frozenset())
        )
    else:
        monkeypatch.setattr(sticky_assignor._Assignment, "_keep_active", lambda self, member_ids, task: False)


CHECKS: dict[str, Any] = {
    "tags do not matter": test_copies_lie_where_no_tag_is_the_same,
    "nothing is kept": test_active_tasks_are_even_and_those_who_stay_keep_theirs,
}


@pytest.mark.parametrize("fault", sorted(CHECKS))
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, fault)
    failures = 0
    for seed in range(60):
        try:
            CHECKS[fault](seed)
        except AssertionError:
            failures += 1
    assert failures


def test_many_members_share_many_tasks() -> None:
    members = {f"m{number}": MemberSpec(f"p{number // 4}", {}, TasksTuple()) for number in range(400)}
    found = assign(members, {"0": TaskCount(2000, True)}, 1)
    assert {len(flat(target.active)) for target in found.values()} == {5}
    moved = assign(again(members, {name: found[name] for name in list(found)[:-4]}), {"0": TaskCount(2000, True)}, 1)
    assert sum(len(flat(target.active)) for target in moved.values()) == 2000
