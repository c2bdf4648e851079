"""What a member of a consumer group may not do, and when it is put out (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness

ALL = {"t": {0, 1, 2, 3}}


def test_a_member_that_nobody_knows_is_told_so() -> None:
    harness = ConsumerHarness()
    Consumer(harness, "a").join()

    with pytest.raises(errors.UnknownMemberIdError, match="b is not a member of group g"):
        harness.send(member_id="b", member_epoch=1)
    with pytest.raises(errors.UnknownMemberIdError):
        harness.send(member_id="b", member_epoch=-1)


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_a_group_that_does_not_exist_is_not_made_by_going_on_or_leaving(epoch: int) -> None:
    with pytest.raises(errors.GroupIdNotFoundError, match="g"):
        ConsumerHarness().send(member_id="a", member_epoch=epoch, instance_id="i")


def test_a_member_from_a_later_epoch_is_fenced() -> None:
    a = Consumer(ConsumerHarness(), "a")
    a.join()

    a.epoch = 3
    assert a.error() is errors.FencedMemberEpochError


def test_the_answer_with_a_new_epoch_may_get_lost() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    harness.topic("t", 5)

    a.heartbeat()
    a.epoch, a.owned = 2, dict(ALL)
    a.heartbeat(full=True)

    assert (a.epoch, a.owned) == (3, {"t": {0, 1, 2, 3, 4}})


def test_from_the_epoch_before_only_what_is_still_assigned_may_be_owned() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    harness.topic("t", 5)
    a.heartbeat()

    a.epoch, a.owned = 2, {"t": {0, 1, 2, 3, 4, 9}}
    assert a.error(full=True) is errors.FencedMemberEpochError
    a.epoch = 2
    assert a.error() is errors.FencedMemberEpochError, "and it has to say what it owns"


def test_two_epochs_back_is_too_far() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    for count in (5, 6):
        harness.topic("t", count)
        a.heartbeat()

    a.epoch = 2
    assert a.error(full=True) is errors.FencedMemberEpochError


def test_a_fenced_member_joins_again_under_its_id() -> None:
    a = Consumer(ConsumerHarness(), "a")
    a.join()

    a.join()

    assert (a.epoch, a.owned) == (2, ALL)


def test_a_member_that_is_silent_for_its_session_is_put_out() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()
    b.join()
    harness.settle(a, b)

    harness.advance(44.0)
    a.heartbeat()
    harness.advance(1.5)
    harness.settle(a)

    assert a.owned == ALL
    assert b.error() is errors.UnknownMemberIdError


def test_the_session_timeout_is_the_brokers() -> None:
    harness = ConsumerHarness(group_consumer_session_timeout_ms=50_000)
    a = Consumer(harness, "a")
    a.join()

    harness.advance(49.0)
    assert harness.group_state() == "Stable"
    harness.advance(1.5)
    assert harness.group_state() == "Empty"


def test_a_member_that_does_not_give_up_in_time_is_put_out() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a", rebalance_timeout_ms=10_000), Consumer(harness, "b")
    a.join()
    b.join()
    a.heartbeat()

    for _ in range(5):
        harness.advance(2.2)
        if "a" in harness.group().members:
            harness.send(member_id="a", member_epoch=2)
        b.heartbeat()
    harness.settle(b)

    assert b.owned == ALL
    assert a.error() is errors.UnknownMemberIdError


def test_a_member_that_gives_up_in_time_stays() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a", rebalance_timeout_ms=10_000), Consumer(harness, "b")
    a.join()
    b.join()

    for _ in range(6):
        harness.settle(a, b)
        harness.advance(5.0)

    assert len(a.owned["t"]) == len(b.owned["t"]) == 2


def test_a_member_is_put_out_later_when_it_cannot_be_written() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    harness.storage.failure = errors.KafkaStorageError("full")

    harness.advance(45.2)
    assert harness.group_state() == "Stable"
    assert "could not be put out" in harness.warnings[0]

    harness.storage.failure = None
    harness.advance(1.0)
    assert harness.group_state() == "Empty"


def test_a_heartbeat_that_cannot_be_written_changes_nothing() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()
    before = harness.described()
    harness.storage.failure = errors.KafkaStorageError("full")

    assert b.error(full=True) is errors.KafkaStorageError
    assert harness.described() == before
    assert a.error() is None, "nothing to write"

    harness.storage.failure = None
    b.join()
    harness.settle(a, b)
    assert len(b.owned["t"]) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_epoch": -3}, "MemberEpoch -3"),
        ({"member_id": ""}, "MemberId"),
        ({"member_id": " "}, "MemberId"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": ""}, "RackId"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"topic_partitions": None}, "TopicPartitions"),
        ({"topic_partitions": [TopicPartitions(bytes(16), [0])]}, "TopicPartitions"),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames or SubscribedTopicRegex"),
        ({"member_epoch": -2}, "InstanceId can't be null"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    harness = ConsumerHarness()
    request = {
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }

    with pytest.raises(errors.InvalidRequestError, match=message):
        harness.send(**{**request, **fields})
    assert harness.coordinator.list_groups([], []) == []


def test_version_0_may_leave_the_member_id_to_the_broker() -> None:
    harness = ConsumerHarness()

    response = harness.send(
        version=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[], member_epoch=0
    )

    assert len(response.member_id or "") == 22
    assert list(harness.group().members) == [response.member_id]


def test_an_assignor_that_is_not_offered_is_refused() -> None:
    harness = ConsumerHarness(group_consumer_assignors="range")

    assert Consumer(harness, "a", assignor="uniform").error(full=True) is errors.UnsupportedAssignorError
    assert Consumer(harness, "a", assignor="range").error(full=True) is None


def test_the_protocol_can_be_switched_off() -> None:
    harness = ConsumerHarness(group_coordinator_rebalance_protocols="classic")

    assert Consumer(harness, "a").error(full=True) is errors.UnsupportedVersionError
    with pytest.raises(errors.UnsupportedVersionError):
        harness.described()


# --- static members (KIP-345)


def test_a_static_member_comes_back_to_what_it_had() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a", instance="one"), Consumer(harness, "b", instance="two")
    a.join()
    b.join()
    harness.settle(a, b)
    owned = a.owned

    response = a.leave(-2)
    b.heartbeat()
    again = Consumer(harness, "a2", instance="one")
    again.join()

    assert response.member_epoch == -2
    assert (again.epoch, again.owned) == (b.epoch, owned)
    assert harness.described().group_epoch == again.epoch, "nobody had to move"
    assert sorted(harness.group().members) == ["a2", "b"]


def test_a_static_member_may_come_back_under_its_old_id() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", instance="one")
    a.join()

    a.leave(-2)
    a.join()

    assert (a.epoch, a.owned) == (2, ALL)
    harness.advance(44.0)
    assert a.error() is None


def test_a_static_member_that_does_not_come_back_is_put_out() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", instance="one")
    a.join()
    a.leave(-2)

    harness.advance(45.1)

    assert harness.group_state() == "Empty"


def test_a_newcomer_with_the_instance_of_one_who_lives_is_turned_away() -> None:
    harness = ConsumerHarness()
    a, other = Consumer(harness, "a", instance="one"), Consumer(harness, "b", instance="one")
    a.join()

    assert other.error(full=True) is errors.UnreleasedInstanceIdError
    assert a.error() is None


def test_who_was_replaced_is_fenced() -> None:
    harness = ConsumerHarness()
    a, other = Consumer(harness, "a", instance="one"), Consumer(harness, "b", instance="one")
    a.join()
    a.leave(-2)
    other.join()

    assert a.error() is errors.FencedInstanceIdError
    with pytest.raises(errors.FencedInstanceIdError):
        a.leave()
    with pytest.raises(errors.UnknownMemberIdError):
        harness.send(member_id="a", member_epoch=1, instance_id="two")


def test_a_static_member_leaves_for_good() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", instance="one")
    a.join()

    a.leave()

    assert harness.group_state() == "Empty"
    other = Consumer(harness, "b", instance="one")
    other.join()
    assert other.owned == ALL


def test_a_static_member_that_left_while_giving_up_keeps_only_the_rest() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a", instance="one"), Consumer(harness, "b")
    a.join()
    b.join()
    a.heartbeat()

    a.leave(-2)
    b.heartbeat()
    assert len(b.owned["t"]) == 2, "it gave them up by leaving"
    again = Consumer(harness, "a2", instance="one")
    again.join()
    assert again.owned["t"].isdisjoint(b.owned["t"])
    harness.settle(again, b)
    assert again.owned["t"] | b.owned["t"] == ALL["t"]
