"""Consumer groups (KIP-848) from the first member to the last: epochs, assignments, giving up before getting."""

from __future__ import annotations

import pytest

from barnabas import errors
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness


def all_of(topic: str = "t", count: int = 4) -> dict[str, set[int]]:
    return {topic: set(range(count))}


def test_the_first_member_gets_everything_at_once() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")

    response = a.join()

    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 2)
    assert response.heartbeat_interval_ms == 5000
    assert a.owned == all_of()
    assert harness.group_state() == "Stable"


def test_a_heartbeat_without_news_is_answered_without_an_assignment_and_writes_nothing() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    written = len(harness.storage.records)

    response = a.heartbeat()

    assert response.assignment is None
    assert len(harness.storage.records) == written


def test_a_full_request_is_answered_with_the_assignment() -> None:
    a = Consumer(ConsumerHarness(), "a")
    a.join()

    assert a.heartbeat(full=True).assignment is not None


def test_what_moves_is_given_up_before_another_member_gets_it() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()

    b.join()
    assert (b.epoch, b.owned) == (3, {})
    assert harness.group_state() == "Reconciling"

    a.heartbeat()
    assert (a.epoch, len(a.owned["t"])) == (2, 2), "told to give up two partitions, in its old epoch"
    b.heartbeat()
    assert b.owned == {}, "not acknowledged yet"

    a.heartbeat()
    assert a.epoch == 3
    b.heartbeat()
    assert a.owned["t"] | b.owned["t"] == set(range(4))
    assert a.owned["t"].isdisjoint(b.owned["t"])
    assert harness.group_state() == "Stable"


def test_what_a_member_leaves_goes_to_the_others() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join(), b.join()
    harness.settle(a, b)

    response = b.leave()
    harness.settle(a)

    assert (response.error_code, response.member_id, response.member_epoch) == (0, "b", -1)
    assert a.owned == all_of()
    assert [member.member_id for member in harness.described().members] == ["a"]


def test_the_last_member_leaves_an_empty_group() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()

    a.leave()

    group = harness.described()
    assert (group.group_state, group.group_epoch, group.members) == ("Empty", 3, [])


@pytest.mark.shows("S3.16", breaks="barnabas.broker.groups.consumer.target_assignment:update_target")
def test_three_members_share_evenly() -> None:
    harness = ConsumerHarness()
    harness.topic("t", 10)
    members = [Consumer(harness, name) for name in "abc"]
    for member in members:
        member.join()

    harness.settle(*members)

    assert sorted(len(member.owned["t"]) for member in members) == [3, 3, 4]
    assert set().union(*(member.owned["t"] for member in members)) == set(range(10))


def test_new_partitions_and_new_topics_are_assigned_without_anybody_asking() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", ["t", "later"])
    a.join()

    harness.topic("t", 6)
    harness.settle(a)
    assert a.owned == all_of(count=6)

    harness.topic("later", 2)
    harness.settle(a)
    assert a.owned == {**all_of(count=6), **all_of("later", 2)}


def test_topics_that_nobody_reads_change_nothing() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()

    harness.topic("other", 6)
    a.heartbeat()

    assert (a.epoch, harness.described().group_epoch) == (2, 2)


def test_a_deleted_topic_is_taken_away() -> None:
    harness = ConsumerHarness()
    harness.topic("u", 2)
    a = Consumer(harness, "a", ["t", "u"])
    a.join()

    harness.delete_topic("u")
    harness.settle(a)

    assert a.owned == all_of()
    assert harness.described().group_epoch == 3


def test_a_topic_made_anew_under_its_name_is_another_topic() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    old = harness.topic_id("t")

    harness.delete_topic("t")
    harness.topic("t", 2)
    harness.settle(a)

    assert harness.topic_id("t") != old
    assert a.owned == all_of(count=2)


def test_another_subscription_takes_effect_at_once() -> None:
    harness = ConsumerHarness()
    harness.topic("u", 2)
    a = Consumer(harness, "a")
    a.join()

    a.subscribe(["u"])
    harness.settle(a)

    assert a.owned == all_of("u", 2)


def test_members_subscribe_to_different_topics() -> None:
    harness = ConsumerHarness()
    harness.topic("u", 2)
    a, b = Consumer(harness, "a", ["t", "u"]), Consumer(harness, "b", ["u"])
    a.join(), b.join()

    harness.settle(a, b)

    assert a.owned == all_of()
    assert b.owned == all_of("u", 2)


def test_a_member_that_subscribes_to_nothing_is_in_the_group() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", [])

    a.join()

    assert (a.epoch, a.owned, harness.group_state()) == (1, {}, "Stable")


def test_the_next_assignment_waits_for_its_interval() -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1000)
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()

    b.join()
    assert (b.epoch, harness.group_state()) == (2, "Assigning")
    a.heartbeat()
    assert a.owned == all_of()

    harness.advance(1.0)
    harness.settle(a, b)
    assert (a.epoch, b.epoch) == (3, 3)
    assert len(b.owned["t"]) == 2


def test_a_clock_that_was_set_back_does_not_stop_assignments() -> None:
    harness = ConsumerHarness(group_consumer_assignment_interval_ms=1000)
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()

    harness.now -= 500.0
    b.join()

    assert harness.described().assignment_epoch == 3


def test_most_members_decide_on_the_assignor() -> None:
    harness = ConsumerHarness()
    members = [
        Consumer(harness, name, assignor=assignor)
        for name, assignor in zip("abc", ["range", None, "range"], strict=True)
    ]
    for member in members:
        member.join()

    harness.settle(*members)

    assert harness.described().assignor_name == "range"
    assert [sorted(member.owned["t"]) for member in members] == [[0, 1], [2], [3]]


def test_members_are_turned_away_from_a_full_group() -> None:
    harness = ConsumerHarness(group_consumer_max_size=1)
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()

    assert b.error(full=True) is errors.GroupMaxSizeReachedError
    assert a.error() is None
