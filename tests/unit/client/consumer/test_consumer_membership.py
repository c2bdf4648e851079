"""Membership of a group on a scripted cluster: join, sync, heartbeat, rebalance, leave."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection
from itertools import pairwise

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.assignors.consumer_partition_assignor import Assignment, ConsumerPartitionAssignor
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.coordinator.consumer_protocol import (
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
)
from barnabas.errors import (
    ConcurrentModificationError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupMaxSizeReachedError,
    IllegalStateError,
    KafkaError,
)
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster
from tests.unit.client.consumer.recorder import Recorder

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(cluster: ScriptedCluster, listener: ConsumerRebalanceListener | None = None, **settings: object) -> Consumer:
    consumer = cluster.consumer(**{"group_id": "g", "enable_auto_commit": False, **settings})
    consumer.subscribe(["t"], listener)
    return consumer


def as_follower(cluster: ScriptedCluster, *assignments: Collection[TopicPartition]) -> None:
    """Another member leads and hands these out, one after the other, the last one for ever."""
    waiting = deque(assignments)
    cluster.assign = lambda given: serialize_assignment(
        Assignment(list(waiting.popleft() if len(waiting) > 1 else waiting[0]))
    )


@pytest.mark.shows(
    "S2.7", breaks="barnabas.client.consumer.coordinator.classic_coordinator:ClassicCoordinator._join_group"
)
@pytest.mark.shows("S1.46", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling._poll")
def test_subscribe_sends_nothing_and_poll_joins_then_fetches(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    cluster.sleep(5)
    assert cluster.requests == []

    consumer.poll(1)

    kinds = [kind for kind, _, _ in cluster.requests]
    assert kinds.index(ApiKey.JOIN_GROUP) < kinds.index(ApiKey.SYNC_GROUP) < kinds.index(ApiKey.FETCH)


@pytest.mark.shows("S1.48", breaks="barnabas.client.consumer.membership.coordinator_lookup:CoordinatorLookup._look_up")
def test_asks_which_broker_is_the_coordinator_before_it_joins(cluster: ScriptedCluster) -> None:
    member(cluster).poll(1)

    kinds = [kind for kind, _, _ in cluster.requests]
    assert kinds.index(ApiKey.FIND_COORDINATOR) < kinds.index(ApiKey.JOIN_GROUP)
    assert cluster.asked(ApiKey.FIND_COORDINATOR)[0].coordinator_keys == ["g"]


@pytest.mark.shows("S1.8", breaks="barnabas.client.consumer.membership.group_requests:join_group")
def test_a_new_member_joins_without_an_id_and_again_with_the_one_it_is_given(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)

    assert [request.member_id for request in cluster.asked(ApiKey.JOIN_GROUP)] == ["", "member-1"]
    assert consumer.group_metadata()[:3] == ("g", 1, "member-1")


def test_a_static_member_joins_at_once_under_its_own_name(cluster: ScriptedCluster) -> None:
    member(cluster, group_instance_id="red").poll(1)

    assert [(r.member_id, r.group_instance_id) for r in cluster.asked(ApiKey.JOIN_GROUP)] == [("", "red")]


def test_a_join_says_all_that_the_coordinator_needs(cluster: ScriptedCluster) -> None:
    member(cluster, session_timeout_ms=20_000, max_poll_interval_ms=70_000, client_rack="here").poll(1)

    request = cluster.asked(ApiKey.JOIN_GROUP)[-1]
    assert (request.group_id, request.protocol_type) == ("g", "consumer")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (20_000, 70_000)
    assert [protocol.name for protocol in request.protocols] == ["range", "cooperative-sticky"]
    subscription = deserialize_subscription(request.protocols[0].metadata)
    assert (subscription.topics, subscription.owned_partitions, subscription.rack_id) == (("t",), (), "here")


@pytest.mark.shows("S2.18", breaks="barnabas.client.consumer.membership.classic_membership:ClassicMembership.sync")
def test_the_leader_deals_out_and_sends_the_assignment_by_sync(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)

    request = cluster.asked(ApiKey.SYNC_GROUP)[0]
    assert [
        (entry.member_id, deserialize_assignment(entry.assignment).partitions) for entry in request.assignments
    ] == [("member-1", (T0, T1))]
    assert (request.generation_id, request.member_id) == (1, "member-1")
    assert consumer.assignment() == {T0, T1}


@pytest.mark.shows(
    "S2.19", breaks="barnabas.client.consumer.membership.classic_membership:ClassicMembership._on_synced"
)
def test_a_follower_syncs_empty_handed_and_receives_its_part(cluster: ScriptedCluster) -> None:
    as_follower(cluster, [T1])
    consumer = member(cluster)
    consumer.poll(1)

    assert cluster.asked(ApiKey.SYNC_GROUP)[0].assignments == []
    assert consumer.assignment() == {T1}


@pytest.mark.shows("S2.28", breaks="barnabas.client.consumer.membership.heartbeat:Heartbeat.should_heartbeat")
def test_heartbeats_go_out_at_their_interval_also_while_the_application_is_busy(cluster: ScriptedCluster) -> None:
    member(cluster, heartbeat_interval_ms=2_000).poll(1)
    start = cluster.now

    cluster.sleep(20)

    gaps = [later - sooner for sooner, later in pairwise(cluster.times(ApiKey.HEARTBEAT))]
    assert len([when for when in cluster.times(ApiKey.HEARTBEAT) if when > start]) in (9, 10)
    assert all(2.0 <= gap <= 2.1 for gap in gaps)


@pytest.mark.shows("S1.11", breaks="barnabas.client.consumer.membership.group_requests:heartbeat")
def test_every_heartbeat_carries_the_member_id(cluster: ScriptedCluster) -> None:
    member(cluster).poll(1)
    cluster.sleep(10)

    assert {(r.member_id, r.generation_id) for r in cluster.asked(ApiKey.HEARTBEAT)} == {("member-1", 1)}


def test_an_idle_member_costs_nothing_but_its_heartbeats(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, fetch_max_wait_ms=10_000)
    consumer.poll(1)
    before = len(cluster.requests)

    consumer.poll(30)

    kinds = {kind for kind, _, _ in cluster.requests[before:]}
    assert kinds == {ApiKey.HEARTBEAT, ApiKey.FETCH}
    assert len(cluster.requests) - before <= 14


@pytest.mark.shows(
    "S2.32", breaks="barnabas.client.consumer.membership.classic_membership:ClassicMembership._heartbeat_if_due"
)
def test_a_member_that_does_not_poll_in_time_leaves_and_loses_its_partitions(cluster: ScriptedCluster) -> None:
    listener = Recorder()
    consumer = member(cluster, listener, max_poll_interval_ms=10_000)
    consumer.poll(1)

    cluster.sleep(9)
    assert cluster.asked(ApiKey.LEAVE_GROUP) == []
    cluster.sleep(2)
    assert [entry.member_id for entry in cluster.asked(ApiKey.LEAVE_GROUP)[0].members] == ["member-1"]
    beats = len(cluster.asked(ApiKey.HEARTBEAT))
    cluster.sleep(10)
    assert len(cluster.asked(ApiKey.HEARTBEAT)) == beats

    consumer.poll(1)
    assert listener.events == [("assigned", [T0, T1]), ("lost", [T0, T1]), ("assigned", [T0, T1])]


def test_a_static_member_that_does_not_poll_only_falls_silent(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, group_instance_id="red", max_poll_interval_ms=5_000)
    consumer.poll(1)

    cluster.sleep(20)

    assert cluster.asked(ApiKey.LEAVE_GROUP) == []
    assert max(cluster.times(ApiKey.HEARTBEAT)) < cluster.now - 10


def test_a_rebalance_noticed_by_a_heartbeat_takes_everything_away_and_joins_again(cluster: ScriptedCluster) -> None:
    as_follower(cluster, [T0, T1], [T1])
    listener = Recorder()
    consumer = member(cluster, listener)
    consumer.poll(1)
    cluster.errors[ApiKey.HEARTBEAT] = deque([27])

    consumer.poll(5)

    assert listener.events == [("assigned", [T0, T1]), ("revoked", [T0, T1]), ("assigned", [T1])]
    assert [request.member_id for request in cluster.asked(ApiKey.JOIN_GROUP)] == ["", "member-1", "member-1"]


@pytest.mark.shows(
    "S3.86", breaks="barnabas.client.consumer.coordinator.classic_coordinator:ClassicCoordinator._on_join_complete"
)
def test_a_cooperative_rebalance_revokes_what_goes_and_joins_once_more(cluster: ScriptedCluster) -> None:
    as_follower(cluster, [T0, T1], [T1], [T1])
    listener = Recorder()
    consumer = member(cluster, listener, partition_assignment_strategy="cooperative-sticky")
    consumer.poll(1)
    consumer.seek(T1, 0)
    cluster.errors[ApiKey.HEARTBEAT] = deque([27])

    consumer.poll(5)

    assert listener.events == [("assigned", [T0, T1]), ("revoked", [T0]), ("assigned", []), ("assigned", [])]
    owned = [
        deserialize_subscription(r.protocols[0].metadata).owned_partitions for r in cluster.asked(ApiKey.JOIN_GROUP)
    ]
    assert owned[2:] == [(T0, T1), (T1,)]
    assert consumer.position(T1) == 0


@pytest.mark.parametrize("code", [25, 22])
def test_a_member_that_is_put_out_loses_its_partitions_and_joins_again(cluster: ScriptedCluster, code: int) -> None:
    listener = Recorder()
    consumer = member(cluster, listener)
    consumer.poll(1)
    cluster.errors[ApiKey.HEARTBEAT] = deque([code])

    consumer.poll(10)

    assert listener.events == [("assigned", [T0, T1]), ("lost", [T0, T1]), ("assigned", [T0, T1])]
    # Unknown: it begins anew. Illegal generation: it is still known by its id.
    assert cluster.asked(ApiKey.JOIN_GROUP)[2].member_id == {25: "", 22: "member-1"}[code]


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
@pytest.mark.parametrize("code", [14, 15, 16, 27, 25])
def test_failures_that_pass_are_tried_again_until_the_member_is_in(
    cluster: ScriptedCluster, key: ApiKey, code: int
) -> None:
    cluster.errors[key] = deque([code, code])
    consumer = member(cluster)

    consumer.poll(10)

    assert consumer.assignment() == {T0, T1}
    if code in (15, 16):
        assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 3


def test_a_coordinator_that_moves_is_looked_up_again(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.HEARTBEAT] = deque([16])
    cluster.errors[ApiKey.FIND_COORDINATOR] = deque([15, 15])

    consumer.poll(10)

    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 4
    assert len(cluster.asked(ApiKey.JOIN_GROUP)) == 2
    assert max(cluster.times(ApiKey.HEARTBEAT)) > cluster.now - 4


def test_a_silent_coordinator_is_given_up_after_the_session_timeout(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, session_timeout_ms=6_000, heartbeat_interval_ms=2_000)
    consumer.poll(1)
    cluster.hold.add(ApiKey.HEARTBEAT)
    cluster.sleep(5)
    cluster.hold.clear()
    found = len(cluster.asked(ApiKey.FIND_COORDINATOR))

    consumer.poll(10)

    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == found + 1
    assert max(cluster.times(ApiKey.HEARTBEAT)) > cluster.now - 3


@pytest.mark.parametrize(
    ("key", "code", "error"),
    [
        (ApiKey.FIND_COORDINATOR, 30, GroupAuthorizationError),
        (ApiKey.JOIN_GROUP, 30, GroupAuthorizationError),
        (ApiKey.JOIN_GROUP, 81, GroupMaxSizeReachedError),
        (ApiKey.JOIN_GROUP, 82, FencedInstanceIdError),
        (ApiKey.SYNC_GROUP, 30, GroupAuthorizationError),
    ],
)
def test_failures_that_stay_come_out_of_poll_and_the_next_poll_tries_again(
    cluster: ScriptedCluster, key: ApiKey, code: int, error: type[KafkaError]
) -> None:
    cluster.errors[key] = deque([code])
    consumer = member(cluster)

    with pytest.raises(error, match="g"):
        consumer.poll(5)

    consumer.poll(5)
    assert consumer.assignment() == {T0, T1}


def test_a_fenced_static_member_stays_fenced_until_it_is_unsubscribed(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, group_instance_id="red")
    consumer.poll(1)
    cluster.errors[ApiKey.HEARTBEAT] = deque([82])
    cluster.sleep(5)
    joins = len(cluster.asked(ApiKey.JOIN_GROUP))

    for _ in range(3):
        with pytest.raises(FencedInstanceIdError, match="red"):
            consumer.poll(5)
    assert len(cluster.asked(ApiKey.JOIN_GROUP)) == joins

    consumer.unsubscribe()
    consumer.subscribe(["t"])
    consumer.poll(5)
    assert consumer.assignment() == {T0, T1}


@pytest.mark.shows("S3.97", breaks="barnabas.client.consumer.membership.group_requests:leave_group")
def test_close_revokes_and_leaves(cluster: ScriptedCluster) -> None:
    listener = Recorder()
    consumer = member(cluster, listener)
    consumer.poll(1)

    consumer.close()

    assert listener.events[-1] == ("revoked", [T0, T1])
    assert [entry.member_id for entry in cluster.asked(ApiKey.LEAVE_GROUP)[0].members] == ["member-1"]
    assert cluster.group_selector is not None
    assert cluster.group_selector.is_closed
    assert cluster.app_selector is not None
    assert cluster.app_selector.is_closed


@pytest.mark.shows("S1.28", breaks="barnabas.client.consumer.membership.group_requests:GroupIdentity.leaves")
def test_a_static_member_does_not_leave_on_close(cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    consumer = member(cluster, group_instance_id="red")
    consumer.poll(1)

    consumer.close()

    assert cluster.asked(ApiKey.LEAVE_GROUP) == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_close_ends_in_time_when_nobody_answers(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    consumer.seek(T0, 5)
    cluster.hold |= {ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT}
    start = cluster.now

    consumer.close(timeout=3)

    assert cluster.now - start <= 3.1


def test_unsubscribing_leaves_and_subscribing_again_joins_anew(cluster: ScriptedCluster) -> None:
    listener = Recorder()
    consumer = member(cluster, listener)
    consumer.poll(1)

    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert listener.events[-1] == ("revoked", [T0, T1])
    consumer.subscribe(["t"])
    consumer.poll(1)

    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1
    assert consumer.assignment() == {T0, T1}
    assert consumer.group_metadata().member_id == "member-2"


def test_a_listener_may_call_back_into_the_consumer_but_not_poll(cluster: ScriptedCluster) -> None:
    done: list[str] = []

    class Caller(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, 7)
            consumer.pause(T0)
            consumer.commit({T1: 3})
            done.append(str(consumer.committed([T1])[T1]))
            with pytest.raises(IllegalStateError, match="listener"):
                consumer.poll(1)

    cluster.hold.add(ApiKey.FETCH)
    consumer = member(cluster, Caller())
    consumer.poll(1)

    assert len(done) == 1
    assert cluster.committed[T1][0] == 3
    assert consumer.paused() == {T0}
    assert consumer.position(T1) == 7


def test_what_a_listener_raises_comes_out_of_poll_and_the_rebalance_holds(cluster: ScriptedCluster) -> None:
    class Faulty(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise RuntimeError("boom")

    consumer = member(cluster, Faulty())

    with pytest.raises(KafkaError, match="boom"):
        consumer.poll(1)
    assert consumer.assignment() == {T0, T1}


def test_new_partitions_make_the_leader_rejoin(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, metadata_max_age_ms=1_000)
    consumer.poll(1)

    cluster.topics["t"] = 3
    consumer.poll(5)

    assert consumer.assignment() == {T0, T1, TopicPartition("t", 2)}


def test_a_pattern_takes_in_topics_as_they_appear_but_no_internal_ones(cluster: ScriptedCluster) -> None:
    cluster.topics["__t"] = 1
    consumer = cluster.consumer(group_id="g", metadata_max_age_ms=1_000)
    consumer.subscribe(re.compile(".*t.*"))
    consumer.poll(1)
    assert consumer.subscription() == {"t"}

    cluster.topics["t2"] = 1
    consumer.poll(5)

    assert consumer.subscription() == {"t", "t2"}
    assert consumer.assignment() == {T0, T1, TopicPartition("t2", 0)}


def test_an_assignor_of_ones_own_deals_out(cluster: ScriptedCluster) -> None:
    class LastOnly(ConsumerPartitionAssignor):
        name = "last-only"

        def assign(self, partitions_per_topic, subscriptions):  # type: ignore[no-untyped-def]  # as a user would
            return {
                member_id: Assignment(
                    [TopicPartition(topic, count - 1) for topic, count in partitions_per_topic.items()]
                )
                for member_id in subscriptions
            }

    consumer = member(cluster, partition_assignment_strategy=LastOnly)
    consumer.poll(1)

    assert consumer.assignment() == {T1}


def test_an_assignor_that_fails_is_heard_and_tried_again(cluster: ScriptedCluster) -> None:
    class Moody(ConsumerPartitionAssignor):
        name = "moody"
        calls = 0

        def assign(self, partitions_per_topic, subscriptions):  # type: ignore[no-untyped-def]  # as a user would
            Moody.calls += 1
            if Moody.calls == 1:
                raise RuntimeError("not today")
            return {member_id: Assignment([T0]) for member_id in subscriptions}

    consumer = member(cluster, partition_assignment_strategy=Moody)
    with pytest.raises(RuntimeError, match="not today"):
        consumer.poll(1)
    consumer.poll(1)

    assert consumer.assignment() == {T0}


@pytest.mark.shows("S3.89", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.assign_from_user")
def test_assigned_by_hand_there_is_no_joining_and_no_heartbeat(cluster: ScriptedCluster) -> None:
    consumer = cluster.consumer(group_id="g")
    consumer.assign([T0])

    consumer.poll(10)

    kinds = {kind for kind, _, _ in cluster.requests}
    assert not kinds & {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP}


def test_a_second_thread_is_refused(cluster: ScriptedCluster) -> None:
    import threading

    consumer = member(cluster)
    refused: list[Callable[[], object] | Exception] = []

    def other() -> None:
        try:
            consumer.assignment()
        except ConcurrentModificationError as error:
            refused.append(error)

    class Spawner(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    consumer.subscribe(["t"], Spawner())
    consumer.poll(1)

    assert len(refused) == 1
    consumer.assignment()


@pytest.mark.shows(
    "S1.40", breaks="barnabas.client.consumer.coordinator.coordinator:Coordinator.ensure_heartbeat_thread"
)
def test_the_coordinator_starts_the_heartbeat_thread_and_deals_partitions_out(cluster: ScriptedCluster) -> None:
    started: list[str] = []
    original = cluster.run
    cluster.run = lambda core, name: (started.append(name), original(core, name))[1]  # type: ignore[method-assign]  # to see it
    consumer = member(cluster)
    assert started == []

    consumer.poll(1)
    consumer.poll(1)

    assert started == ["kafka-coordinator-heartbeat-thread | g"]
    assert consumer.assignment() == {T0, T1}


def test_close_does_not_wait_for_a_broker_that_cannot_be_reached(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    assert cluster.group_selector is not None
    cluster.group_selector.silent = {9092}
    consumer.poll(1)
    start = cluster.now

    consumer.close()

    assert cluster.now - start < 0.5


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_leaves_although_there_is_no_time_to_wait_for_it(cluster: ScriptedCluster, protocol: str) -> None:
    consumer = member(cluster, group_protocol=protocol, enable_auto_commit=False)
    consumer.poll(1)
    consumer.poll(1)

    consumer.close(0)
    for _ in range(20):
        cluster.sleep(0.1)

    left = [one for one in cluster.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT) if one.member_epoch < 0]
    assert len(cluster.asked(ApiKey.LEAVE_GROUP) + left) == 1
