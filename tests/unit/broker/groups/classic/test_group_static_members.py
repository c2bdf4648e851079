"""Members with a group.instance.id (KIP-345): they may go and come back without a rebalance."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.client.consumer.assignors.consumer_partition_assignor import Assignment, Subscription
from barnabas.client.consumer.coordinator.consumer_protocol import serialize_assignment, serialize_subscription
from barnabas.protocol.topic_partition import TopicPartition
from tests.unit.broker.groups.harness import Harness, Member, code

FENCED = code(errors.FencedInstanceIdError)
REBALANCE_IN_PROGRESS = code(errors.RebalanceInProgressError)


@pytest.mark.shows("S1.30", breaks="barnabas.broker.groups.classic.joining:JoinGroup._join_static")
def test_a_member_with_an_instance_id_is_let_in_at_once() -> None:
    harness = Harness()

    assert harness.join(instance="a").error == 0
    assert harness.join().error == code(errors.MemberIdRequiredError)


@pytest.mark.shows("S1.31", breaks="barnabas.broker.groups.classic.joining:JoinGroup._return_of_static")
@pytest.mark.parametrize("returning", [0, 1], ids=["leader", "follower"])
def test_a_static_member_that_comes_back_gets_a_new_id_and_its_assignment_without_a_rebalance(returning: int) -> None:
    harness = Harness()
    members = harness.stable("a", "b")
    old = members[returning]
    other = members[1 - returning]

    answer = harness.join(instance=old.instance).response
    sync = harness.sync(answer.member_id, answer.generation_id, instance=old.instance).response

    assert answer.member_id != old.id
    assert answer.generation_id == old.generation
    assert sync.assignment == old.id.encode()
    assert harness.heartbeat(other.id, other.generation, instance=other.instance) == 0
    assert harness.state() == "Stable"


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False), (5, False)])
def test_a_leader_that_comes_back_is_not_to_assign_again(version: int, skips: bool) -> None:
    harness = Harness()
    leader, _ = harness.stable("a", "b")

    answer = harness.join(instance="a", version=version).response

    assert answer.skip_assignment is skips
    # An old client recognises itself as the leader by its id, so it is shown the old one.
    assert answer.leader == (answer.member_id if skips else leader.id)
    assert len(answer.members) == (2 if skips else 0)


def test_a_follower_that_comes_back_is_told_who_leads() -> None:
    harness = Harness()
    leader, _ = harness.stable("a", "b")

    answer = harness.join(instance="b").response

    assert (answer.leader, answer.skip_assignment, answer.members) == (leader.id, False, [])


@pytest.mark.shows("S1.22", breaks="barnabas.broker.groups.classic_group:ClassicGroup.validate_member")
def test_of_two_with_one_instance_id_the_newcomer_wins() -> None:
    harness = Harness()
    _, old = harness.stable("a", "b")

    new = harness.join(instance="b").response

    assert harness.heartbeat(old.id, old.generation, instance="b") == FENCED
    assert harness.sync(old.id, old.generation, instance="b").error == FENCED
    assert harness.join(old.id, instance="b").error == FENCED
    assert harness.commit({("t", 0): 1}, old.id, old.generation, instance="b") == FENCED
    assert harness.heartbeat(new.member_id, new.generation_id, instance="b") == 0


def test_the_one_that_is_replaced_while_it_waits_is_fenced() -> None:
    harness = Harness()
    first, second = harness.stable("a", "b")
    joining = harness.join(first.id, instance="a")
    successor = harness.join(instance="a")
    assert joining.error == FENCED
    generation = harness.join(second.id, instance="b").response.generation_id
    syncing = harness.sync(second.id, generation, instance="b")

    harness.join(instance="b")

    assert syncing.error == FENCED
    assert successor.response.generation_id == generation


def test_a_return_while_the_leader_assigns_begins_a_new_rebalance() -> None:
    harness = Harness()
    members = harness.stable("a", "b")
    for member in members:
        generation = harness.join(member.id, instance=member.instance)
    leader_id = members[0].id
    generation = generation.response.generation_id

    returned = harness.join(instance="b")

    assert returned.waits
    assert harness.sync(leader_id, generation, instance="a").error == REBALANCE_IN_PROGRESS
    assert harness.join(leader_id, instance="a").response.generation_id == generation + 1
    assert returned.response.generation_id == generation + 1


def test_a_return_that_changes_the_selected_protocol_causes_a_rebalance() -> None:
    harness = Harness()
    both = {"range": b"", "sticky": b""}
    harness.stable("a", "b", protocols=both)

    harness.join(instance="b", protocols={"sticky": b""})

    assert harness.state() == "PreparingRebalance"


def test_a_return_with_other_metadata_but_the_same_protocol_causes_none() -> None:
    harness = Harness()
    harness.stable("a", "b")

    answer = harness.join(instance="b", protocols={"range": b"other"})

    assert answer.error == 0
    assert harness.state() == "Stable"


class TestOneThatGavePartitionsUp:
    """It was assigned less than it had, and ended before it joined again, which begins the next rebalance (KIP-429)."""

    @staticmethod
    def group(*assigned: int) -> tuple[Harness, Member]:
        """A group of two, of which `a` had partitions 0 and 1 when it joined; what it was assigned then."""
        harness = Harness()
        leader, follower = harness.stable("a", "b", protocols={"range": subscription(0, 1)})
        harness.join(leader.id, instance="a", protocols={"range": subscription(0, 1)})
        generation = harness.join(follower.id, instance="b", protocols={"range": subscription()}).response.generation_id
        assignments = {leader.id: assignment(*assigned), follower.id: assignment()}
        assert harness.sync(leader.id, generation, assignments, instance="a").error == 0
        assert harness.sync(follower.id, generation, instance="b").error == 0
        return harness, Member(follower.id, generation, "b")

    @pytest.mark.shows("S1.31", breaks="barnabas.broker.groups.embedded_protocol:has_to_give_up")
    def test_begins_a_rebalance_with_its_return(self) -> None:
        harness, other = self.group(0)

        returned = harness.join(instance="a", protocols={"range": subscription()})

        assert returned.waits
        assert harness.heartbeat(other.id, other.generation, instance="b") == REBALANCE_IN_PROGRESS
        rejoined = harness.join(other.id, instance="b", protocols={"range": subscription()})
        assert returned.response.generation_id == rejoined.response.generation_id == other.generation + 1

    def test_begins_it_at_another_coordinator_too_as_often_as_it_returns(self) -> None:
        harness, other = self.group(0)
        for _ in range(2):
            harness.restart()

            assert harness.join(instance="a", protocols={"range": subscription()}).waits
            assert harness.heartbeat(other.id, other.generation, instance="b") == REBALANCE_IN_PROGRESS

    def test_is_let_in_where_it_kept_all(self) -> None:
        harness, other = self.group(0, 1)

        assert harness.join(instance="a", protocols={"range": subscription()}).error == 0
        assert harness.heartbeat(other.id, other.generation, instance="b") == 0

    @pytest.mark.parametrize("written", [b"", b"\x00", b"\xff\xff", b"\x00\x01\x00"])
    def test_is_let_in_where_what_members_say_cannot_be_read(self, written: bytes) -> None:
        harness = Harness()
        harness.stable("a", "b", protocols={"range": written})

        assert harness.join(instance="a", protocols={"range": written}).error == 0


def subscription(*owned: int) -> bytes:
    partitions = [TopicPartition("t", number) for number in owned]
    return serialize_subscription(Subscription(topics=["t"], owned_partitions=partitions, generation_id=1))


def assignment(*assigned: int) -> bytes:
    return serialize_assignment(Assignment(tuple(TopicPartition("t", number) for number in assigned)))


@pytest.mark.shows("S1.23", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.complete_join")
def test_a_static_member_may_be_absent_for_its_session_timeout_even_if_the_others_rebalance() -> None:
    harness = Harness()
    present, absent = harness.stable("a", "b", session_timeout_ms=120_000, rebalance_timeout_ms=30_000)
    options = {"session_timeout_ms": 120_000, "rebalance_timeout_ms": 30_000}
    rejoined = harness.join(present.id, instance="a", **options)

    harness.advance(30.0)

    assert rejoined.response.generation_id == present.generation + 1
    assert {member.member_id for member in rejoined.response.members} == {present.id, absent.id}


@pytest.mark.shows("S1.29", breaks="barnabas.broker.groups.classic.sessions:Sessions._expire")
def test_only_the_session_timeout_or_an_administrator_puts_a_static_member_out() -> None:
    harness = Harness()
    present, _ = harness.stable("a", "b", session_timeout_ms=30_000)
    for _ in range(3):
        harness.advance(9.9)
        assert harness.heartbeat(present.id, present.generation, instance="a") == 0

    harness.advance(0.3)

    assert harness.member_ids() == [present.id]
    assert harness.heartbeat(present.id, present.generation, instance="a") == REBALANCE_IN_PROGRESS
    assert harness.leave(("", "a")) == [0]
    assert harness.member_ids() == []


def test_a_dead_static_member_stays_as_long_as_the_others_come_and_go() -> None:
    """GroupMetadataManager.completeClassicGroupJoin begins every member's session anew, also of one that is away."""
    harness = Harness()
    options = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 20_000}
    present, absent = harness.stable("a", "b", **options)
    for changed in (b"1", b"2", b"3"):
        rejoined = harness.join(present.id, instance="a", protocols={"range": changed}, **options)
        harness.advance(20.0)
        assert rejoined.error == 0
        assert absent.id in harness.member_ids()
        harness.advance(5.0)
        harness.heartbeat(present.id, rejoined.response.generation_id, instance="a")

    # A generation that lasts as long as the rebalance timeout, in which only the dead one has not synchronized.
    harness.sync(present.id, rejoined.response.generation_id, {present.id: b""}, instance="a")
    harness.advance(16.0)

    assert harness.member_ids() == [present.id]


