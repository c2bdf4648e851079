"""JoinGroup and SyncGroup: how members get into a group and a group from generation to generation."""

from __future__ import annotations

import re

import pytest

from barnabas import errors
from tests.unit.broker.groups.harness import GROUP, Harness, code

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


# --- member ids


@pytest.mark.shows("S1.8", breaks="barnabas.broker.groups.classic.joining:JoinGroup._join_dynamic")
def test_a_new_consumer_joins_without_a_member_id_and_is_told_one() -> None:
    harness = Harness()

    told = harness.join("").response

    assert told.error_code == code(errors.MemberIdRequiredError)
    assert told.member_id
    assert harness.join(told.member_id).error == 0


@pytest.mark.shows("S1.9", breaks="barnabas.broker.groups.classic.joining:JoinGroup._join_dynamic")
@pytest.mark.parametrize(
    ("version", "instance", "error"),
    [
        (9, None, errors.MemberIdRequiredError),
        (4, None, errors.MemberIdRequiredError),
        (3, None, None),
        (0, None, None),
        (5, "static", None),
        (9, "static", None),
    ],
)
def test_a_dynamic_member_must_come_back_with_its_id_from_version_4_on(
    version: int, instance: str | None, error: type[errors.KafkaError] | None
) -> None:
    harness = Harness()

    answer = harness.join(version=version, instance=instance).response

    assert answer.error_code == (0 if error is None else error.code)
    assert bool(harness.member_ids()) == (error is None)


@pytest.mark.shows("S1.14", breaks="barnabas.broker.groups.classic.joining:JoinGroup._uuid")
@pytest.mark.parametrize(
    ("instance", "client_id", "form"),
    [(None, "etl", f"etl-{UUID}"), ("node-7", "etl", f"node-7-{UUID}"), (None, None, f"-{UUID}")],
)
def test_a_member_id_is_the_client_id_or_the_instance_id_and_a_uuid(
    instance: str | None, client_id: str | None, form: str
) -> None:
    harness = Harness()

    member_id = harness.join(instance=instance, client_id=client_id).response.member_id

    assert re.fullmatch(form, member_id)


@pytest.mark.shows("S1.13", breaks="barnabas.broker.groups.classic.joining:JoinGroup._join_known")
def test_a_member_id_that_nobody_gave_out_is_unknown() -> None:
    harness = Harness()
    assert harness.join("made-up").error == code(errors.UnknownMemberIdError)

    harness.stable(None)

    assert harness.join("made-up").error == code(errors.UnknownMemberIdError)


@pytest.mark.shows("S1.12", breaks="barnabas.broker.groups.classic.joining:JoinGroup._add")
def test_an_id_becomes_a_member_when_it_joins_with_it() -> None:
    harness = Harness()
    member_id = harness.join().response.member_id
    assert harness.member_ids() == []

    harness.join(member_id)

    assert harness.member_ids() == [member_id]


def test_an_id_that_is_not_taken_up_within_the_session_timeout_is_forgotten() -> None:
    harness = Harness()
    member_id = harness.join(session_timeout_ms=6000).response.member_id

    harness.advance(6.0)

    assert harness.join(member_id).error == code(errors.UnknownMemberIdError)


def test_a_pending_id_holds_the_rebalance_up_until_it_is_taken_up_or_expires() -> None:
    harness = Harness()
    leader = harness.stable(None)[0]
    harness.join(session_timeout_ms=6000)
    rejoined = harness.join(leader.id)
    assert rejoined.waits

    harness.advance(6.0)

    assert rejoined.response.generation_id == leader.generation + 1


# --- what is refused


@pytest.mark.shows("S2.31", breaks="barnabas.broker.groups.classic.joining:JoinGroup.join")
@pytest.mark.parametrize(
    ("session_timeout_ms", "error"),
    [
        (5999, errors.InvalidSessionTimeoutError),
        (6000, None),
        (1_800_000, None),
        (1_800_001, errors.InvalidSessionTimeoutError),
    ],
)
def test_the_session_timeout_must_lie_within_the_brokers_bounds(
    session_timeout_ms: int, error: type[errors.KafkaError] | None
) -> None:
    answer = Harness().join(session_timeout_ms=session_timeout_ms, version=3)

    assert answer.error == (0 if error is None else error.code)


