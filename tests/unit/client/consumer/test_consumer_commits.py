"""Commits and positions on a scripted cluster."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Mapping
from itertools import pairwise

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata, with_epochs
from barnabas.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
    WakeupError,
)
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(cluster: ScriptedCluster, **settings: object) -> Consumer:
    consumer = cluster.consumer(
        **{"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest", **settings}
    )
    consumer.subscribe(["t"])
    return consumer


def commits(cluster: ScriptedCluster) -> list[dict[int, int]]:
    return [
        {p.partition_index: p.committed_offset for topic in request.topics for p in topic.partitions}
        for request in cluster.asked(ApiKey.OFFSET_COMMIT)
    ]


@pytest.mark.shows("S3.70", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling.consumed_offsets")
@pytest.mark.shows("S3.79", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling.consumed_offsets")
def test_commit_covers_the_last_record_handed_out_plus_one_in_every_partition(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *[b"x"] * 5)
    consumer = member(cluster, max_poll_records=3)
    consumer.poll(1)

    consumer.commit()

    assert commits(cluster) == [{0: 3, 1: 0}]
    request = cluster.asked(ApiKey.OFFSET_COMMIT)[0]
    assert (request.generation_id_or_member_epoch, request.member_id) == (1, "member-1")


@pytest.mark.shows("S3.71", breaks="barnabas.client.consumer.consumer_arguments:as_offsets")
@pytest.mark.shows("S1.49", breaks="barnabas.client.consumer.membership.group_requests:offset_commit")
def test_commit_with_offsets_covers_exactly_these(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)

    consumer.commit({T1: OffsetAndMetadata(4, "note", 2)})
    consumer.commit({T0: 9})

    assert commits(cluster) == [{1: 4}, {0: 9}]
    assert cluster.committed[T1] == (4, 2, "note")


@pytest.mark.shows("S2.37", breaks="barnabas.client.consumer.commit_calls:CommitCalls._await_result")
@pytest.mark.shows("S3.72", breaks="barnabas.client.consumer.commit_calls:CommitCalls._await_result")
def test_commit_waits_until_it_is_done(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([14, 14, 14])
    start = cluster.now

    consumer.commit({T0: 1})

    assert cluster.now > start + 0.3
    assert cluster.committed[T0][0] == 1


def test_commit_gives_up_in_time(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([14] * 1_000)
    start = cluster.now

    with pytest.raises(KafkaTimeoutError, match="commit"):
        consumer.commit({T0: 1}, timeout=2)
    assert cluster.now - start < 2.5


@pytest.mark.shows("S2.38", breaks="barnabas.client.consumer.commit_calls:CommitCalls.commit_async")
@pytest.mark.shows(
    "S3.73", breaks="barnabas.client.consumer.membership.commit_request_manager:CommitRequestManager._on_failed"
)
def test_commit_async_does_not_wait_and_is_not_tried_again(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([14])
    told: list[KafkaError | None] = []
    start = cluster.now

    consumer.commit_async({T0: 1}, lambda offsets, error: told.append(error))
    consumer.commit_async({T0: 2}, lambda offsets, error: told.append(error))
    assert (cluster.now, told) == (start, [])
    consumer.poll(1)

    assert isinstance(told[0], RetriableCommitFailedError)
    assert told[1] is None
    assert commits(cluster) == [{0: 1}, {0: 2}]


def test_callbacks_of_earlier_asynchronous_commits_run_before_commit_returns(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    told: list[int] = []
    for offset in (1, 2, 3):
        consumer.commit_async({T0: offset}, lambda offsets, error: told.append(offsets[T0].offset))

    consumer.commit({T0: 4})

    assert told == [1, 2, 3]
    assert commits(cluster) == [{0: 1}, {0: 2}, {0: 3}, {0: 4}]


def test_callbacks_run_in_the_order_of_the_commits_even_if_a_later_one_is_refused_at_once(
    cluster: ScriptedCluster,
) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    assert cluster.group_selector is not None
    cluster.group_selector.is_sending_stuck = True
    told: list[tuple[int, type | None]] = []

    def note(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        told.append((offsets[T0].offset, error and type(error)))

    consumer.commit_async({T0: 1}, note)
    consumer.enforce_rebalance()
    consumer.poll(0)
    consumer.commit_async({T0: 2}, note)
    consumer.poll(0)
    assert told == []
    cluster.group_selector.is_sending_stuck = False
    consumer.poll(1)

    assert told == [(1, None), (2, RebalanceInProgressError)]


def test_close_tells_the_callbacks_of_commits_that_were_not_answered_in_time(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.hold.add(ApiKey.OFFSET_COMMIT)
    told: list[KafkaError | None] = []
    consumer.commit_async({T0: 1}, lambda offsets, error: told.append(error))

    with pytest.raises(KafkaTimeoutError):
        consumer.close(0.5)

    assert [type(error) for error in told] == [KafkaTimeoutError]


def test_a_callback_that_fails_in_close_comes_out_of_it_when_everything_else_is_done(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    consumer.commit_async({T0: 1}, lambda offsets, error: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        consumer.close()

    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1
    assert cluster.app_selector is not None
    assert cluster.group_selector is not None
    assert (cluster.app_selector.is_closed, cluster.group_selector.is_closed) == (True, True)


def test_a_callback_may_commit_again(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    consumer.commit_async({T0: 1}, lambda offsets, error: consumer.commit({T0: 2}))

    consumer.poll(1)

    assert commits(cluster) == [{0: 1}, {0: 2}]


@pytest.mark.shows("S3.75", breaks="barnabas.client.consumer.coordinator.coordinator:Coordinator.poll")
def test_automatic_commits_happen_when_poll_runs_at_an_interval(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"x")
    consumer = member(cluster, enable_auto_commit=True, auto_commit_interval_ms=2_000)
    consumer.poll(1)
    cluster.sleep(10)
    assert commits(cluster) == []

    consumer.poll(5)

    times = cluster.times(ApiKey.OFFSET_COMMIT)
    assert commits(cluster)[0] == {0: 1, 1: 0}
    assert len(times) in (2, 3)
    assert all(1.9 < later - sooner < 2.2 for sooner, later in pairwise(times))


def test_automatic_commits_come_before_partitions_are_given_up(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"x")
    consumer = member(cluster, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    consumer.poll(1)
    cluster.errors[ApiKey.HEARTBEAT] = deque([27])

    consumer.poll(5)

    kinds = [kind for kind, _, _ in cluster.requests if kind in (ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP)]
    assert kinds == [ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP]
    assert commits(cluster) == [{0: 1, 1: 0}]


def test_automatic_commits_happen_on_close(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"x")
    consumer = member(cluster, enable_auto_commit=True)
    consumer.poll(1)

    consumer.close()

    kinds = [kind for kind, _, _ in cluster.requests]
    assert commits(cluster) == [{0: 1, 1: 0}]
    assert kinds.index(ApiKey.OFFSET_COMMIT) < kinds.index(ApiKey.LEAVE_GROUP)


def test_partitions_assigned_by_hand_are_committed_outside_any_generation(cluster: ScriptedCluster) -> None:
    consumer = cluster.consumer(group_id="g", auto_offset_reset="earliest")
    consumer.assign([T0])
    consumer.commit({T0: 5})

    request = cluster.asked(ApiKey.OFFSET_COMMIT)[0]
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (25, CommitFailedError),
        (22, CommitFailedError),
        (27, RebalanceInProgressError),
        (29, TopicAuthorizationError),
        (82, FencedInstanceIdError),
    ],
)
def test_refused_commits_are_told(cluster: ScriptedCluster, code: int, error: type[KafkaError]) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([code])

    with pytest.raises(error):
        consumer.commit({T0: 1})
    if code in (25, 22, 27):
        consumer.poll(2)
        consumer.commit({T0: 2})
        assert cluster.committed[T0][0] == 2


def test_a_member_that_was_put_out_cannot_commit(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, max_poll_interval_ms=5_000)
    consumer.poll(1)
    cluster.sleep(10)

    with pytest.raises(CommitFailedError, match=r"max.poll.interval.ms"):
        consumer.commit({T0: 1})
    assert cluster.asked(ApiKey.OFFSET_COMMIT) == []


def test_committing_before_joining_is_refused(cluster: ScriptedCluster) -> None:
    with pytest.raises(CommitFailedError, match="poll"):
        member(cluster).commit({T0: 1})


@pytest.mark.shows(
    "S2.22", breaks="barnabas.client.consumer.coordinator.coordinator:Coordinator._take_committed_offsets"
)
def test_committed_offsets_become_positions_and_only_the_others_are_reset(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *[b"x"] * 5)
    cluster.append("t", 1, *[b"x"] * 5)
    cluster.committed[T0] = (3, -1, "")
    consumer = member(cluster, auto_offset_reset="latest")

    consumer.poll(1)

    assert (consumer.position(T0), consumer.position(T1)) == (5, 5)
    asked = cluster.asked(ApiKey.LIST_OFFSETS)
    assert [p.partition_index for request in asked for topic in request.topics for p in topic.partitions] == [1]
    first = {p.partition: p.fetch_offset for p in cluster.asked(ApiKey.FETCH)[0].topics[0].partitions}
    assert first[0] == 3


@pytest.mark.shows("S2.39", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling._update_positions")
@pytest.mark.shows("S2.20", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling._update_positions")
def test_records_flow_only_when_the_positions_are_there(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"x")
    cluster.hold.add(ApiKey.OFFSET_FETCH)
    consumer = member(cluster)

    assert len(consumer.poll(2)) == 0
    assert cluster.asked(ApiKey.FETCH) == []

    cluster.hold.clear()
    assert [record.value for record in consumer.poll(60)] == [b"x"]
    asked = [key for key, _, _ in cluster.requests]
    assert asked.index(ApiKey.SYNC_GROUP) < asked.index(ApiKey.OFFSET_FETCH) < asked.index(ApiKey.FETCH)


def test_looking_committed_offsets_up_is_tried_again(cluster: ScriptedCluster) -> None:
    cluster.committed[T0] = (3, 1, "n")
    cluster.errors[ApiKey.OFFSET_FETCH] = deque([14, 16, 88])
    consumer = member(cluster)

    assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(3, "n", 1), T1: None}


def test_without_a_reset_policy_a_partition_without_an_offset_is_told(cluster: ScriptedCluster) -> None:
    with pytest.raises(NoOffsetForPartitionError):
        member(cluster, auto_offset_reset="none").poll(5)


def test_wakeup_ends_a_commit_that_waits(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(1)
    cluster.hold.add(ApiKey.OFFSET_COMMIT)
    cluster.at(1.0, consumer.wakeup)

    with pytest.raises(WakeupError):
        consumer.commit({T0: 1})
    assert len(consumer.poll(0.1)) == 0


@pytest.mark.shows(
    "S2.23", breaks="barnabas.client.consumer.fetching.offset_fetcher:OffsetFetcher.reset_positions_if_needed"
)
def test_without_a_committed_offset_the_reset_policy_has_the_offset_looked_up(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *[b"x"] * 5)
    consumer = member(cluster, auto_offset_reset="latest")

    consumer.poll(1)

    assert {p.timestamp for r in cluster.asked(ApiKey.LIST_OFFSETS) for t in r.topics for p in t.partitions} == {-1}
    assert consumer.position(T0) == 5


@pytest.mark.shows("S3.99", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.wakeup")
@pytest.mark.shows("S3.69", breaks="barnabas.client.consumer.commit_calls:CommitCalls.commit")
@pytest.mark.shows("S3.96", breaks="barnabas.client.consumer.membership.group_requests:leave_group")
def test_the_usual_loop_processes_commits_and_ends_by_wakeup_and_close(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    consumer = member(cluster)
    processed: list[bytes] = []
    cluster.at(3.0, consumer.wakeup)
    end, is_woken = cluster.now + 20, False
    try:
        while cluster.now < end:
            for record in consumer.poll(1):
                processed.append(record.value)
            consumer.commit()
    except WakeupError:
        is_woken = True
    finally:
        consumer.close()

    assert is_woken
    assert processed == [b"a", b"b"]
    assert cluster.committed[T0][0] == 2
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1


@pytest.mark.shows("S3.76", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.all_consumed")
def test_killed_before_the_next_automatic_commit_records_come_twice(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    first = member(cluster, enable_auto_commit=True, auto_commit_interval_ms=5_000, max_poll_records=1)
    assert [record.value for record in first.poll(1)] == [b"a"]
    cluster.sleep(6)
    assert [record.value for record in first.poll(1)] == [b"b"]
    first.poll(0.1)
    committed = cluster.committed[T0][0]

    restarted = ScriptedCluster()
    restarted.logs, restarted.committed = cluster.logs, dict(cluster.committed)

    assert committed == 1
    assert [record.value for record in member(restarted).poll(1)] == [b"b"]


def read_and_crash(*, automatic: bool) -> tuple[list[bytes], list[bytes]]:
    """Poll two records, one by one and some time apart, then end without a word: what this consumer and the next read.

    Without automatic commits nothing is committed, for the records are not processed yet.
    """
    cluster = ScriptedCluster()
    cluster.append("t", 0, b"a", b"b")
    first = member(cluster, enable_auto_commit=automatic, auto_commit_interval_ms=1000, max_poll_records=1)
    received = [record.value for record in first.poll(1)]
    cluster.sleep(2)
    received += [record.value for record in first.poll(1)]
    cluster.sleep(0.1)
    after = ScriptedCluster()
    after.logs, after.committed = cluster.logs, dict(cluster.committed)
    return received, [record.value for record in member(after).poll(1)]


@pytest.mark.shows("S2.36", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.all_consumed")
def test_an_automatic_commit_loses_what_is_unprocessed_at_the_next_poll_and_else_doubles_a_manual_one_neither() -> None:
    received, again = read_and_crash(automatic=True)
    assert received == [b"a", b"b"]
    # If the first record was only put aside when the second poll came, it is lost with the process.
    assert b"a" not in again
    # If both were processed, the second is processed twice: it was not committed yet.
    assert again == [b"b"]

    # Committed by hand, after processing, records that were put aside come again ...
    assert read_and_crash(automatic=False) == ([b"a", b"b"], [b"a", b"b"])
    # ... and processed ones do not.
    cluster = ScriptedCluster()
    cluster.append("t", 0, b"a", b"b")
    careful = member(cluster)
    assert [record.value for record in careful.poll(60)] == [b"a", b"b"]
    careful.commit()
    after = ScriptedCluster()
    after.logs, after.committed = cluster.logs, dict(cluster.committed)
    assert not member(after).poll(1)


def read_two_of_three(cluster: ScriptedCluster) -> Consumer:
    cluster.append("t", 0, b"a", b"b", b"c", epoch=3)
    consumer = member(cluster, max_poll_records=2)
    assert len(consumer.poll(1)) == 2
    return consumer


@pytest.mark.parametrize("how", ["commit", "commit_async"])
def test_an_offset_that_is_the_position_is_committed_with_the_epoch_of_the_last_record(
    cluster: ScriptedCluster, how: str
) -> None:
    consumer = read_two_of_three(cluster)

    getattr(consumer, how)({T0: 2, T1: 5})
    cluster.sleep(0.1)

    assert cluster.committed == {T0: (2, 3, ""), T1: (5, -1, "")}


def test_a_given_epoch_and_another_offset_than_the_position_are_committed_as_they_are(cluster: ScriptedCluster) -> None:
    consumer = read_two_of_three(cluster)

    consumer.commit({T0: OffsetAndMetadata(2, "note", 1)})
    assert cluster.committed[T0] == (2, 1, "note")
    consumer.commit({T0: 1})
    assert cluster.committed[T0] == (1, -1, "")


def test_a_loop_over_records_commits_with_the_epoch_too(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b", b"c", epoch=3)
    consumer = member(cluster)

    record = next(iter(consumer))
    consumer.commit({T0: record.offset + 1})

    assert cluster.committed[T0] == (1, 3, "")


def test_group_metadata_knows_the_epochs_of_what_was_consumed_and_is_otherwise_the_members(
    cluster: ScriptedCluster,
) -> None:
    consumer = read_two_of_three(cluster)
    before = consumer.group_metadata()

    consumer.poll(1)

    assert before == consumer.group_metadata() == ConsumerGroupMetadata("g", 1, "member-1")
    assert pickle.loads(pickle.dumps(before)) == before
    offsets = {T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(9)}
    assert with_epochs(offsets, before.consumed) == {T0: OffsetAndMetadata(2, "", 3), T1: OffsetAndMetadata(9)}
    assert with_epochs(offsets, consumer.group_metadata().consumed) == offsets, "it has read on"
