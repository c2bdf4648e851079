"""Streams groups: joining, topics, tasks, revocation, standby copies, shutdown, restarts (KIP-1071)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages import streams_group_heartbeat_request as said
from tests.support.streams_member import StreamsMember, settle, subtopology, topic
from tests.unit.broker.groups.streams.streams_group_harness import (
    DELAYED,
    NO_INTERNAL,
    NO_SOURCE,
    SHUTDOWN,
    STALE,
    WRONG_PARTITIONS,
    StreamsHarness,
)

ALL_TASKS = {"0": {0, 1, 2, 3}, "1": {0, 1, 2, 3}}


def together(*members: StreamsMember, role: int = 0) -> dict[str, set[int]]:
    """What members have together; nothing twice."""
    found: dict[str, set[int]] = {}
    for member in members:
        for name, numbers in member.owned[role].items():
            assert not found.setdefault(name, set()) & numbers, "two have the same task"
            found[name] |= numbers
    return found


# --- topics


def test_internal_topics_are_asked_for_and_then_the_first_member_has_all_tasks() -> None:
    harness = StreamsHarness()
    member = harness.member("m")

    first = member.heartbeat()
    assert (first.member_epoch, first.active_tasks, first.heartbeat_interval_ms) == (2, [], 5000)
    assert "app-counts, app-words" in member.statuses[NO_INTERNAL]
    assert harness.created == {"app-words": 4, "app-counts": 4}
    assert harness.group_state() == "NotReady"

    settle(member)
    assert (member.active, member.standby, member.statuses) == (ALL_TASKS, {}, {})
    assert harness.group_state() == "Stable"


def test_missing_source_topics_are_told_of() -> None:
    harness = StreamsHarness()
    member = harness.member("m", (subtopology("0", "lines", "nope"),))

    member.heartbeat()
    assert member.statuses == {NO_SOURCE: "Source topics nope are missing."}
    harness.topic("nope", 2)
    settle(member)
    assert (member.statuses, member.active) == ({}, {"0": {0, 1, 2, 3}})


def test_topics_that_are_joined_need_as_many_partitions() -> None:
    harness = StreamsHarness()
    harness.topic("others", 3)
    member = harness.member("m", (subtopology("0", "lines", "others", joined=(([0, 1], []),)),))

    member.heartbeat()
    assert "[lines=4, others=3]" in member.statuses[WRONG_PARTITIONS]
    assert harness.created == {}
    harness.topic("others", 4)
    settle(member)
    assert member.active == {"0": {0, 1, 2, 3}}


def test_an_internal_topic_of_another_size_is_told_of() -> None:
    harness = StreamsHarness()
    harness.topic("app-counts", 3)
    member = harness.member("m")

    member.heartbeat()
    assert "app-counts has different number of partitions: expected 4, found 3" in member.statuses[WRONG_PARTITIONS]


def test_a_topic_that_grows_brings_new_tasks() -> None:
    harness = StreamsHarness()
    one = (subtopology("0", "lines"),)
    a, b = harness.member("a", one), harness.member("b", one)
    settle(a, b)
    epoch = a.epoch

    harness.topic("lines", 6)
    settle(a, b)
    assert together(a, b) == {"0": {0, 1, 2, 3, 4, 5}}
    assert a.epoch == b.epoch == epoch + 1


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((subtopology("0"),), "No source topics found for subtopology 0"),
        ((subtopology("0", "lines"), subtopology("0", "lines")), "same id"),
        ((subtopology("0", "lines", joined=(([1], []),)),), "does not read"),
        ((subtopology("0", "lines", joined=(([-1], []),)),), "does not read"),
        ((subtopology("0", "lines", repartitions=("r",)),), "never used as a sink"),
        ((subtopology("0", sinks=("r",), repartitions=("r",)),), "loops in the topology"),
        ((subtopology("0", "lines", repartitions=(topic("r", -2),)),), "-2 partitions"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(parts: tuple[said.Subtopology, ...], message: str) -> None:
    harness = StreamsHarness()

    answer = harness.member("m", parts).heartbeat()

    assert answer.error_code == errors.StreamsInvalidTopologyError.code
    assert message in (answer.error_message or "")
    assert harness.storage.records == []


def test_a_changelog_has_the_partitions_of_its_tasks() -> None:
    harness = StreamsHarness()
    part = subtopology("0", "lines")
    part.state_changelog_topics = [topic("app-counts", 7)]

    answer = harness.member("m", (part,)).heartbeat()

    assert answer.error_code == errors.StreamsInvalidTopologyError.code


# --- topology epochs


def test_who_joins_with_an_older_topology_is_told_so() -> None:
    harness = StreamsHarness()
    new = harness.member("new", topology_epoch=3)
    settle(new)
    old = harness.member("old", (subtopology("0", "lines"),), topology_epoch=2)

    answer = old.heartbeat()

    assert not answer.error_code
    assert old.statuses[STALE] == "The member's topology epoch 2 is behind the group's topology epoch 3."
    assert harness.described().topology.epoch == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("epoch", [0, 1])
def test_another_topology_is_refused(epoch: int) -> None:
    harness = StreamsHarness()
    settle(harness.member("a"))
    other = harness.member("b", (subtopology("0", "lines"),), topology_epoch=epoch)

    answer = other.heartbeat()

    assert answer.error_code == errors.InvalidRequestError.code
    assert "Topology updates are not supported yet" in (answer.error_message or "")


# --- tasks


def test_tasks_are_shared_out_and_given_up_before_another_gets_them() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    b = harness.member("b")

    first = b.heartbeat()
    assert (first.active_tasks, harness.group_state()) == ([], "Reconciling")
    a.keeps_revoked = True
    for member in (a, b, a, b):
        member.heartbeat()
    assert b.active == {}, "a has not given anything up"
    assert a.epoch < b.epoch

    a.keeps_revoked = False
    a.owned = ({name: set(numbers) for name, numbers in kept(harness, "a").items()}, {}, {})
    settle(a, b)
    assert together(a, b) == ALL_TASKS
    assert sum(map(len, a.active.values())) == sum(map(len, b.active.values())) == 4
    assert harness.group_state() == "Stable"


def kept(harness: StreamsHarness, member_id: str) -> dict[str, list[int]]:
    member = next(one for one in harness.described().members if one.member_id == member_id)
    return {tasks.subtopology_id: tasks.partitions for tasks in member.assignment.active_tasks}


def test_who_does_not_give_up_in_time_is_put_out() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    a.rebalance_timeout_ms = 10_000
    a.epoch = 0
    settle(a)
    b = harness.member("b")
    b.heartbeat()
    a.keeps_revoked = True
    a.heartbeat()
    harness.advance(9)
    assert set(harness.group().members) == {"a", "b"}
    harness.advance(2)
    assert set(harness.group().members) == {"b"}
    settle(b)
    assert b.active == ALL_TASKS


def test_a_session_that_ends_gives_the_tasks_to_others() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    for _ in range(5):
        harness.advance(10)
        b.heartbeat()
    settle(b)
    assert b.active == ALL_TASKS
    assert a.heartbeat().error_code == errors.UnknownMemberIdError.code
    settle(a, b)
    assert together(a, b) == ALL_TASKS


def test_who_leaves_gives_its_tasks_back() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    left = a.leave()
    assert (left.error_code, left.member_id, left.member_epoch, left.status) == (0, "a", -1, [])
    settle(b)
    assert b.active == ALL_TASKS
    b.leave()
    assert harness.group_state() == "Empty"


def test_tasks_stay_where_they_are() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    before = a.active, b.active
    c = harness.member("c")
    settle(a, b, c)
    assert together(a, b, c) == ALL_TASKS
    for had, has in zip(before, (a.active, b.active), strict=True):
        assert all(numbers <= had.get(name, set()) for name, numbers in has.items()), "nothing new for who had enough"


def test_standby_copies_lie_in_other_processes() -> None:
    harness = StreamsHarness(group_streams_num_standby_replicas=1)
    members = [harness.member(f"{process}{thread}", process=process) for process in "xy" for thread in "12"]
    settle(*members)
    assert together(*members) == ALL_TASKS
    assert together(*members, role=1) == {"1": {0, 1, 2, 3}}, "only what has a state is copied"
    for process in "xy":
        own = [member for member in members if member.process == process]
        assert not together(*own)["1"] & together(*own, role=1).get("1", set())


def test_a_copy_takes_over_when_who_worked_leaves() -> None:
    harness = StreamsHarness(group_streams_num_standby_replicas=1)
    a, b = harness.settled("a", "b")
    copies = b.standby["1"]
    assert copies == a.active["1"]
    a.leave()
    settle(b)
    assert (b.active, b.standby) == (ALL_TASKS, {})


def test_another_number_of_copies_begins_a_new_epoch() -> None:
    own: dict[str, str] = {}
    harness = StreamsHarness()
    harness.coordinator._settings._group_configs = lambda group: own
    a, b = harness.settled("a", "b")
    assert together(a, b, role=1) == {}
    own["streams.num.standby.replicas"] = "1"
    settle(a, b)
    assert together(a, b, role=1) == {"1": {0, 1, 2, 3}}


# --- waiting


def test_the_first_members_wait_for_others() -> None:
    harness = StreamsHarness(group_streams_initial_rebalance_delay_ms=3000)
    a = harness.member("a")
    first = a.heartbeat()
    assert (first.member_epoch, a.statuses[DELAYED]) == (
        1,
        "Assignment delayed due to the configured initial rebalance delay.",
    )
    harness.advance(2)
    b = harness.member("b")
    b.heartbeat()
    a.heartbeat()
    assert a.active == b.active == {}
    harness.advance(1.1)
    settle(a, b)
    assert together(a, b) == ALL_TASKS
    assert harness.group().epoch == 3, "a came, and b with the topics"


def test_a_failure_to_write_the_first_assignment_is_made_up_for() -> None:
    harness = StreamsHarness(group_streams_initial_rebalance_delay_ms=3000)
    a = harness.member("a")
    a.heartbeat()
    a.heartbeat()
    harness.storage.failure = errors.KafkaStorageError("broken")
    harness.advance(3.2)
    assert harness.group().targets == {}
    assert "could not be assigned" in harness.warnings[0]
    harness.storage.failure = None
    harness.advance(1)
    assert harness.group().targets["a"].active == {name: frozenset(numbers) for name, numbers in ALL_TASKS.items()}


def test_assignments_keep_their_distance() -> None:
    harness = StreamsHarness(group_streams_assignment_interval_ms=5000)
    a = harness.member("a")
    a.heartbeat()
    a.heartbeat()
    assert a.statuses[DELAYED] == "Assignment delayed due to the configured assignment interval."
    assert (a.active, harness.group_state()) == ({}, "Assigning")
    harness.advance(5)
    settle(a)
    assert a.active == ALL_TASKS


# --- endpoints, shutdown


def test_members_are_told_what_is_at_each_endpoint() -> None:
    harness = StreamsHarness(group_streams_num_standby_replicas=1)
    a = harness.member("a", endpoint=("host-a", 1234))
    b = harness.member("b", endpoint=("host-b", 65_535))
    settle(a, b)
    settle(a, b)
    assert a.endpoints.keys() == b.endpoints.keys() == {("host-a", 1234), ("host-b", 65_535)}
    at_b = {one.topic: set(one.partitions) for one in a.endpoints["host-b", 65_535].active_partitions}
    assert at_b == {"lines": b.active["0"], "app-words": b.active["1"]}
    copies = {one.topic: set(one.partitions) for one in a.endpoints["host-b", 65_535].standby_partitions}
    assert copies == {"app-words": b.standby["1"]}
    assert a.heartbeat().partitions_by_user_endpoint is None, "nothing has changed"

    b.leave()
    settle(a)
    assert a.endpoints.keys() == {("host-a", 1234)}


def test_threads_of_a_process_are_told_of_together() -> None:
    harness = StreamsHarness()
    a, b = (harness.member(name, process="p", endpoint=("host", 1)) for name in "ab")
    settle(a, b)
    settle(a, b)
    [told] = a.endpoints.values()
    assert {one.topic: one.partitions for one in told.active_partitions} == {
        "lines": [0, 1, 2, 3],
        "app-words": [0, 1, 2, 3],
    }


def test_the_end_of_the_application_is_told_to_all() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    a.shuts_down = True
    a.heartbeat()
    b.heartbeat()
    assert "Streams group member a encountered a fatal error" in b.statuses[SHUTDOWN]
    a.leave()
    b.leave()
    c = harness.member("c")
    settle(c)
    assert c.statuses == {}


def test_who_leaves_can_ask_for_the_end_too() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    a.shuts_down = True
    a.leave()
    b.heartbeat()
    assert SHUTDOWN in b.statuses


# --- restarts


def test_a_group_is_as_it_was_after_a_restart() -> None:
    harness = StreamsHarness(group_streams_num_standby_replicas=1)
    a, b = (harness.member(name, endpoint=(name, 1), tags={"zone": name}) for name in "ab")
    settle(a, b)
    before = harness.described()

    harness.restart()
    assert harness.described() == before
    assert harness.group_state() == "Stable"
    epochs = a.epoch, b.epoch
    settle(a, b)
    assert (a.epoch, b.epoch) == epochs, "nothing has to move"
    harness.advance(46)
    assert harness.group_state() == "Empty", "sessions count from the restart"


def test_a_restart_midway_goes_on() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    b = harness.member("b")
    b.heartbeat()
    a.heartbeat()
    harness.restart()
    settle(a, b)
    assert together(a, b) == ALL_TASKS


def test_what_was_compacted_is_read_as_well() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    a.leave()
    settle(b)
    harness.storage.compact()
    before = harness.described()
    harness.restart()
    assert harness.described() == before


def test_nothing_changes_when_the_log_cannot_be_written() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    before = harness.described().members
    harness.topic("lines", 8)
    harness.storage.failure = errors.NotEnoughReplicasError()
    assert harness.member("c").heartbeat().error_code == errors.NotEnoughReplicasError.code
    assert a.heartbeat().error_code == errors.NotEnoughReplicasError.code
    assert harness.described().members == before
    harness.storage.failure = None
    settle(a, b)
    assert WRONG_PARTITIONS in a.statuses, "internal topics have four partitions still"


# --- requests


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty"),
        ({"rack_id": ""}, "RackId can't be empty"),
        ({"member_epoch": -2}, "MemberEpoch is -2"),
        ({"instance_id": "i"}, "Static membership is not yet supported"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
        ({"topology": None}, "Topology must be non-null"),
        ({"active_tasks": [said.TaskIds("0", [1])]}, "must be empty when"),
        ({"standby_tasks": None}, "If one task-type is non-null"),
        ({"warmup_tasks": [said.TaskIds("0", [1])]}, "WarmupTasks are not supported"),
        ({"task_offsets": []}, "TaskOffsets"),
        ({"task_end_offsets": []}, "TaskOffsets"),
        ({"topology": said.Topology(0, [said.Subtopology("0", ["lines"], ["l.*"])])}, "Regular expressions"),
        ({"member_epoch": 1}, "Topology can only be provided"),
    ],
)
def test_what_no_heartbeat_may_be_is_refused(fields: dict[str, Any], message: str) -> None:
    answer = StreamsHarness().member("m").heartbeat(**fields)

    assert answer.error_code == errors.InvalidRequestError.code
    assert message in (answer.error_message or "")


def test_epochs_are_fenced() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    fenced = errors.FencedMemberEpochError.code
    assert harness.send(a.request(member_epoch=a.epoch + 1)).error_code == fenced
    assert harness.send(a.request(member_epoch=a.epoch - 1)).error_code == fenced, "it does not say what it has"
    owned: dict[str, Any] = {"active_tasks": [said.TaskIds("0", [1])], "standby_tasks": [], "warmup_tasks": []}
    assert harness.send(a.request(member_epoch=a.epoch - 1, **owned)).error_code == 0, "an answer may get lost"
    assert harness.send(a.request(member_epoch=a.epoch - 2, **owned)).error_code == fenced
    assert harness.send(a.request(member_id="x")).error_code == errors.UnknownMemberIdError.code
    assert harness.send(a.request(group_id="x")).error_code == errors.GroupIdNotFoundError.code


@pytest.mark.parametrize(
    ("task", "message"), [(("9", [0]), "does not exist"), (("0", [4]), "Task 4 for subtopology 0")]
)
def test_tasks_that_do_not_exist_are_refused(task: tuple[str, list[int]], message: str) -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    answer = harness.send(a.request(active_tasks=[said.TaskIds(*task)], standby_tasks=[], warmup_tasks=[]))
    assert answer.error_code == errors.InvalidRequestError.code
    assert message in (answer.error_message or "")


def test_members_are_turned_away_from_a_full_group() -> None:
    harness = StreamsHarness(group_streams_max_size=1)
    [a] = harness.settled("a")
    assert harness.member("b").heartbeat().error_code == errors.GroupMaxSizeReachedError.code
    a.epoch = 0
    assert a.heartbeat().error_code == 0


def test_who_rejoins_is_told_its_tasks() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    epoch = a.epoch
    a.epoch = 0
    answer = a.heartbeat()
    assert (answer.member_epoch, a.active) == (epoch, ALL_TASKS)


def test_the_protocol_can_be_switched_off() -> None:
    harness = StreamsHarness(group_coordinator_rebalance_protocols="classic,consumer")
    assert harness.member("m").heartbeat().error_code == errors.UnsupportedVersionError.code
    with pytest.raises(errors.UnsupportedVersionError):
        harness.described()
