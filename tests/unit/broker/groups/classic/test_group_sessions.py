"""Heartbeat, LeaveGroup and session timeouts: how members stay in a group and get out of it."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from tests.unit.broker.groups.harness import Harness, code

REBALANCE_IN_PROGRESS = code(errors.RebalanceInProgressError)
UNKNOWN_MEMBER_ID = code(errors.UnknownMemberIdError)
FENCED = code(errors.FencedInstanceIdError)


@pytest.mark.shows("S2.27", breaks="barnabas.broker.groups.classic.heartbeat:Heartbeat.heartbeat")
@pytest.mark.shows("S1.11", breaks="barnabas.broker.groups.classic.sessions:Sessions.renew")
def test_a_member_that_sends_heartbeats_stays() -> None:
    harness = Harness()
    member = harness.stable(None, session_timeout_ms=10_000)[0]

    for _ in range(20):
        harness.advance(9.9)
        assert harness.heartbeat(member.id, member.generation) == 0

    assert harness.member_ids() == [member.id]
    harness.advance(10.1)
    assert harness.member_ids() == []


@pytest.mark.shows("S2.30", breaks="barnabas.broker.groups.classic.sessions:Sessions._expire")
@pytest.mark.parametrize("session_timeout_ms", [6000, 45_000])
@pytest.mark.shows("S3.92", breaks="barnabas.broker.groups.classic.sessions:Sessions._expire")
def test_without_a_heartbeat_for_the_session_timeout_a_member_is_dropped(session_timeout_ms: int) -> None:
    harness = Harness()
    member = harness.stable(None, session_timeout_ms=session_timeout_ms)[0]

    harness.advance(session_timeout_ms / 1000 - 0.001)
    assert harness.member_ids() == [member.id]
    harness.advance(0.001)

    assert harness.member_ids() == []
    assert harness.heartbeat(member.id, member.generation) == UNKNOWN_MEMBER_ID


@pytest.mark.shows("S3.61", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.after_removal")
def test_a_dropped_members_partitions_go_to_those_who_are_left() -> None:
    harness = Harness()
    alive, failed = harness.stable(None, None)
    harness.advance(9.0)
    harness.heartbeat(alive.id, alive.generation)
    harness.advance(2.0)

    assert harness.heartbeat(alive.id, alive.generation) == REBALANCE_IN_PROGRESS
    answer = harness.join(alive.id).response
    sync = harness.sync(alive.id, answer.generation_id, {alive.id: b"everything"}).response

    assert [member.member_id for member in answer.members] == [alive.id]
    assert sync.assignment == b"everything"
    assert failed.id not in harness.member_ids()


def test_a_member_that_waits_for_the_others_is_not_dropped() -> None:
    harness = Harness()
    waiting, slow = harness.stable(None, None, session_timeout_ms=10_000)
    pending = harness.join(waiting.id)
    for _ in range(5):
        harness.advance(9.0)
        assert harness.heartbeat(slow.id, slow.generation) == REBALANCE_IN_PROGRESS

    harness.join(slow.id)

    assert pending.response.error_code == 0


@pytest.mark.parametrize(
    ("difference", "error"),
    [
        ({"member_id": "made-up"}, UNKNOWN_MEMBER_ID),
        ({"generation": 0}, code(errors.IllegalGenerationError)),
        ({"generation": 3}, code(errors.IllegalGenerationError)),
        ({"group": "other"}, UNKNOWN_MEMBER_ID),
        ({"group": ""}, code(errors.InvalidGroupIdError)),
        ({"instance": "static"}, UNKNOWN_MEMBER_ID),
        ({}, 0),
    ],
)
def test_a_heartbeat_must_fit_the_group(difference: dict, error: int) -> None:
    harness = Harness()
    member = harness.stable(None)[0]

    assert harness.heartbeat(**{"member_id": member.id, "generation": member.generation, **difference}) == error


@pytest.mark.parametrize(
    ("state", "error"), [("CompletingRebalance", 0), ("Stable", 0), ("PreparingRebalance", REBALANCE_IN_PROGRESS)]
)
def test_a_heartbeat_keeps_the_session_in_every_state(state: str, error: int) -> None:
    harness = Harness()
    members = harness.stable(None, None, session_timeout_ms=10_000, rebalance_timeout_ms=100_000)
    options = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 100_000}
    generation = members[0].generation
    if state == "PreparingRebalance":
        harness.join(members[0].id, **options)
    if state == "CompletingRebalance":
        generation = [harness.join(member.id, **options) for member in members][1].response.generation_id
    beating = members[1]
    for _ in range(4):
        harness.advance(9.0)
        assert harness.heartbeat(beating.id, generation) == error
        assert state != "PreparingRebalance" or harness.state() == state

        if state != "PreparingRebalance":
            harness.heartbeat(members[0].id, generation)

    assert beating.id in harness.member_ids()


# --- LeaveGroup


@pytest.mark.shows("S1.25", breaks="barnabas.broker.groups.classic.leaving:LeaveGroup.leave")
def test_a_dynamic_member_that_leaves_causes_a_rebalance() -> None:
    harness = Harness()
    first, second = harness.stable(None, None)

    assert harness.leave(second.id) == [0]

    assert harness.heartbeat(first.id, first.generation) == REBALANCE_IN_PROGRESS


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    harness = Harness()
    member = harness.stable(None)[0]

    harness.leave(member.id)

    assert harness.state() == "Empty"
    assert harness.coordinator.next_deadline() > harness.now + 500, "no timer of the group is left"


def test_several_members_leave_at_once_each_with_its_own_result() -> None:
    harness = Harness()
    dynamic, _, stays, other = harness.stable(None, "a", "b", "c")
    pending = harness.join().response.member_id

    results = harness.leave(
        dynamic.id,
        ("", "a"),
        ("wrong", "b"),
        (other.id, "c"),
        "made-up",
        ("", "nobody"),
        ("", None),
        pending,
    )

    assert results == [0, 0, FENCED, 0, UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID, 0]
    assert harness.member_ids() == [stays.id]


def test_leaving_a_group_that_does_not_exist() -> None:
    assert Harness().leave("a", ("", "b")) == [UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID]


def test_the_rebalance_goes_on_when_the_one_it_waits_for_leaves() -> None:
    harness = Harness()
    first, second = harness.stable(None, None)
    waiting = harness.join(first.id)
    assert waiting.waits

    harness.leave(second.id)

    assert waiting.response.generation_id == first.generation + 1


def test_a_member_that_is_put_out_while_it_waits_is_told() -> None:
    harness = Harness()
    first, second = harness.stable("a", "b")
    joining = harness.join(first.id, instance="a")

    harness.leave(("", "a"))

    assert joining.error == UNKNOWN_MEMBER_ID
    assert harness.member_ids() == [second.id]


def test_a_member_that_is_put_out_while_it_syncs_is_told() -> None:
    harness = Harness()
    members = harness.stable("a", "b")
    for member in members:
        answer = harness.join(member.id, instance=member.instance)
    syncing = harness.sync(members[1].id, answer.response.generation_id, instance="b")
    assert syncing.waits

    harness.leave(("", "b"))

    assert syncing.error == UNKNOWN_MEMBER_ID


def test_closing_tells_everybody_who_waits_to_look_for_the_coordinator() -> None:
    harness = Harness()
    first, _ = harness.stable(None, None)
    joining = harness.join(first.id)
    others = harness.stable(None, None, group="other")
    for member in others:
        answer = harness.join(member.id, group="other")
    syncing = harness.sync(others[1].id, answer.response.generation_id, group="other")

    harness.coordinator.close()

    assert [joining.error, syncing.error] == [code(errors.NotCoordinatorError)] * 2


def test_after_closing_nobody_is_told_that_nothing_was_committed() -> None:
    harness = Harness()
    harness.commit({("t", 0): 1})

    harness.coordinator.close()

    answer = harness.coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id="g", topics=None), False)
    assert answer.error_code == code(errors.NotCoordinatorError)
    assert harness.join().error == code(errors.NotCoordinatorError)


def test_without_consumer_offsets_there_are_no_groups_until_there_are_new_ones() -> None:
    harness = Harness()
    first, _ = harness.stable(None, None)
    harness.commit({("t", 0): 1}, first.id, first.generation)
    joining = harness.join(first.id)
    harness.storage.logs.clear()

    harness.coordinator.on_topic_deleted("__consumer_offsets", harness.at)

    assert joining.error == code(errors.NotCoordinatorError)
    assert harness.fetch() == {}
    assert harness.heartbeat(first.id, first.generation) == UNKNOWN_MEMBER_ID
    harness.advance(60.0)
    assert len(harness.stable(None, None)) == 2


def test_a_heartbeat_touches_no_more_than_its_own_member() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3, session_timeout_ms=30_000) for _ in range(2000)]
    harness.advance(10.0)
    ids = [join.response.member_id for join in joins]
    harness.sync(ids[0], 1)
    timers = harness.coordinator.statistics()["timers"]

    for _ in range(3):
        harness.advance(10.0)
        assert {harness.heartbeat(member_id, 1) for member_id in ids} == {0}

    # One session per member, the sync wait that the others have not ended, and the expiry of offsets.
    assert harness.coordinator.statistics()["timers"] == timers == len(ids) + 2
