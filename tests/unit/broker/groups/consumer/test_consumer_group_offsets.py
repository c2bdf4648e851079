"""Committed offsets of consumer groups: epochs on commit and fetch, deletion, expiry (KIP-848, KIP-1251)."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import GROUP

STALE = errors.StaleMemberEpochError.code
UNKNOWN = errors.UnknownMemberIdError.code


def test_a_member_commits_in_its_epoch() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()

    assert a.commit(5) == {("t", 0): 0}
    assert harness.fetch([("t", 0)]) == {("t", 0): 5}


def test_who_is_no_member_cannot_commit_while_there_are_members() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()

    assert harness.commit({("t", 0): 5}) == UNKNOWN
    assert harness.commit({("t", 0): 5}, "b", 1) == UNKNOWN

    a.leave()
    assert harness.commit({("t", 0): 5}) == {("t", 0): 0}


def test_a_commit_from_a_later_epoch_is_stale() -> None:
    a = Consumer(ConsumerHarness(), "a")
    a.join()

    assert a.commit(5, epoch=3) == STALE


def test_a_commit_from_an_earlier_epoch_holds_for_what_the_member_had_then() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    harness.topic("t", 5)
    a.heartbeat()
    assert a.epoch == 3

    assert a.commit(5, partition=0, epoch=2) == {("t", 0): 0}
    assert a.commit(5, partition=4, epoch=2) == STALE, "it has that one since epoch 3"
    assert a.commit(5, partition=4) == {("t", 4): 0}


def test_a_commit_for_what_is_being_given_up_is_taken() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()
    b.join()
    a.heartbeat()
    (lost, *_) = sorted({0, 1, 2, 3} - a.owned["t"])

    assert a.commit(5, partition=lost) == {("t", lost): 0}

    harness.settle(a, b)
    assert a.commit(6, partition=lost, epoch=2) == STALE


def test_members_commit_with_the_version_that_has_epochs() -> None:
    a = Consumer(ConsumerHarness(), "a")
    a.join()

    assert a.commit(5, version=8) == errors.UnsupportedVersionError.code


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [(None, -1, 0), ("a", 2, 0), ("a", 3, STALE), ("a", 1, STALE), ("b", 2, UNKNOWN), (None, 2, UNKNOWN)],
)
def test_a_member_fetches_in_its_epoch(member_id: str | None, epoch: int, error: int) -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    a.commit(5)
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=topics)

    response = harness.coordinator.fetch_offsets(request, False)

    assert response.error_code == error
    assert [topic.partitions[0].committed_offset for topic in response.topics] == ([] if error else [5])


def delete(harness: ConsumerHarness, topic: str) -> int:
    partitions = [OffsetDeleteRequestPartition(0)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(topic, partitions)])
    response = harness.coordinator.delete_offsets(harness.context(0), request)
    return response.topics[0].partitions[0].error_code


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    harness = ConsumerHarness()
    harness.topic("u", 1)
    harness.commit({("t", 0): 5, ("u", 0): 6})
    a, b = Consumer(harness, "a"), Consumer(harness, "b", regex="u.*")
    a.join()
    b.join()
    subscribed = errors.GroupSubscribedToTopicError.code

    assert (delete(harness, "t"), delete(harness, "u")) == (subscribed, subscribed)
    b.leave()
    assert (delete(harness, "t"), delete(harness, "u")) == (subscribed, 0)
    assert harness.fetch() == {("t", 0): 5}


def test_offsets_that_nobody_reads_expire_and_the_empty_group_with_the_last() -> None:
    harness = ConsumerHarness(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000)
    harness.topic("u", 1)
    harness.commit({("t", 0): 5, ("u", 0): 6})
    a = Consumer(harness, "a")
    a.join()

    for _ in range(9):
        harness.advance(10.0)
        a.heartbeat()
    assert harness.fetch() == {("t", 0): 5}

    a.leave()
    harness.advance(80.0)
    assert harness.coordinator.list_groups([], []) == []
    harness.restart()
    assert harness.coordinator.list_groups([], []) == []
    assert harness.fetch() == {}


def test_offsets_of_a_deleted_topic_go_with_it() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    a.commit(5)

    harness.delete_topic("t")

    assert harness.fetch() == {}
