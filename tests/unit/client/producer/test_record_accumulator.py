"""Batches in deques: how records come in, when they are ready, how they are drained."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from barnabas.client.producer.append import SendPath
from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.errors import BufferExhaustedError, IllegalStateError, KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.table_encoder import arrow_rows
from tests.unit.client.producer.harness import T0, T1, TOPIC, Harness

ACCUMULATOR = "barnabas.client.producer.record_accumulator:RecordAccumulator"
APPENDER = "barnabas.client.producer.append:RecordAppender"
BATCH = "barnabas.client.producer.append:AppendableBatch"


def small() -> Harness:
    """Batches of 200 bytes: one record of 100 bytes fits, a second does not."""
    return Harness(batch_size=200, linger_ms=1000)


def queue(harness: Harness, tp: TopicPartition = T0) -> list[ProducerBatch]:
    return list(harness.accumulator.get_deque(tp) or ())


# --- appending


@pytest.mark.shows("S4.23", breaks=f"{ACCUMULATOR}.topic_info")
@pytest.mark.shows("S4.24", breaks="barnabas.client.producer.batch_queues:BatchQueues.get_or_create")
def test_the_accumulator_keeps_a_deque_of_batches_for_each_partition_of_each_topic() -> None:
    harness = Harness(linger_ms=1000)
    assert harness.accumulator.get_deque(T0) is None

    harness.send(partition=0)
    harness.send(partition=1)

    batches = harness.accumulator.topics[TOPIC].batches
    assert sorted(batches) == [0, 1]
    assert all(isinstance(batch, ProducerBatch) for deque in batches.values() for batch in deque)


@pytest.mark.shows("S4.25", breaks=f"{APPENDER}.try_append")
def test_a_record_is_tried_in_the_last_batch_of_its_deque() -> None:
    harness = small()
    for _ in range(2):
        harness.send(b"x" * 100)

    harness.send(b"small")

    assert [batch.record_count for batch in queue(harness)] == [1, 2]


@pytest.mark.shows("S4.26", breaks=f"{APPENDER}.try_append")
def test_an_empty_deque_takes_nothing() -> None:
    harness = small()
    harness.send()
    appended = harness.accumulator.try_append(queue(harness), 1, None, b"v")
    assert appended is not None

    assert harness.accumulator.try_append([], 1, None, b"v") is None


@pytest.mark.shows("S4.27", breaks="barnabas.records.builder:RecordBatchBuilder.append_record")
@pytest.mark.shows("S4.28", breaks="barnabas.records.builder:RecordBatchBuilder.append_record")
def test_a_batch_without_room_stores_nothing_and_takes_no_more_records() -> None:
    harness = small()
    harness.send(b"x" * 100)
    (full,) = queue(harness)

    assert harness.accumulator.try_append(queue(harness), 1, None, b"x" * 100) is None

    assert full.record_count == 1
    assert not full.is_open
    assert harness.accumulator.try_append(queue(harness), 1, None, b"y") is None


@pytest.mark.shows("S4.29", breaks=f"{ACCUMULATOR}._append_batch")
@pytest.mark.shows("S4.31", breaks=f"{ACCUMULATOR}._append_batch")
def test_no_room_makes_a_new_batch_at_the_end_of_the_deque() -> None:
    harness = small()
    first = harness.append(b"x" * 100)
    second = harness.append(b"x" * 100)

    assert (first.new_batch_created, second.new_batch_created) == (True, True)
    assert [batch.record_count for batch in queue(harness)] == [1, 1]
    assert second.future is not None
    assert queue(harness)[-1].request_result is second.future.request_result


@pytest.mark.shows("S4.30", breaks=f"{ACCUMULATOR}._append_batch")
def test_a_new_batch_holds_its_record_before_it_is_in_the_deque(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, seen = small(), list[int]()
    deque = harness.accumulator._queues.get_or_create(harness.accumulator.topic_info(TOPIC), 0)

    class Watching(type(deque)):  # type: ignore[misc]  # a deque that looks at what is put into it
        def append(self, batch: ProducerBatch) -> None:
            seen.append(batch.record_count)
            super().append(batch)

    harness.accumulator.topics[TOPIC].batches[0] = Watching()
    harness.send()

    assert seen == [1]


def test_a_record_larger_than_the_batch_size_gets_a_batch_of_its_own() -> None:
    harness = small()

    result = harness.append(b"x" * 5000)

    assert result.batch_is_full
    assert harness.pool.total_memory - harness.pool.available_memory > 5000


@pytest.mark.shows("S4.21", breaks="barnabas.client.producer.buffer_pool:BufferPool.allocate_nowait")
def test_full_memory_refuses_the_record_after_the_time_to_block_and_stores_nothing() -> None:
    harness = Harness(batch_size=200, buffer_memory=400)
    harness.send(partition=0)
    harness.send(partition=1)

    with pytest.raises(BufferExhaustedError):
        harness.send(b"x" * 150, partition=0)

    assert [batch.record_count for batch in queue(harness)] == [1]


def test_abort_on_new_batch_stores_nothing() -> None:
    harness = small()

    result = harness.append(abort_on_new_batch=True)

    assert result.future is None
    assert not result.memory_needed
    assert not harness.accumulator.has_incomplete()


def test_a_closed_accumulator_takes_nothing() -> None:
    harness = small()
    harness.send()
    harness.accumulator.close()

    with pytest.raises(IllegalStateError):
        harness.send()


# --- ready


@pytest.mark.shows("S3.39", breaks=f"{ACCUMULATOR}.ready")
@pytest.mark.shows("S4.18", breaks=f"{ACCUMULATOR}.ready")
def test_a_batch_waits_until_it_has_lingered_or_is_full() -> None:
    harness = Harness(batch_size=200, linger_ms=50, enable_idempotence=False)
    harness.send(b"v")
    ready = harness.accumulator.ready

    assert not ready(harness.cluster, harness.now).ready_nodes
    assert ready(harness.cluster, harness.now).next_ready_check_delay == pytest.approx(0.05)
    assert list(ready(harness.cluster, harness.now + 0.05).ready_nodes) == [1]
    harness.send(b"x" * 150)
    assert list(ready(harness.cluster, harness.now).ready_nodes) == [1]


def test_flush_close_and_short_memory_make_every_batch_ready() -> None:
    for hurry in ("begin_flush", "close"):
        harness = Harness(linger_ms=1000, enable_idempotence=False)
        harness.send()
        assert not harness.accumulator.ready(harness.cluster, harness.now).ready_nodes
        getattr(harness.accumulator, hurry)()
        assert harness.accumulator.ready(harness.cluster, harness.now).ready_nodes


def test_a_partition_without_leader_is_reported_and_not_ready() -> None:
    harness = Harness(leaders=lambda partition: -1 if partition == 0 else 1)
    harness.send(partition=0)

    result = harness.accumulator.ready(harness.cluster, harness.now)

    assert (result.ready_nodes, result.unknown_leader_topics) == ({}, {TOPIC})


# --- drain


@pytest.mark.shows("S4.32", breaks="barnabas.client.producer.batch_drainer:BatchDrainer._poll_first")
@pytest.mark.shows("S4.40", breaks="barnabas.client.producer.batch_drainer:BatchDrainer._poll_first")
def test_batches_of_a_partition_leave_at_the_head_in_the_order_of_sending() -> None:
    harness = Harness(batch_size=200, linger_ms=0, max_in_flight_requests_per_connection=1)
    for number in range(6):
        harness.send(b"%d" % number + b"x" * 60)

    left = []
    while harness.accumulator.has_undrained():
        harness.settle()
        left += [value[:1] for value in harness.sent_values()[0] if value]
        harness.respond()

    assert left == [b"0", b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.shows("S4.37", breaks=f"{ACCUMULATOR}.drain")
@pytest.mark.shows("S4.38", breaks=f"{ACCUMULATOR}.drain")
@pytest.mark.shows("S4.39", breaks=f"{ACCUMULATOR}.drain")
def test_drain_gathers_for_each_ready_node_the_partitions_that_it_leads() -> None:
    harness = Harness(partitions=4, nodes=3, leaders=lambda partition: 1 + partition % 2, enable_idempotence=False)
    for partition in range(3):
        harness.send(b"%d" % partition, partition=partition)
    nodes = harness.accumulator.ready(harness.cluster, harness.now).ready_nodes

    drained = harness.accumulator.drain(harness.cluster, nodes.values(), 1 << 20, harness.now)

    assert {node: [batch.topic_partition for batch in batches] for node, batches in drained.items()} == {
        1: [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 2)],
        2: [TopicPartition(TOPIC, 1)],
    }


@pytest.mark.shows("S4.41", breaks="barnabas.client.producer.batch_drainer:BatchDrainer._drain_batches_for_one_node")
def test_drain_takes_one_batch_of_each_partition_up_to_the_limit_but_always_one_and_begins_elsewhere_each_time() -> (
    None
):
    harness = Harness(partitions=3, batch_size=200, enable_idempotence=False)
    for _ in range(2):
        for partition in range(3):
            harness.send(b"x" * 120, partition=partition)
    node = harness.cluster.node(1)

    def drain(limit: int) -> list[int]:
        found = harness.accumulator.drain(harness.cluster, [node], limit, harness.now)[1]
        return [batch.topic_partition.partition for batch in found]

    assert drain(10) == [0]
    assert drain(420) == [1, 2]
    assert drain(1 << 20) == [0, 1, 2]
    assert drain(1 << 20) == []


def test_a_muted_partition_is_left_alone() -> None:
    harness = Harness(enable_idempotence=False)
    harness.send(partition=0)
    harness.accumulator.mute_partition(T0)

    assert not harness.accumulator.ready(harness.cluster, harness.now).ready_nodes
    harness.accumulator.unmute_partition(T0)
    assert harness.accumulator.ready(harness.cluster, harness.now).ready_nodes


# --- expiry, abort, memory


def test_batches_older_than_the_delivery_timeout_are_taken_out_in_order() -> None:
    harness = Harness(batch_size=200, linger_ms=0, request_timeout_ms=100, delivery_timeout_ms=1000)
    harness.send(b"x" * 120)
    harness.now += 0.5
    harness.send(b"y" * 120)

    assert harness.accumulator.expired_batches(harness.now) == []
    assert len(harness.accumulator.expired_batches(harness.now + 0.5)) == 1
    assert harness.accumulator.next_expiry == pytest.approx(harness.now + 1.0)
    assert len(harness.accumulator.expired_batches(harness.now + 1.0)) == 1
    assert not harness.accumulator.has_undrained()


def test_aborting_fails_every_record_and_gives_all_memory_back() -> None:
    harness = small()
    futures = [harness.send(b"x" * 100, partition=n % 2) for n in range(5)]

    assert harness.accumulator.abort_incomplete_batches(KafkaError("over")) == 5

    assert [str(future.exception(0)) for future in futures] == ["over"] * 5
    assert harness.pool.available_memory == harness.pool.total_memory
    assert not harness.accumulator.has_undrained()


def test_aborting_tells_the_records_of_a_partition_in_the_order_of_sending() -> None:
    harness = small()
    told: list[int] = []
    for number in range(40):
        future = harness.send(b"x" * 90)
        future.add_done_callback(lambda _, number=number: told.append(number))

    harness.accumulator.abort_incomplete_batches(KafkaError("over"))

    assert told == list(range(40))


def test_a_compressed_batch_takes_as_many_records_as_the_ratio_lets_expect_and_accounts_for_them() -> None:
    harness = Harness(batch_size=1000, compression_type="gzip", linger_ms=0)

    def fill() -> int:
        before, count = len(queue(harness)), 0
        while len(queue(harness)) <= before:
            harness.send(b"x" * 50)
            count += 1
        return count

    first = fill() + fill()
    for _ in range(60):
        harness.settle()
        while harness.waiting():
            harness.respond()
        fill()

    assert fill() > first
    assert harness.pool.total_memory - harness.pool.available_memory >= 1000


def test_batches_never_ask_for_more_memory_than_there_is() -> None:
    harness = Harness(batch_size=1_000_000, buffer_memory=2_000_000, compression_type="gzip", linger_ms=0)
    for _ in range(200):
        harness.send(b"x" * 1000)
        harness.settle()
        while harness.waiting():
            harness.respond()

    assert not harness.accumulator.has_incomplete()
    assert Harness(batch_size=1000, buffer_memory=500).send().done() is False


def test_adaptive_partitioning_learns_the_lengths_of_the_queues() -> None:
    harness = Harness(partitions=2, batch_size=200, linger_ms=1000)
    harness.append(b"v", partition=-1)
    for _ in range(5):
        harness.send(b"x" * 120, partition=0)
    harness.send(b"x" * 120, partition=1)

    harness.accumulator.ready(harness.cluster, harness.now)

    sticky = harness.accumulator.topics[TOPIC].sticky
    drawn = [sticky.next_partition(harness.cluster) for _ in range(400)]
    assert drawn.count(T1.partition) > 2 * drawn.count(T0.partition)


# --- the lock


def send_path(harness: Harness) -> SendPath:
    """The way of a record in front of an accumulator that knows the topic."""
    harness.accumulator.topic_info(TOPIC).partition_count = 2
    harness.accumulator.topics[TOPIC].metadata_version = harness.accumulator.metadata_version
    return SendPath(harness.accumulator, None, None, None, 1 << 20, 1 << 20, False, False)


def test_an_append_waits_while_another_thread_holds_the_lock() -> None:
    harness = Harness(linger_ms=1000)
    harness.send()
    path = send_path(harness)
    appender = threading.Thread(target=path.do_send, args=(TOPIC, b"v", None, 0, None, None, None))

    with harness.accumulator._lock:
        appender.start()
        appender.join(0.05)
        counted_meanwhile = queue(harness)[0].record_count
    appender.join()

    assert counted_meanwhile == 1
    assert queue(harness)[0].record_count == 2


def test_no_other_code_runs_while_a_record_is_appended_without_the_lock() -> None:
    harness = Harness(linger_ms=1000)
    harness.send()
    path = send_path(harness)
    batch = queue(harness)[0]
    half_done: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        whole = batch.record_count == batch.builder.record_count < 3 or batch.callbacks is not None
        if phase == "start" and not whole and not harness.accumulator._lock.locked():
            half_done.append(batch.record_count)

    threshold = gc.get_threshold()
    gc.callbacks.append(look)
    gc.set_threshold(1)
    try:
        path.do_send(TOPIC, b"v", None, 0, None, [("name", b"of a header")], None)
        for _ in range(3):
            path.do_send(TOPIC, b"v", None, 0, None, None, lambda *_: None)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(look)

    assert half_done == []
    assert batch.record_count == 5


class LockThatLetsOthersIn:
    """A lock; whoever lets go of it does not go on before another thread has had a turn."""

    def __init__(self, lock: threading.Lock, turn: Callable[[], object]) -> None:
        self._lock = lock
        self._turn = turn

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._turn()


@pytest.fixture
def drained() -> list[ProducerBatch]:
    return []


def raced(drained: list[ProducerBatch]) -> Harness:
    """A producer whose Sender drains all that there is as soon as an append lets go of the lock."""
    harness = Harness(linger_ms=1000, enable_idempotence=False)
    accumulator, cluster = harness.accumulator, harness.cluster

    def drain() -> None:
        for batches in accumulator.drain(cluster, cluster.nodes, 1 << 20, harness.now).values():
            drained.extend(batches)

    accumulator.topic_info(TOPIC)
    accumulator._lock = LockThatLetsOthersIn(accumulator._lock, drain)  # type: ignore[assignment]
    return harness


@pytest.mark.parametrize("partition", [0, -1])
def test_the_sender_may_drain_a_record_as_soon_as_it_is_appended(drained: list[ProducerBatch], partition: int) -> None:
    result = raced(drained).append(partition=partition)

    assert result.future is not None
    assert result.new_batch_created
    assert [batch.record_count for batch in drained] == [1]


@pytest.mark.parametrize("partition", [0, -1])
def test_the_sender_may_drain_rows_as_soon_as_they_are_appended(drained: list[ProducerBatch], partition: int) -> None:
    harness = raced(drained)
    rows = arrow_rows(pa.record_batch({"value": [b"a", b"b", b"c"]}), 1)

    result = harness.accumulator.append_rows_nowait(TOPIC, partition, rows, 0, harness.cluster)

    assert (result.first, result.last, result.next_row) == (0, 2, 3)
    assert [batch.record_count for batch in drained] == [3]