def test_when_no_static_member_is_there_the_rebalance_waits_for_sessions_to_end() -> None:
    harness = Harness()
    options = {"session_timeout_ms": 100_000, "rebalance_timeout_ms": 20_000}
    dynamic = harness.stable("a", None, **options)[1]
    harness.leave(dynamic.id)

    harness.advance(50.0)
    assert harness.state() == "PreparingRebalance"
    harness.advance(50.0)

    assert harness.state() == "Empty"


@pytest.mark.shows("S1.32", breaks="barnabas.broker.groups.group_replay:GroupReplay._replay_group")
def test_a_static_member_gets_the_same_partitions_after_its_and_the_brokers_restart() -> None:
    harness = Harness()
    members = harness.stable("red", "green")
    returned = harness.join(instance="green").response
    harness.restart()

    again = harness.join(instance="green").response
    sync = harness.sync(again.member_id, again.generation_id, instance="green").response

    assert harness.heartbeat(returned.member_id, returned.generation_id, instance="green") == FENCED
    assert sync.assignment == members[1].id.encode()
    assert harness.state() == "Stable"


def test_when_the_new_id_cannot_be_written_the_old_one_stays() -> None:
    harness = Harness()
    _, old = harness.stable("a", "b")
    harness.storage.failure = errors.KafkaStorageError()

    refused = harness.join(instance="b", protocols={"range": b"new"})
    harness.storage.failure = None

    assert refused.error == code(errors.NotCoordinatorError)
    assert harness.heartbeat(old.id, old.generation, instance="b") == 0
    assert harness.state() == "Stable"


def test_a_static_member_that_comes_back_before_it_synced_is_still_waited_for() -> None:
    harness = Harness()
    members = harness.stable("a", "b", rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    options = {"rebalance_timeout_ms": 20_000, "session_timeout_ms": 60_000}
    for member in members:
        generation = harness.join(member.id, instance=member.instance, **options)
    generation = generation.response.generation_id
    harness.sync(members[0].id, generation, instance="a")
    returned = harness.join(instance="b", **options).response

    harness.sync(returned.member_id, returned.generation_id, instance="b")
    harness.advance(25.0)

    assert harness.state() == "Stable"
    assert returned.generation_id == generation