def test_a_group_without_a_name_is_refused() -> None:
    assert Harness().join(group="").error == code(errors.InvalidGroupIdError)


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", {"sticky": b""}), ("connect", {"range": b""}), ("", {"range": b""}), ("consumer", {})],
)
def test_a_member_must_share_the_groups_type_and_a_protocol_with_everybody(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    harness = Harness()
    harness.stable(None)

    answer = harness.join(protocol_type=protocol_type, protocols=protocols)

    assert answer.error == code(errors.InconsistentGroupProtocolError)


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", {"range": b""}), ("consumer", {})])
def test_the_first_member_needs_a_type_and_a_protocol(protocol_type: str, protocols: dict[str, bytes]) -> None:
    answer = Harness().join(protocol_type=protocol_type, protocols=protocols)

    assert answer.error == code(errors.InconsistentGroupProtocolError)


def test_a_group_takes_no_more_members_than_group_max_size() -> None:
    harness = Harness(group_max_size=2)
    harness.stable(None, None)

    assert harness.join().error == code(errors.GroupMaxSizeReachedError)
    assert len(harness.member_ids()) == 2


def test_while_members_rejoin_the_last_ones_beyond_group_max_size_are_turned_away() -> None:
    harness = Harness()
    members = harness.stable(None, None, None)
    harness.restart(group_max_size=2)
    assert harness.state() == "PreparingRebalance"

    answers = [harness.join(member.id) for member in members]

    assert [answer.error for answer in answers] == [0, 0, code(errors.GroupMaxSizeReachedError)]


# --- the initial rebalance


@pytest.mark.parametrize(
    ("delay_ms", "rebalance_timeout_ms", "arrivals", "begins"),
    [
        (3000, 60_000, [], 3.0),
        (3000, 60_000, [1.0], 6.0),
        (3000, 60_000, [1.0, 4.0], 9.0),
        (3000, 60_000, [1.0, 2.0], 6.0),
        (3000, 10_000, [1.0, 4.0, 7.0, 9.5], 10.0),
        (3000, 2000, [1.0], 3.0),
        (0, 60_000, [], 0.0),
    ],
)
def test_the_first_rebalance_waits_and_waits_again_while_members_come(
    delay_ms: int, rebalance_timeout_ms: int, arrivals: list[float], begins: float
) -> None:
    harness = Harness(group_initial_rebalance_delay_ms=delay_ms)
    start = harness.now
    joins = [harness.join(version=3, rebalance_timeout_ms=rebalance_timeout_ms)]
    for arrival in arrivals:
        harness.advance(start + arrival - harness.now)
        joins.append(harness.join(version=3, rebalance_timeout_ms=rebalance_timeout_ms))

    harness.advance(max(start + begins - harness.now - 0.001, 0))
    assert not begins or all(join.waits for join in joins)
    harness.advance(start + begins - harness.now)

    assert {join.response.generation_id for join in joins} == {1}


# --- leader and protocol


@pytest.mark.shows("S2.17", breaks="barnabas.broker.groups.classic_group:ClassicGroup.add")
def test_the_first_to_join_leads_and_only_the_leader_is_told_who_is_there() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3, protocols={"range": bytes([number])}) for number in range(3)]

    harness.advance(10.0)

    answers = [join.response for join in joins]
    assert {answer.leader for answer in answers} == {answers[0].member_id}
    told = [(member.member_id, member.metadata) for member in answers[0].members]
    assert told == [(answer.member_id, bytes([number])) for number, answer in enumerate(answers)]
    assert [answer.members for answer in answers[1:]] == [[], []]


@pytest.mark.parametrize(
    ("preferences", "selected"),
    [
        (["range sticky", "range sticky"], "range"),
        (["sticky range", "range sticky", "sticky range"], "sticky"),
        (["range sticky", "sticky"], "sticky"),
        (["a b", "b a"], "a"),
    ],
)
def test_the_protocol_most_members_prefer_is_selected_among_those_all_support(
    preferences: list[str], selected: str
) -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3, protocols=dict.fromkeys(names.split(), b"")) for names in preferences]

    harness.advance(10.0)

    assert {join.response.protocol_name for join in joins} == {selected}


def test_when_the_leader_does_not_rejoin_another_member_leads() -> None:
    harness = Harness()
    leader, follower = harness.stable(None, None)
    harness.leave(leader.id)

    answer = harness.join(follower.id).response

    assert (answer.leader, answer.generation_id) == (follower.id, follower.generation + 1)


# --- SyncGroup


