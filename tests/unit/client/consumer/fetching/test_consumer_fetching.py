"""Fetching on a scripted cluster: requests, sessions of polls, positions, errors."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable

import pytest

from barnabas import Consumer, OffsetAndMetadata, TopicPartition
from barnabas.client.consumer.consumer_network_client import RequestFutureCompletionHandler
from barnabas.client.consumer.fetching.fetch_collector import FetchCollector
from barnabas.client.consumer.fetching.fetcher import Fetcher
from barnabas.client.consumer.fetching.offset_fetcher import TruncatedLogError
from barnabas.errors import CorruptRecordError, LogTruncationError, OffsetOutOfRangeError, TopicAuthorizationError
from barnabas.network.network_client import NetworkClient
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch_response import AbortedTransaction
from barnabas.records import RecordBatchBuilder
from barnabas.records.arrow import ColumnBuilder
from tests.support.scripted_cluster import ScriptedCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def reader(cluster: ScriptedCluster, *partitions: TopicPartition, **settings: object) -> Consumer:
    consumer = cluster.consumer(auto_offset_reset="earliest", **settings)
    consumer.assign(partitions or (T0,))
    return consumer


def values(records: object) -> list[bytes]:
    return [record.value for record in records]  # type: ignore[attr-defined]  # ConsumerRecords or a list


@pytest.mark.shows("S1.54", breaks="barnabas.client.consumer.fetching.fetch_plan:FetchPlan._place")
def test_one_fetch_carries_all_partitions_of_a_node_and_no_second_is_sent_meanwhile(cluster: ScriptedCluster) -> None:
    consumer = reader(cluster, T0, T1, fetch_max_wait_ms=400)

    consumer.poll(0.3)
    consumer.poll(0.0)

    fetches = cluster.asked(ApiKey.FETCH)
    assert len(fetches) == 1
    assert [partition.partition for partition in fetches[0].topics[0].partitions] == [0, 1]


@pytest.mark.shows("S1.53", breaks="barnabas.client.consumer.fetching.fetch_collector:FetchCollector._move_on")
@pytest.mark.shows("S1.79", breaks="barnabas.client.consumer.fetching.fetch_collector:FetchCollector.collect_fetch")
def test_a_fetch_begins_right_after_what_was_read(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b", b"c")
    consumer = reader(cluster)

    assert values(consumer.poll(1)) == [b"a", b"b", b"c"]
    consumer.poll(0.1)

    assert cluster.asked(ApiKey.FETCH)[-1].topics[0].partitions[0].fetch_offset == 3
    assert consumer.position(T0) == 3


def test_polled_records_can_be_gone_through_again_copied_and_kept_beyond_the_next_poll(
    cluster: ScriptedCluster,
) -> None:
    cluster.append("t", 0, *(b"%d" % number for number in range(6)))
    consumer = reader(cluster, max_poll_records=3)
    first = consumer.poll(1)
    halfway = iter(first)
    next(halfway)
    second = consumer.poll(1)

    assert [len(first), len(second)] == [3, 3]
    assert values(first) == values(first) == values(pickle.loads(pickle.dumps(first))) == [b"0", b"1", b"2"]
    assert values(halfway) == [b"1", b"2"]
    assert first.records(T0) is first.records(T0)
    assert next(iter(first)) is first.records(T0)[0]
    assert list(second) == second.records("t")


@pytest.mark.shows("S2.40", breaks="barnabas.client.consumer.fetching.fetch_collector:FetchCollector.collect_fetch")
@pytest.mark.shows("S3.91", breaks="barnabas.client.consumer.fetching.completed_fetch:CompletedFetch.fetch_records")
def test_poll_returns_what_is_buffered_without_asking_a_broker(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *(b"%d" % number for number in range(10)))
    consumer = reader(cluster, max_poll_records=4)
    assert len(consumer.poll(1)) == 4
    cluster.hold.add(ApiKey.FETCH)
    before = cluster.now

    assert [len(consumer.poll(1)), len(consumer.poll(1))] == [4, 2]

    assert cluster.now == before


@pytest.mark.shows("S2.43", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling._prefetch")
@pytest.mark.shows("S3.90", breaks="barnabas.client.consumer.fetching.fetcher:Fetcher.send_fetches")
def test_the_next_fetch_is_on_its_way_before_records_are_handed_out(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *(b"%d" % number for number in range(10)))
    consumer = reader(cluster, max_poll_records=4)

    consumer.poll(1)

    offsets = [fetch.topics[0].partitions[0].fetch_offset for fetch in cluster.asked(ApiKey.FETCH)]
    assert offsets == [0, 10]


@pytest.mark.shows("S1.80", breaks="barnabas.client.consumer.fetching.fetch_collector:FetchCollector.collect_fetch")
@pytest.mark.shows("S1.58", breaks="barnabas.client.consumer.fetching.fetch_collector:FetchCollector._advance")
def test_one_poll_returns_at_most_max_poll_records_of_any_number_of_partitions(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *[b"a"] * 6)
    cluster.append("t", 1, *[b"b"] * 6)
    consumer = reader(cluster, T0, T1, max_poll_records=8)

    first = consumer.poll(1)

    assert len(first) == first.count() == 8
    assert first.partitions() == {T0, T1}
    assert len(first.records(T0)) + len(first.records(T1)) == len(first.records("t")) == 8
    assert len(consumer.poll(1)) == 4
    assert len(consumer.poll(0.1, max_records=1)) == 0


@pytest.mark.shows("S2.44", breaks="barnabas.client.consumer.fetching.fetch_request:fetch_request")
@pytest.mark.shows("S2.45", breaks="barnabas.client.consumer.fetching.fetch_config:FetchConfig.of")
@pytest.mark.shows("S2.46", breaks="barnabas.client.consumer.fetching.fetch_request:fetch_request")
@pytest.mark.shows("S2.47", breaks="barnabas.client.consumer.fetching.fetch_config:FetchConfig.of")
def test_limits_of_a_fetch_are_the_settings(cluster: ScriptedCluster) -> None:
    consumer = reader(
        cluster,
        fetch_max_wait_ms=123,
        fetch_min_bytes=7,
        fetch_max_bytes=1_000,
        max_partition_fetch_bytes=500,
        isolation_level="read_committed",
        client_rack="here",
    )
    consumer.poll(0.05)

    fetch = cluster.asked(ApiKey.FETCH)[0]
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, fetch.isolation_level) == (123, 7, 1_000, 1)
    assert fetch.topics[0].partitions[0].partition_max_bytes == 500
    assert fetch.rack_id == "here"
    assert fetch.replica_id == -1


def test_defaults_of_a_fetch_are_kafkas(cluster: ScriptedCluster) -> None:
    reader(cluster).poll(0.05)

    fetch = cluster.asked(ApiKey.FETCH)[0]
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, fetch.isolation_level) == (500, 1, 52428800, 0)
    assert fetch.topics[0].partitions[0].partition_max_bytes == 1048576


def test_data_fetched_for_another_position_is_dropped(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"0", b"1", b"2", b"3")
    consumer = reader(cluster, max_poll_records=1)
    assert values(consumer.poll(1)) == [b"0"]

    consumer.seek(T0, 3)
    assert values(consumer.poll(1)) == [b"3"]
    consumer.seek(T0, 1)
    assert values(consumer.poll(1)) == [b"1"]
    assert values(consumer.poll(1)) == [b"2"]
    assert values(consumer.poll(1)) == [b"3"]


def test_an_answer_that_arrives_after_a_seek_is_dropped(cluster: ScriptedCluster) -> None:
    cluster.hold.add(ApiKey.FETCH)
    cluster.append("t", 0, b"0", b"1")
    consumer = reader(cluster)
    consumer.poll(0.05)
    consumer.seek(T0, 1)
    cluster.hold.clear()
    assert cluster.app_selector is not None
    cluster.app_selector.respond(0, cluster._fetched(cluster.asked(ApiKey.FETCH)[0]))

    assert values(consumer.poll(1)) == [b"1"]


def test_data_of_partitions_no_longer_assigned_is_dropped(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"0", b"1")
    cluster.append("t", 1, b"x")
    consumer = reader(cluster, max_poll_records=1)
    assert values(consumer.poll(1)) == [b"0"]

    consumer.assign([T1])

    assert values(consumer.poll(1)) == [b"x"]
    assert len(consumer.poll(0.2)) == 0


def test_paused_data_waits_and_comes_in_order(cluster: ScriptedCluster) -> None:
    for number in range(6):
        cluster.append("t", 0, b"%d" % number)
    cluster.append("t", 1, b"x")
    consumer = reader(cluster, T0, T1, max_poll_records=1)
    assert values(consumer.poll(1)) == [b"0"]

    consumer.pause(T0)
    assert [values(consumer.poll(0.2)) for _ in range(3)] == [[b"x"], [], []]
    consumer.resume(T0)

    assert [values(consumer.poll(1)) for _ in range(5)] == [[b"%d" % number] for number in range(1, 6)]


@pytest.mark.parametrize("code", [3, 6, 56, 74, 78, 100])
def test_errors_that_pass_ask_for_new_metadata_and_go_on(cluster: ScriptedCluster, code: int) -> None:
    cluster.append("t", 0, b"a")
    cluster.errors[ApiKey.FETCH] = deque([code])
    consumer = reader(cluster)
    consumer.position(T0)
    asked = len(cluster.asked(ApiKey.METADATA))

    assert values(consumer.poll(5)) == [b"a"]
    consumer.poll(0.5)
    assert len(cluster.asked(ApiKey.METADATA)) > asked


def test_an_error_that_stays_does_not_make_poll_spin(cluster: ScriptedCluster) -> None:
    cluster.errors[ApiKey.FETCH] = deque([6] * 1_000)
    consumer = reader(cluster)

    consumer.poll(2)

    assert 3 <= len(cluster.asked(ApiKey.FETCH)) <= 21


def test_a_position_out_of_range_is_reset(cluster: ScriptedCluster) -> None:
    cluster.log_start[T0] = 10
    cluster.append("t", 0, b"ten")
    consumer = reader(cluster)
    consumer.seek(T0, 2)

    assert values(consumer.poll(5)) == [b"ten"]


def test_a_position_out_of_range_is_told_without_a_reset_policy(cluster: ScriptedCluster) -> None:
    cluster.log_start[T0] = 10
    cluster.append("t", 0, b"ten")
    consumer = cluster.consumer(auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 2)

    with pytest.raises(OffsetOutOfRangeError, match="begins at 10") as raised:
        consumer.poll(5)
    assert raised.value.partitions == (T0,)


def test_no_right_to_read_is_told_once_what_came_before_is_out(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a")
    consumer = reader(cluster)
    assert values(consumer.poll(1)) == [b"a"]
    cluster.errors[ApiKey.FETCH] = deque([29])
    cluster.append("t", 0, b"b")

    with pytest.raises(TopicAuthorizationError, match="'t'"):
        consumer.poll(2)
    assert values(consumer.poll(2)) == [b"b"]


def test_a_corrupt_batch_is_told_after_all_before_it_and_can_be_passed(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a")
    cluster.append("t", 0, b"b")
    cluster.append("t", 0, b"c")
    base, end, batch = cluster.logs[T0][1]
    cluster.logs[T0][1] = (base, end, batch[:-1] + bytes([batch[-1] ^ 1]))
    consumer = reader(cluster)

    assert values(consumer.poll(1)) == [b"a"]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="t-0"):
            consumer.poll(1)
        assert consumer.position(T0) == 1
    consumer.seek(T0, 2)
    assert values(consumer.poll(1)) == [b"c"]


def test_read_committed_leaves_aborted_records_out_and_moves_past_them(cluster: ScriptedCluster) -> None:
    def transactional(producer_id: int, base: int, value: bytes) -> tuple[int, int, bytes]:
        builder = RecordBatchBuilder(1 << 16)
        builder.set_producer_state(producer_id, 0, 0, transactional=True)
        builder.try_append(1, None, value, [])
        return base, base + 1, builder.close(base_offset=base)

    cluster.logs[T0] = [transactional(7, 0, b"aborted"), transactional(8, 1, b"kept")]
    cluster.aborted[T0] = [AbortedTransaction(producer_id=7, first_offset=0)]

    committed = reader(cluster, isolation_level="read_committed")

    assert values(committed.poll(1)) == [b"kept"]
    assert committed.position(T0) == 2
    other = ScriptedCluster()
    other.logs, other.aborted = cluster.logs, cluster.aborted
    assert values(reader(other).poll(1)) == [b"aborted", b"kept"]


def test_a_new_leader_confirms_the_position_before_more_is_fetched(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b", epoch=0)
    consumer = reader(cluster)
    assert values(consumer.poll(1)) == [b"a", b"b"]
    cluster.leader_epoch = 1
    cluster.epoch_ends[T0] = (0, 1)
    cluster.logs[T0] = []
    cluster.append("t", 0, b"a", epoch=0)
    cluster.append("t", 0, b"B", b"C", epoch=1)
    cluster.errors[ApiKey.FETCH] = deque([74])

    assert values(consumer.poll(10)) == [b"B", b"C"]
    asked = cluster.asked(ApiKey.OFFSET_FOR_LEADER_EPOCH)[0].topics[0].partitions[0]
    assert (asked.leader_epoch, asked.current_leader_epoch) == (0, 1)


def test_lost_records_are_told_without_a_reset_policy(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b", epoch=0)
    consumer = cluster.consumer(auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert values(consumer.poll(1)) == [b"a", b"b"]
    cluster.leader_epoch = 1
    cluster.epoch_ends[T0] = (0, 1)
    cluster.errors[ApiKey.FETCH] = deque([74])

    with pytest.raises(TruncatedLogError, match="offset 1") as raised:
        consumer.poll(10)
    assert isinstance(raised.value, LogTruncationError)
    assert raised.value.positions == {T0: 2}
    assert raised.value.divergent_offsets == {T0: OffsetAndMetadata(1, "", 0)}


def test_all_truncated_logs_are_told_at_once(cluster: ScriptedCluster) -> None:
    consumer = cluster.consumer(auto_offset_reset="none")
    consumer.assign([T0, T1])
    for partition in (T0, T1):
        cluster.append("t", partition.partition, b"a", b"b", epoch=0)
        consumer.seek(partition, 0)
    assert values([*consumer.poll(1), *consumer.poll(1)]) == [b"a", b"b"] * 2
    cluster.leader_epoch = 1
    cluster.epoch_ends |= {T0: (0, 1), T1: (-1, -1)}
    cluster.errors[ApiKey.FETCH] = deque([74])

    with pytest.raises(TruncatedLogError, match="unknown offset") as raised:
        consumer.poll(10)
    assert set(raised.value.partitions) == {T0, T1}
    assert raised.value.divergent_offsets == {T0: OffsetAndMetadata(1, "", 0)}


def test_nothing_is_asked_per_poll_while_there_is_data(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, *[b"x"] * 100)
    consumer = reader(cluster, max_poll_records=1)
    consumer.poll(1)
    asked = len(cluster.requests)

    for _ in range(99):
        assert len(consumer.poll(1)) == 1

    assert len(cluster.requests) == asked


def test_counts_what_it_did(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    consumer = reader(cluster)
    consumer.poll(1)

    metrics = consumer.metrics()

    assert metrics["records-consumed-total"] == 2
    assert metrics["bytes-consumed-total"] == len(cluster.logs[T0][0][2])
    assert metrics["fetch-total"] >= 1


@pytest.mark.shows("S1.57", breaks="barnabas.client.consumer.fetching.fetcher:Fetcher._on_fetched")
def test_an_answer_is_sorted_by_partition_into_completed_fetches(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a")
    cluster.append("t", 1, b"b")
    consumer = reader(cluster, T0, T1)
    consumer.position(T0)
    consumer.position(T1)
    fetcher, client = consumer._parts.fetcher, consumer._parts.client

    assert fetcher.send_fetches(cluster.now) == 1
    for _ in range(20):
        if not fetcher.completed_fetches:
            client.poll(0.1, cluster.now)

    assert [(fetch.partition, fetch.fetch_offset) for fetch in fetcher.completed_fetches] == [(T0, 0), (T1, 0)]


@pytest.mark.shows("S1.64", breaks="barnabas.client.consumer.consumer_polling:ConsumerPolling._poll")
def test_poll_collects_then_sends_fetches_then_polls_the_network_then_collects_again(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a")
    consumer = reader(cluster)
    consumer.position(T0)
    order: list[str] = []
    for owner, name in (
        (consumer._parts.collector, "collect_fetch"),
        (consumer._parts.fetcher, "send_fetches"),
        (consumer._parts.client, "poll"),
    ):
        setattr(owner, name, noting(order, name, getattr(owner, name)))

    assert values(consumer.poll(1)) == [b"a"]

    assert order[:3] == ["collect_fetch", "send_fetches", "poll"]
    assert order[-2:] == ["collect_fetch", "send_fetches"]


def noting(order: list[str], name: str, method: Callable[..., object]) -> Callable[..., object]:
    def noted(*args: object, **kwargs: object) -> object:
        order.append(name)
        return method(*args, **kwargs)

    return noted


@pytest.mark.shows("S2.41", breaks="barnabas.client.consumer.fetching.fetcher:Fetcher.send_fetches")
@pytest.mark.shows("S2.42", breaks="barnabas.client.consumer.fetching.fetch_collector:FetchCollector.collect_fetch")
def test_with_nothing_buffered_poll_asks_the_brokers_and_returns_what_they_answer(cluster: ScriptedCluster) -> None:
    consumer = reader(cluster)
    cluster.at(0.3, lambda: cluster.append("t", 0, b"late"))
    start = cluster.now

    assert values(consumer.poll(5)) == [b"late"]
    assert cluster.now - start < 0.4


@pytest.mark.shows("S1.43", breaks="barnabas.client.consumer.fetching.fetcher:Fetcher.send_fetches")
def test_the_brokers_are_asked_for_what_is_wanted_and_not_there_yet(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    consumer = reader(cluster, T0, T1, max_poll_records=1, fetch_max_bytes=1000, max_partition_fetch_bytes=500)

    def asked() -> list[list[tuple[int, int, int]]]:
        return [
            [
                (one.partition, one.fetch_offset, one.partition_max_bytes)
                for topic in fetch.topics
                for one in topic.partitions
            ]
            for fetch in cluster.asked(ApiKey.FETCH)
        ]

    assert values(consumer.poll(1)) == [b"a"]
    assert asked()[0] == [(0, 0, 500), (1, 0, 500)]
    assert cluster.asked(ApiKey.FETCH)[0].max_bytes == 1000

    # What is buffered is not asked for again, and what is paused not at all.
    consumer.pause(T1)
    assert values(consumer.poll(1)) == [b"b"]
    consumer.poll(0.1)
    consumer.resume(T1)
    consumer.poll(1)
    assert {offset for fetch in asked()[1:] for partition, offset, _ in fetch if partition == 0} == {2}


@pytest.mark.shows(
    "S1.81", breaks="barnabas.client.consumer.consumer_network_client:RequestFutureCompletionHandler.on_complete"
)
def test_an_answer_travels_up_by_callbacks_from_layer_to_layer(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    layers = {
        NetworkClient: "_complete_responses",
        RequestFutureCompletionHandler: "fire_completion",
        Fetcher: "_on_fetched",
        FetchCollector: "collect_fetch",
    }
    for layer, name in layers.items():
        monkeypatch.setattr(layer, name, noting(order, layer.__name__, vars(layer)[name]))
    cluster.append("t", 0, b"a")
    consumer = reader(cluster)

    assert values(consumer.poll(1)) == [b"a"]

    fetched = order.index("Fetcher")
    assert order[fetched - 1] == "RequestFutureCompletionHandler"
    assert "NetworkClient" in order[: fetched - 1]
    assert "FetchCollector" in order[fetched:]


@pytest.mark.shows("S1.45", breaks="barnabas.client.consumer.consumer_parts:consumer_parts")
def test_all_parts_are_made_with_the_consumer(cluster: ScriptedCluster) -> None:
    parts = cluster.consumer(group_id="g")._parts

    made = [type(part).__name__ for part in parts]
    assert made[2:] == [
        "SubscriptionState",
        "ConsumerMetadata",
        "ConsumerNetworkClient",
        "Fetcher",
        "FetchCollector",
        "OffsetFetcher",
        "ClassicCoordinator",
        "ConsumerInterceptors",
    ]
    assert type(parts.client.client).__name__ == "NetworkClient"
    assert cluster.requests == []


def test_poll_raw_hands_out_bytes_that_decode_elsewhere_and_moves_the_position(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b", b"c")
    consumer = reader(cluster)

    found = consumer.poll_raw(1)
    builder = ColumnBuilder(("value", "offset"))
    reached = [data.append_to(builder, data.offset, 2) for data in found]

    assert consumer.position(T0) == 3
    assert [(data.topic_partition, data.offset, data.end_offset) for data in found] == [(T0, 0, 3)]
    assert reached == [2]
    assert builder.finish().to_pydict() == {"value": [b"a", b"b"], "offset": [0, 1]}


def test_poll_raw_raises_what_is_wrong_with_a_partition_and_can_be_called_again(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a")
    consumer = cluster.consumer(auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 7)

    with pytest.raises(OffsetOutOfRangeError, match="Offset 7 of t-0"):
        consumer.poll_raw(1)
    consumer.seek(T0, 0)

    assert [data.end_offset for data in consumer.poll_raw(1)] == [1]
