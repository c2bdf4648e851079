"""A partition of `__consumer_offsets` moves: its groups are given up, and loaded where they come to."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import GROUP, Harness, code

NOT_COORDINATOR = code(errors.NotCoordinatorError)
LOADING = code(errors.CoordinatorLoadInProgressError)


def partition(harness: Harness, group: str = GROUP) -> int:
    return harness.coordinator.partition_for(group)


def commit_in_transaction(harness: Harness, group: str, offset: int, producer_id: int, topic: str = "t") -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic, partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
            )
        ],
    )
    answer = harness.coordinator.commit_transactional_offsets(harness.context(3), request)
    assert [part.error_code for topic in answer.topics for part in topic.partitions] == [0]


def load(harness: Harness) -> None:
    while harness.coordinator.loading:
        harness.coordinator.tick(harness.at)


def test_parked_joins_and_syncs_are_told_to_look_for_the_coordinator() -> None:
    harness = Harness()
    leader, follower = harness.stable("leader", "follower")
    syncing = harness.join_dynamic()
    joining = [harness.join(member.id, instance=member.instance) for member in (leader,)]

    harness.coordinator.on_resigned(partition(harness), 1)

    assert syncing.response.error_code == NOT_COORDINATOR
    assert [pending.response.error_code for pending in joining] == [NOT_COORDINATOR]
    assert harness.heartbeat(follower.id, follower.generation) == NOT_COORDINATOR


def test_a_group_that_was_given_up_leaves_no_timer_and_no_memory() -> None:
    harness = Harness()
    idle = harness.coordinator.statistics()
    members = harness.stable("a", None, None)
    harness.commit({("t", 0): 5}, members[0].id, members[0].generation)
    harness.join()

    harness.coordinator.on_resigned(partition(harness), 1)

    assert harness.coordinator.statistics() == idle
    assert harness.coordinator._offsets.group_ids() == []
    written = len(harness.storage.records)
    harness.advance(7200)
    assert len(harness.storage.records) == written, "it is another broker's to expire"


def test_a_group_that_comes_back_is_as_the_other_broker_left_it() -> None:
    harness = Harness()
    members = harness.stable("a", "b")
    harness.commit({("t", 0): 5}, members[0].id, members[0].generation)
    harness.coordinator.on_resigned(partition(harness), 1)

    harness.coordinator.on_elected(partition(harness), 2)
    assert harness.commit({("t", 0): 6}, members[0].id, members[0].generation) == LOADING
    load(harness)

    assert harness.state() == "Stable"
    assert harness.fetch() == {("t", 0): 5}
    assert harness.heartbeat(members[0].id, members[0].generation) == 0
    harness.advance(60)
    assert harness.member_ids() == [], "their sessions go on, and end"


def test_groups_of_other_partitions_do_not_notice() -> None:
    harness = Harness()
    harness.commit({("t", 0): 1}, group="here")
    harness.commit({("t", 0): 2}, group="there")
    assert partition(harness, "here") != partition(harness, "there")

    harness.coordinator.on_resigned(partition(harness, "there"), 1)

    assert harness.fetch(group="here") == {("t", 0): 1}
    assert harness.commit({("t", 0): 3}, group="here") == {("t", 0): 0}
    assert harness.commit({("t", 0): 3}, group="there") == NOT_COORDINATOR


def test_resignations_of_the_past_change_nothing() -> None:
    harness = Harness()
    members = harness.stable("a")
    harness.coordinator.on_elected(partition(harness), 4)
    harness.coordinator.on_resigned(partition(harness), 4)
    harness.coordinator.on_elected(partition(harness), 2)

    assert harness.heartbeat(members[0].id, members[0].generation) == 0


def test_pending_offsets_of_open_transactions_move_too() -> None:
    harness = Harness()
    commit_in_transaction(harness, GROUP, 7, producer_id=9)
    harness.coordinator.on_resigned(partition(harness), 1)
    assert not harness.coordinator._offsets.has_open_transactions(GROUP)

    harness.coordinator.on_elected(partition(harness), 2)
    load(harness)
    assert harness.coordinator._offsets.has_pending(GROUP, "t", 0)
    harness.coordinator.complete_transaction(partition(harness), 9, True)
    assert harness.fetch() == {("t", 0): 7}


def test_a_consumer_group_is_given_up_with_its_sessions() -> None:
    harness = ConsumerHarness()
    idle = harness.coordinator.statistics()
    harness.topic("t", 4)
    consumer = Consumer(harness, "member")
    consumer.join()

    harness.coordinator.on_resigned(partition(harness), 1)
    assert harness.coordinator.statistics() == idle
    with pytest.raises(errors.NotCoordinatorError):
        consumer.heartbeat()

    harness.coordinator.on_elected(partition(harness), 2)
    load(harness)
    consumer.heartbeat()
    assert harness.coordinator.statistics()["groups"] == 1


def test_a_marker_in_one_partition_leaves_what_is_pending_in_another_whole() -> None:
    """The deletion of a topic took all that a transaction had in one group; the marker of another group came first."""
    harness = Harness()
    assert partition(harness, "here") != partition(harness, "there")
    commit_in_transaction(harness, "here", 1, producer_id=9, topic="gone")
    commit_in_transaction(harness, "there", 2, producer_id=9)
    harness.coordinator.on_topic_deleted("gone", harness.at)

    harness.coordinator.complete_transaction(partition(harness, "there"), 9, True)

    assert harness.fetch([("gone", 0)], group="here", require_stable=True) == {("gone", 0): -1}
    assert harness.fetch(group="there") == {("t", 0): 2}
    harness.coordinator.complete_transaction(partition(harness, "here"), 9, True)
    assert not harness.coordinator._offsets.has_open_transactions("here")