@pytest.mark.shows("S2.18", breaks="barnabas.broker.groups.classic.syncing:SyncGroup._take_assignments")
@pytest.mark.shows("S2.19", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.stabilize")
def test_followers_wait_in_sync_until_the_leader_sends_the_assignment() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3) for _ in range(3)]
    harness.advance(10.0)
    leader, *followers = [join.response.member_id for join in joins]

    parked = [harness.sync(follower, 1) for follower in followers]
    assert all(sync.waits for sync in parked)
    leaders = harness.sync(leader, 1, {leader: b"L", followers[0]: b"F"})

    assert leaders.response.assignment == b"L"
    assert [sync.response.assignment for sync in parked] == [b"F", b""]
    assert harness.state() == "Stable"


def test_a_sync_in_a_stable_group_gives_the_assignment_again() -> None:
    harness = Harness()
    member = harness.stable(None)[0]

    again = harness.sync(member.id, member.generation).response

    assert (again.assignment, again.protocol_name, again.protocol_type) == (member.id.encode(), "range", "consumer")


@pytest.mark.parametrize(
    ("difference", "error"),
    [
        ({"member_id": "made-up"}, errors.UnknownMemberIdError),
        ({"generation": 7}, errors.IllegalGenerationError),
        ({"protocol_type": "connect"}, errors.InconsistentGroupProtocolError),
        ({"protocol_name": "sticky"}, errors.InconsistentGroupProtocolError),
        ({"group": "other"}, errors.UnknownMemberIdError),
        ({"group": ""}, errors.InvalidGroupIdError),
        ({"instance": "static"}, errors.UnknownMemberIdError),
    ],
)
def test_a_sync_must_fit_the_group(difference: dict, error: type[errors.KafkaError]) -> None:
    harness = Harness()
    member = harness.stable(None)[0]
    request = {"member_id": member.id, "generation": member.generation, **difference}

    assert harness.sync(**request).error == error.code


def test_a_sync_during_a_rebalance_tells_to_join_again() -> None:
    harness = Harness()
    first, second = harness.stable(None, None)
    harness.join(first.id)

    assert harness.sync(second.id, second.generation).error == code(errors.RebalanceInProgressError)


def test_members_that_never_sync_are_out_after_the_rebalance_timeout() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3, rebalance_timeout_ms=20_000, session_timeout_ms=60_000) for _ in range(2)]
    harness.advance(6.0)
    leader, lazy = [join.response.member_id for join in joins]
    harness.sync(leader, 1)

    harness.advance(20.0)
    assert harness.state() == "PreparingRebalance"
    rejoined = harness.join(leader).response

    assert harness.member_ids() == [leader]
    assert rejoined.generation_id == 2
    assert harness.join(lazy).error == code(errors.UnknownMemberIdError)


def test_when_the_leader_never_syncs_the_others_are_told_to_join_again() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3, rebalance_timeout_ms=20_000, session_timeout_ms=60_000) for _ in range(2)]
    harness.advance(6.0)
    leader, follower = [join.response.member_id for join in joins]
    parked = harness.sync(follower, 1)

    harness.advance(20.0)

    assert parked.error == code(errors.RebalanceInProgressError)
    assert harness.member_ids() == [follower]
    assert harness.join(follower).response.leader == follower
    assert leader not in harness.member_ids()


def test_a_second_sync_of_the_same_member_supersedes_the_first() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3) for _ in range(2)]
    harness.advance(6.0)
    leader, follower = [join.response.member_id for join in joins]
    first = harness.sync(follower, 1)

    second = harness.sync(follower, 1)
    harness.sync(leader, 1, {follower: b"F"})

    assert first.error == code(errors.RebalanceInProgressError)
    assert second.response.assignment == b"F"


# --- joining again


def joined_again(harness: Harness, member_id: str, **options: object) -> tuple[bool, str]:
    """Whether the answer is there at once, and the group's state then."""
    pending = harness.join(member_id, **options)
    return not pending.waits, harness.state()


def test_a_follower_that_joins_a_stable_group_again_unchanged_causes_no_rebalance() -> None:
    harness = Harness()
    leader, follower = harness.stable(None, None)

    answer = harness.join(follower.id).response

    assert (answer.generation_id, answer.leader, answer.members) == (follower.generation, leader.id, [])
    assert harness.state() == "Stable"


