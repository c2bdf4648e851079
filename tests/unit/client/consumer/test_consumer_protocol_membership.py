"""Membership by the consumer protocol (KIP-848) on a scripted cluster: heartbeats, targets, epochs, leaving."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from itertools import pairwise

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
from barnabas.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    KafkaError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster, topic_id
from tests.unit.client.consumer.recorder import Recorder

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def member(
    cluster: ScriptedCluster,
    topics: object = "t",
    listener: ConsumerRebalanceListener | None = None,
    **settings: object,
) -> Consumer:
    consumer = cluster.consumer(
        **{"group_id": "g", "group_protocol": "consumer", "enable_auto_commit": False, **settings}
    )
    consumer.subscribe(topics, listener)  # type: ignore[arg-type]  # of several kinds
    return consumer


def owned(request: object) -> dict[bytes, list[int]] | None:
    partitions = request.topic_partitions  # type: ignore[attr-defined]  # a heartbeat
    return None if partitions is None else {entry.topic_id: entry.partitions for entry in partitions}


def test_a_member_joins_by_a_heartbeat_that_says_everything(cluster: ScriptedCluster) -> None:
    consumer = member(
        cluster, client_rack="here", group_remote_assignor="range", max_poll_interval_ms=70_000, group_instance_id="red"
    )
    assert cluster.requests == []

    consumer.poll(1)

    first = cluster.asked(HEARTBEAT)[0]
    assert (first.group_id, first.member_epoch, first.instance_id, first.rack_id) == ("g", 0, "red", "here")
    assert (first.rebalance_timeout_ms, first.server_assignor) == (70_000, "range")
    assert (first.subscribed_topic_names, owned(first)) == (["t"], {})
    assert re.fullmatch(r"[\w-]{22}", first.member_id)
    assert cluster.asked(ApiKey.JOIN_GROUP) == []
    assert consumer.assignment() == {T0, T1}
    assert consumer.group_metadata() == ("g", 1, first.member_id, "red")


def test_the_assignment_is_acknowledged_at_once_and_later_heartbeats_say_only_what_changed(
    cluster: ScriptedCluster,
) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    consumer.poll(11)

    _, acknowledged, *later = cluster.asked(HEARTBEAT)
    assert owned(acknowledged) == {topic_id("t"): [0, 1]}
    assert cluster.times(HEARTBEAT)[1] - cluster.times(HEARTBEAT)[0] < 0.1
    assert (acknowledged.subscribed_topic_names, acknowledged.rebalance_timeout_ms) == (None, -1)
    assert len(later) == 2
    for request in later:
        assert (owned(request), request.subscribed_topic_names, request.server_assignor) == (None, None, None)
        assert (request.member_epoch, request.member_id) == (1, acknowledged.member_id)


def test_heartbeats_follow_the_interval_that_the_coordinator_tells_also_while_the_application_is_busy(
    cluster: ScriptedCluster,
) -> None:
    member(cluster).poll(1)
    start = cluster.now

    cluster.sleep(30)

    times = [when for when in cluster.times(HEARTBEAT) if when > start]
    assert len(times) in (5, 6)
    assert all(5.0 <= later - sooner <= 5.1 for sooner, later in pairwise(times))


def test_what_has_to_go_is_revoked_then_what_is_new_assigned_then_the_coordinator_told(
    cluster: ScriptedCluster,
) -> None:
    cluster.topics["u"] = 1
    cluster.wanted = {T0, T1}
    listener = Recorder()
    consumer = member(cluster, ["t", "u"], listener)
    consumer.poll(1)
    consumer.seek(T1, 0)
    cluster.wanted = {T1, U0}

    consumer.poll(6)

    assert listener.events == [("assigned", [T0, T1]), ("revoked", [T0]), ("assigned", [U0])]
    assert consumer.assignment() == {T1, U0}
    assert consumer.position(T1) == 0
    assert owned(cluster.asked(HEARTBEAT)[-1]) == {topic_id("t"): [1], topic_id("u"): [0]}
    assert consumer.group_metadata().generation_id == 2


def test_nothing_is_given_up_and_nothing_acknowledged_while_the_application_is_busy(cluster: ScriptedCluster) -> None:
    listener = Recorder()
    consumer = member(cluster, "t", listener)
    consumer.poll(1)
    cluster.wanted = {T1}

    cluster.sleep(20)

    assert listener.events == [("assigned", [T0, T1])]
    assert [owned(request) for request in cluster.asked(HEARTBEAT)[2:]] == [None] * 4
    consumer.poll(0.1)
    assert listener.events[1:] == [("revoked", [T0]), ("assigned", [])]
    assert owned(cluster.asked(HEARTBEAT)[-1]) == {topic_id("t"): [1]}


def test_an_assignment_of_nothing_is_an_assignment(cluster: ScriptedCluster) -> None:
    cluster.wanted = set()
    listener = Recorder()
    consumer = member(cluster, "t", listener)

    consumer.poll(11)

    assert listener.events == [("assigned", [])]
    assert [owned(request) for request in cluster.asked(HEARTBEAT)] == [{}, None, None, None]


def test_what_was_handed_out_is_committed_before_it_is_revoked(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    order: list[str] = []

    class Watching(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            order.append(f"revoked after {cluster.committed[T0][0]}")

    consumer = member(cluster, "t", Watching(), enable_auto_commit=True, auto_offset_reset="earliest")
    while not consumer.poll(1):
        pass
    cluster.wanted = {T1}

    consumer.poll(6)

    assert order == ["revoked after 2"]
    assert cluster.asked(ApiKey.OFFSET_COMMIT)[-1].generation_id_or_member_epoch == 2


def test_a_target_waits_until_the_names_of_its_topics_are_known(cluster: ScriptedCluster) -> None:
    listener = Recorder()
    cluster.wanted = {T0}
    consumer = member(cluster, ["t", "late"], listener)
    consumer.poll(1)
    cluster.wanted = {T0, TopicPartition("late", 0)}
    consumer.poll(6)
    assert consumer.assignment() == {T0}

    cluster.topics["late"] = 1
    consumer.poll(6)

    assert consumer.assignment() == {T0, TopicPartition("late", 0)}
    assert listener.events == [("assigned", [T0]), ("assigned", [TopicPartition("late", 0)])]


def test_a_changed_subscription_is_told_at_once(cluster: ScriptedCluster) -> None:
    cluster.topics["u"] = 1
    consumer = member(cluster)
    consumer.poll(1)
    consumer.subscribe(["t", "u"])

    consumer.poll(0.1)

    assert [r.subscribed_topic_names for r in cluster.asked(HEARTBEAT)] == [["t"], None, ["t", "u"], None]


def test_an_expression_is_left_to_the_brokers_and_topics_are_asked_for_by_id(cluster: ScriptedCluster) -> None:
    cluster.topics = {"t": 2, "other": 1}
    cluster.wanted = {T0, T1}
    consumer = member(cluster, SubscriptionPattern("t.*"))

    consumer.poll(2)

    first = cluster.asked(HEARTBEAT)[0]
    assert (first.subscribed_topic_regex, first.subscribed_topic_names) == ("t.*", [])
    assert consumer.assignment() == {T0, T1}
    assert consumer.subscription() == {"t"}
    asked = [request.topics for request in cluster.asked(ApiKey.METADATA)]
    assert {topic.topic_id for topics in asked for topic in topics or () if topic.name is None} == {topic_id("t")}
    assert None not in asked[1:]


def test_an_expression_given_up_is_taken_back(cluster: ScriptedCluster) -> None:
    cluster.wanted = {T0}
    consumer = member(cluster, SubscriptionPattern("t.*"))
    consumer.poll(2)
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    consumer.poll(2)

    joins = [request for request in cluster.asked(HEARTBEAT) if request.member_epoch == 0]
    assert [(r.subscribed_topic_names, r.subscribed_topic_regex) for r in joins] == [([], "t.*"), (["t"], None)]


def test_a_pattern_of_python_is_matched_by_the_consumer(cluster: ScriptedCluster) -> None:
    cluster.topics = {"t": 1, "u": 1, "no": 1}
    consumer = member(cluster, re.compile("t|u"))
    consumer.poll(1)

    assert cluster.asked(HEARTBEAT)[0].subscribed_topic_names == ["t", "u"]


def test_an_expression_needs_the_consumer_protocol(cluster: ScriptedCluster) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=consumer"):
        member(cluster, SubscriptionPattern("t"), group_protocol="classic")


@pytest.mark.parametrize("error", [UnknownMemberIdError, FencedMemberEpochError, GroupIdNotFoundError])
def test_a_member_that_is_put_out_loses_its_partitions_and_joins_again(
    cluster: ScriptedCluster, error: type[KafkaError]
) -> None:
    listener = Recorder()
    consumer = member(cluster, "t", listener)
    consumer.poll(1)
    cluster.errors[HEARTBEAT] = deque([error.code])

    cluster.sleep(6)
    assert listener.events == [("assigned", [T0, T1])]
    consumer.poll(1)

    assert listener.events[1:] == [("lost", [T0, T1]), ("assigned", [T0, T1])]
    joins = [request for request in cluster.asked(HEARTBEAT) if request.member_epoch == 0]
    assert len(joins) == 2
    assert joins[0].member_id == joins[1].member_id
    assert owned(joins[1]) == {}


@pytest.mark.parametrize("code", [14, 15, 16])
def test_failures_that_pass_are_tried_again_with_everything_said_anew(cluster: ScriptedCluster, code: int) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[HEARTBEAT] = deque([code, code])

    consumer.poll(10)

    assert cluster.asked(HEARTBEAT)[3].subscribed_topic_names == ["t"]
    assert owned(cluster.asked(HEARTBEAT)[3]) == {topic_id("t"): [0, 1]}
    assert consumer.assignment() == {T0, T1}
    assert len(cluster.asked(HEARTBEAT)) <= 7
    if code in (15, 16):
        assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 3


@pytest.mark.parametrize(
    "error",
    [
        GroupAuthorizationError,
        GroupMaxSizeReachedError,
        FencedInstanceIdError,
        UnreleasedInstanceIdError,
        UnsupportedAssignorError,
        InvalidRegularExpressionError,
        GroupIdNotFoundError,
    ],
)
def test_failures_that_stay_come_out_of_poll_and_the_next_poll_tries_again(
    cluster: ScriptedCluster, error: type[KafkaError]
) -> None:
    cluster.errors[HEARTBEAT] = deque([error.code])
    consumer = member(cluster, group_instance_id="red")

    with pytest.raises(error):
        consumer.poll(5)

    consumer.poll(5)
    assert consumer.assignment() == {T0, T1}


def test_a_member_that_does_not_poll_in_time_leaves_and_loses_its_partitions(cluster: ScriptedCluster) -> None:
    listener = Recorder()
    consumer = member(cluster, "t", listener, max_poll_interval_ms=10_000)
    consumer.poll(1)

    cluster.sleep(9)
    assert -1 not in [request.member_epoch for request in cluster.asked(HEARTBEAT)]
    cluster.sleep(2)
    assert cluster.asked(HEARTBEAT)[-1].member_epoch == -1
    count = len(cluster.asked(HEARTBEAT))
    cluster.sleep(20)
    assert len(cluster.asked(HEARTBEAT)) == count

    consumer.poll(1)
    assert listener.events[1:] == [("lost", [T0, T1]), ("assigned", [T0, T1])]


@pytest.mark.parametrize(
    ("instance", "operation", "epochs"),
    [
        (None, "default", [-1]),
        (None, "leave_group", [-1]),
        (None, "remain_in_group", []),
        ("red", "default", [-2]),
        ("red", "leave_group", [-1]),
        ("red", "remain_in_group", [-2]),
    ],
)
def test_close_revokes_and_leaves_in_the_way_that_is_asked_for(
    cluster: ScriptedCluster, instance: str | None, operation: str, epochs: list[int]
) -> None:
    listener = Recorder()
    consumer = member(cluster, "t", listener, group_instance_id=instance)
    consumer.poll(1)

    consumer.close(group_membership_operation=operation)

    assert listener.events[-1] == ("revoked", [T0, T1])
    assert [r.member_epoch for r in cluster.asked(HEARTBEAT) if r.member_epoch < 0] == epochs


def test_a_commit_goes_out_with_the_epoch_of_its_moment(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.wanted = {T0}
    cluster.sleep(6)

    consumer.commit({T0: 5})

    assert [r.generation_id_or_member_epoch for r in cluster.asked(ApiKey.OFFSET_COMMIT)] == [2]


def test_a_stale_epoch_is_cured_by_the_next_heartbeat(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([StaleMemberEpochError.code])

    consumer.commit({T0: 5})

    assert cluster.committed[T0][0] == 5
    assert len(cluster.asked(ApiKey.OFFSET_COMMIT)) == 2


def test_an_asynchronous_commit_with_a_stale_epoch_fails_for_a_later_one_may_be_under_way(
    cluster: ScriptedCluster,
) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([StaleMemberEpochError.code])
    errors: list[KafkaError | None] = []

    consumer.commit_async({T0: 5}, lambda _, error: errors.append(error))
    consumer.poll(1)

    assert [type(error) for error in errors] == [StaleMemberEpochError]
    assert len(cluster.asked(ApiKey.OFFSET_COMMIT)) == 1


def test_who_was_put_out_cannot_commit(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[HEARTBEAT] = deque([UnknownMemberIdError.code])
    cluster.sleep(6)

    with pytest.raises(CommitFailedError):
        consumer.commit({T0: 5})

    assert cluster.committed == {}


def test_a_commit_that_the_coordinator_refuses_has_the_member_ask_whether_it_is_still_in(
    cluster: ScriptedCluster,
) -> None:
    listener = Recorder()
    consumer = member(cluster, "t", listener)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([UnknownMemberIdError.code])
    cluster.errors[HEARTBEAT] = deque([UnknownMemberIdError.code])

    with pytest.raises(CommitFailedError):
        consumer.commit({T0: 5})
    consumer.poll(1)

    assert listener.events[1:] == [("lost", [T0, T1]), ("assigned", [T0, T1])]


def test_a_failing_listener_comes_out_of_poll_and_the_assignment_stands(cluster: ScriptedCluster) -> None:
    class Failing(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise ValueError("no")

    consumer = member(cluster, "t", Failing())

    with pytest.raises(KafkaError, match="no"):
        consumer.poll(1)
    consumer.poll(1)

    assert consumer.assignment() == {T0, T1}
    assert owned(cluster.asked(HEARTBEAT)[1]) == {topic_id("t"): [0, 1]}


def test_a_cluster_without_the_protocol_is_named(cluster: ScriptedCluster) -> None:
    cluster.lacks.add(HEARTBEAT)

    with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=classic"):
        member(cluster).poll(5)


def test_enforcing_a_rebalance_does_nothing_here(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    before = len(cluster.asked(HEARTBEAT))
    consumer.enforce_rebalance()
    consumer.poll(1)

    assert len(cluster.asked(HEARTBEAT)) == before


def test_a_static_member_that_was_replaced_stays_out_until_it_is_unsubscribed(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, group_instance_id="red")
    consumer.poll(1)
    consumer.poll(1)
    cluster.errors[ApiKey.CONSUMER_GROUP_HEARTBEAT] = deque([FencedInstanceIdError.code])
    cluster.sleep(6)
    asked = len(cluster.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT))

    for _ in range(3):
        with pytest.raises(FencedInstanceIdError, match="red"):
            consumer.poll(5)
    assert len(cluster.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT)) == asked

    consumer.unsubscribe()
    consumer.subscribe(["t"])
    consumer.poll(5)
    assert consumer.assignment() != set()