@pytest.mark.shows("S2.14", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.prepare")
@pytest.mark.parametrize(
    ("cause", "act"),
    [
        ("a consumer is added", lambda harness, leader, follower: harness.join(version=3)),
        ("a consumer is dropped", lambda harness, leader, follower: harness.leave(follower.id)),
        ("a consumer is expired", lambda harness, leader, follower: expire(harness, leader)),
        (
            "a subscription changes",
            lambda harness, leader, follower: harness.join(follower.id, protocols={"range": b"x"}),
        ),
        ("the leader saw new partitions", lambda harness, leader, follower: harness.join(leader.id)),
    ],
)
def test_rebalances_begin_when(cause: str, act: object) -> None:
    harness = Harness()
    leader, follower = harness.stable(None, None)

    act(harness, leader, follower)

    assert harness.state() == "PreparingRebalance"
    assert harness.heartbeat(leader.id, leader.generation) == code(errors.RebalanceInProgressError)


def expire(harness: Harness, alive: object) -> None:
    harness.advance(9.0)
    harness.heartbeat(alive.id, alive.generation)
    harness.advance(2.0)


def test_in_completing_rebalance_a_member_that_missed_its_answer_gets_it_again() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3) for _ in range(2)]
    harness.advance(6.0)
    leader, follower = [join.response.member_id for join in joins]

    again = harness.join(leader).response
    followers = harness.join(follower).response

    assert (again.generation_id, len(again.members)) == (1, 2)
    assert (followers.generation_id, followers.members) == (1, [])
    assert harness.state() == "CompletingRebalance"


def test_in_completing_rebalance_changed_metadata_begins_a_new_rebalance() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3) for _ in range(2)]
    harness.advance(6.0)
    leader, follower = [join.response.member_id for join in joins]
    parked = harness.sync(follower, 1)

    harness.join(leader, protocols={"range": b"changed"})

    assert parked.error == code(errors.RebalanceInProgressError)
    assert harness.state() == "PreparingRebalance"


def test_members_that_do_not_rejoin_within_the_rebalance_timeout_are_out() -> None:
    harness = Harness()
    members = harness.stable(None, None, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    waiting = harness.join(members[0].id, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)

    harness.advance(19.9)
    assert waiting.waits
    harness.advance(0.1)

    assert waiting.response.generation_id == members[0].generation + 1
    assert harness.member_ids() == [members[0].id]


def test_the_longest_rebalance_timeout_of_the_members_counts() -> None:
    harness = Harness()
    members = harness.stable(None, None, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)

    waiting = harness.join(members[0].id, rebalance_timeout_ms=30_000, session_timeout_ms=60_000)

    harness.advance(29.9)
    assert waiting.waits
    harness.advance(0.1)
    assert waiting.response.generation_id == members[0].generation + 1


def test_a_second_join_of_the_same_member_supersedes_the_first() -> None:
    harness = Harness()
    first, second = harness.stable(None, None)
    earlier = harness.join(first.id)

    later = harness.join(first.id)
    harness.join(second.id)

    assert earlier.error == code(errors.RebalanceInProgressError)
    assert later.response.generation_id == first.generation + 1


def test_a_version_0_member_waits_its_session_timeout_for_the_others() -> None:
    harness = Harness()
    first, second = harness.stable(None, None, session_timeout_ms=180_000, rebalance_timeout_ms=60_000)
    waiting = harness.join(first.id, version=0, session_timeout_ms=90_000, rebalance_timeout_ms=-1)

    harness.advance(89.9)
    assert waiting.waits
    harness.advance(0.1)

    assert waiting.response.error_code == 0
    assert second.id not in harness.member_ids()


def test_a_new_member_that_waits_forever_is_told_after_five_minutes_to_try_again() -> None:
    harness = Harness()
    harness.stable("a", rebalance_timeout_ms=1_000_000, session_timeout_ms=1_800_000)
    waiting = harness.join(version=3, rebalance_timeout_ms=1_000_000)

    harness.advance(299.0)
    assert waiting.waits
    harness.advance(1.0)

    assert waiting.error == code(errors.UnknownMemberIdError)


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_what_is_told_about_a_group_in_each_state(state: str) -> None:
    harness = Harness()
    members = harness.stable(None, None)
    if state == "Empty":
        harness.leave(*(member.id for member in members))
    if state == "PreparingRebalance":
        harness.join(members[0].id)
    if state == "CompletingRebalance":
        for member in members:
            harness.join(member.id)

    described = harness.coordinator.describe_group(GROUP, 6)

    assert described.group_state == state
    assert described.protocol_data == ("range" if state == "Stable" else "")
    assert [member.member_metadata for member in described.members] == (
        [] if state == "Empty" else [b"meta" if state == "Stable" else b""] * 2
    )
