"""The task's side: ranges of offsets, decoded batch by batch while the thread fetches the next."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from barnabas.client.consumer.fetching.fetched_data import FetchedData
from barnabas.errors import AuthorizationError, CorruptRecordError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from barnabas.spark import fetch_loop
from barnabas.spark.handover import ClosedError, Handover
from barnabas.spark.kafka_consumer_thread import KafkaConsumerThread
from barnabas.spark.kafka_fetcher import KafkaFetcher, following
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

PARTITION = TopicPartition("t", 0)
LOOP = "barnabas.spark.kafka_fetcher:KafkaFetcher.run_fetch_loop"
DECODED = "barnabas.spark.kafka_fetcher:KafkaFetcher._decoded"


def encoded(first: int, count: int, partition: TopicPartition = PARTITION) -> FetchedData:
    builder = RecordBatchBuilder(1 << 20)
    for number in range(first, first + count):
        builder.try_append(1_370_000_000_000 + number, b"k%d" % number, b"v%d" % number)
    return FetchedData(partition, first, first + count, builder.close(base_offset=first), True, None)


class Consumer:
    """Serves prepared data, then nothing; an exception in the list is raised."""

    def __init__(self, *served: Any) -> None:
        self.served = list(served)
        self.polls = 0
        self.polled_by: set[threading.Thread] = set()

    def poll_raw(self, timeout: float) -> Sequence[FetchedData]:
        self.polls += 1
        self.polled_by.add(threading.current_thread())
        step = self.served.pop(0) if self.served else []
        if isinstance(step, BaseException):
            raise step
        return step  # type: ignore[no-any-return]  # a list of FetchedData

    def wakeup(self) -> None: ...


def fetcher_of(consumer: Consumer, start: int, end: int, ahead: Sequence[FetchedData] = ()) -> KafkaFetcher:
    handover: Handover[Sequence[FetchedData]] = Handover()
    thread = KafkaConsumerThread(consumer, handover)
    return KafkaFetcher([OffsetRange(PARTITION, start, end)], thread, handover, ("value", "offset", "timestamp"), ahead)


def offsets_of(batches: Any) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.shows("S0.15", breaks=LOOP)
@pytest.mark.shows("S0.17", breaks="barnabas.spark.handover:Handover.poll_next")
@pytest.mark.shows("S0.29", breaks=LOOP)
@pytest.mark.shows("S0.30", breaks=DECODED)
@pytest.mark.shows("S0.31", breaks=DECODED)
@pytest.mark.shows("S0.10", breaks=DECODED)
def test_every_fetched_batch_is_decoded_with_its_timestamps_and_given_on() -> None:
    consumer = Consumer([encoded(0, 3)], [], [encoded(3, 2), encoded(5, 4)])

    batches = list(fetcher_of(consumer, 0, 9).run_fetch_loop())

    assert [batch.num_rows for batch in batches] == [3, 6]  # what one poll brings is one batch while it is small
    assert offsets_of(batches) == list(range(9))
    assert batches[1].column("value").to_pylist()[:2] == [b"v3", b"v4"]
    assert [stamp.timestamp() for stamp in batches[0].column("timestamp").to_pylist()][:1] == [1_370_000_000.0]


@pytest.mark.shows("S0.32", breaks=LOOP)
@pytest.mark.shows("S0.35", breaks=LOOP)
def test_what_crosses_the_threads_is_bytes_and_the_task_decodes() -> None:
    decoders = []

    class Observed(FetchedData):
        def append_to(self, builder: Any, position: int, end_offset: int | None = None) -> int:
            decoders.append(threading.current_thread())
            return super().append_to(builder, position, end_offset)

    data = Observed(*encoded(0, 3))
    consumer = Consumer([data])
    list(fetcher_of(consumer, 0, 3).run_fetch_loop())

    assert isinstance(data.data, bytes)
    assert decoders == [threading.current_thread()]
    assert consumer.polled_by  # Kafka is called by the other thread only
    assert threading.current_thread() not in consumer.polled_by


@pytest.mark.shows("S0.20", breaks=DECODED)
def test_it_begins_and_ends_where_the_range_does() -> None:
    batches = fetcher_of(Consumer([encoded(0, 10)]), 3, 7).run_fetch_loop()

    assert offsets_of(batches) == [3, 4, 5, 6]


def test_what_was_fetched_beyond_the_range_stays_for_the_next_task() -> None:
    fetcher = fetcher_of(Consumer([encoded(0, 10)]), 0, 4)

    list(fetcher.run_fetch_loop())
    consumer = Consumer()
    following_task = fetcher_of(consumer, 4, 10, fetcher.fetched_ahead(PARTITION))

    assert offsets_of(following_task.run_fetch_loop()) == [4, 5, 6, 7, 8, 9]
    assert consumer.polls == 0
    assert following_task.fetched_ahead(PARTITION) == []


def test_ranges_of_several_partitions_are_read_by_one_poll_and_each_keeps_its_own_rest() -> None:
    other = TopicPartition("t", 1)
    consumer = Consumer([encoded(0, 5), encoded(20, 5, other)], [encoded(25, 5, other)])
    handover: Handover[Sequence[FetchedData]] = Handover()
    ranges = [OffsetRange(PARTITION, 1, 4), OffsetRange(other, 20, 27)]
    fetcher = KafkaFetcher(ranges, KafkaConsumerThread(consumer, handover), handover, ("partition", "offset"))

    batches = list(fetcher.run_fetch_loop())

    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert found == [(0, 1), (0, 2), (0, 3), *[(1, offset) for offset in range(20, 27)]]
    assert [batch.num_rows for batch in batches] == [8, 2]
    assert fetcher.positions == {PARTITION: 4, other: 27}
    assert fetcher.fetched_ahead(other) == [encoded(25, 5, other)]


def test_large_data_is_given_on_as_it_comes_and_not_collected() -> None:
    large = [encoded(first, 20_000) for first in (0, 20_000)]

    batches = list(fetcher_of(Consumer(large), 0, 40_000).run_fetch_loop())

    assert [batch.num_rows for batch in batches] == [20_000, 20_000]


def test_data_with_a_gap_before_it_is_not_taken_for_what_follows() -> None:
    assert following([encoded(0, 3), encoded(5, 3)], 1) == [encoded(0, 3)]
    assert following([encoded(5, 3)], 4) == []


@pytest.mark.shows("S0.27", breaks=LOOP)
@pytest.mark.shows("S0.33", breaks=LOOP)
@pytest.mark.shows("S0.34", breaks=LOOP)
def test_whether_it_ends_by_itself_by_an_error_or_early_the_thread_is_shut_down_and_joined() -> None:
    by_itself = fetcher_of(Consumer([encoded(0, 2)]), 0, 2)
    by_error = fetcher_of(Consumer([encoded(0, 2)], AuthorizationError("not yours")), 0, 9)
    # The second batch is for a loop that has lost the first: waiting for one that never comes would tell nothing.
    early = fetcher_of(Consumer([encoded(0, 2)], [encoded(2, 2)]), 0, 9)

    assert offsets_of(by_itself.run_fetch_loop()) == [0, 1]
    with pytest.raises(AuthorizationError, match="not yours"):
        list(by_error.run_fetch_loop())
    loop = early.run_fetch_loop()
    assert offsets_of([next(loop)]) == [0, 1]
    loop.close()  # type: ignore[attr-defined]  # it is a generator

    for fetcher in (by_itself, by_error, early):
        thread = fetcher._thread._thread
        assert thread is not None
        assert not thread.is_alive()


@pytest.mark.shows("S0.8", breaks="barnabas.spark.kafka_fetcher:KafkaFetcher.cancel")
def test_cancelled_it_ends_without_an_error() -> None:
    fetcher = fetcher_of(Consumer([encoded(0, 2)]), 0, 9)
    loop = fetcher.run_fetch_loop()
    next(loop)

    # One that is not cancelled polls for ever.
    end = threading.Timer(20, fetcher._handover.close)
    end.start()
    fetcher.cancel()

    try:
        assert list(loop) == []
    finally:
        end.cancel()


@pytest.mark.shows("S0.33", breaks="barnabas.spark.kafka_fetcher:KafkaFetcher._poll_next")
def test_a_hand_over_closed_by_others_is_an_error() -> None:
    fetcher = fetcher_of(Consumer(), 0, 9)
    fetcher._handover.close()

    with pytest.raises(ClosedError):
        list(fetcher.run_fetch_loop())


def test_a_corrupt_batch_is_an_error_that_names_partition_and_offset() -> None:
    good = encoded(0, 3)
    data = bytearray(good.data)
    data[-1] ^= 0xFF
    fetcher = fetcher_of(Consumer([good._replace(data=bytes(data))]), 0, 3)

    with pytest.raises(CorruptRecordError, match="t-0 cannot be read from offset 0"):
        list(fetcher.run_fetch_loop())


@pytest.mark.shows("S0.5", breaks="barnabas.records.fetched_batches:AbortedFilter.is_aborted")
def test_what_a_transaction_took_back_is_not_given_on_with_read_committed() -> None:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(1, None, b"taken back")
    builder.set_producer_state(7, 0, 0, transactional=True)
    marker = build_end_txn_marker(EndTxnMarker(0, 0), producer_id=7, producer_epoch=0, timestamp_ms=2, base_offset=1)
    bytes_of_both = builder.close(base_offset=0) + marker
    uncommitted = FetchedData(PARTITION, 0, 2, bytes_of_both, True, None)
    committed = uncommitted._replace(aborted_transactions=[(7, 0)])

    found = [offsets_of(fetcher_of(Consumer([data]), 0, 2).run_fetch_loop()) for data in (uncommitted, committed)]

    assert found == [[0], []]  # the marker is no record, and the range ends all the same


@pytest.mark.shows("S0.4", breaks=LOOP)
def test_a_slow_chain_behind_the_source_does_not_stop_the_thread_before_it_is_a_batch_ahead() -> None:
    consumer = Consumer([encoded(0, 1)], [encoded(1, 1)], [encoded(2, 1)])
    fetcher = fetcher_of(consumer, 0, 3)
    loop = fetcher.run_fetch_loop()

    next(loop)  # the chain works on the first batch and asks for no more
    while consumer.polls < 3:  # meanwhile the thread fetches: one into the slot, one into its hand
        threading.Event().wait(0.001)

    assert offsets_of(loop) == [1, 2]


@pytest.mark.shows("S0.41", breaks=DECODED)
def test_the_thread_produces_the_fetcher_consumes_and_the_handover_stands_between_them() -> None:
    served = [[encoded(first, 1)] for first in range(4)]
    consumer = Consumer(*served)
    fetcher = fetcher_of(consumer, 0, 4)
    handover, passed = fetcher._handover, list[tuple[str, threading.Thread, Any]]()
    produce, poll_next = handover.produce, handover.poll_next

    def noted_produce(batch: Sequence[FetchedData]) -> None:
        passed.append(("in", threading.current_thread(), batch))
        produce(batch)

    def noted_poll_next() -> Sequence[FetchedData]:
        batch = poll_next()
        passed.append(("out", threading.current_thread(), batch))
        return batch

    handover.produce, handover.poll_next = noted_produce, noted_poll_next  # type: ignore[method-assign]

    assert offsets_of(fetcher.run_fetch_loop()) == [0, 1, 2, 3]

    assert [batch for way, _, batch in passed if way == "in"] == served
    assert [batch for way, _, batch in passed if way == "out"] == served
    assert {thread for way, thread, _ in passed if way == "in"} == consumer.polled_by
    assert {thread for way, thread, _ in passed if way == "out"} == {threading.current_thread()}


class Growing(Consumer):
    """A log to which records come; each poll brings all that are new."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = 0
        self.fetched = 0
        self.empty_polls = 0

    def poll_raw(self, timeout: float) -> Sequence[FetchedData]:
        first, count = self.fetched, self.arrived - self.fetched
        self.fetched += count
        if not count:
            self.empty_polls += 1
            assert self.empty_polls < 3000, "the task waits for what was handed to it already"
            threading.Event().wait(0.001)
        return [encoded(first, count)] if count else []

    def grow(self, count: int, *, until_fetched: bool = True) -> None:
        """Lets records come, and the thread fetch them."""
        self.arrived += count
        while until_fetched and self.fetched < self.arrived:
            threading.Event().wait(0.001)


@pytest.mark.shows("S0.64", breaks=DECODED)
def test_a_task_that_keeps_up_gets_each_record_by_itself_and_a_slow_one_gets_what_came_meanwhile_at_once() -> None:
    consumer = Growing()
    loop = fetcher_of(consumer, 0, 30).run_fetch_loop()
    sizes = []
    for _ in range(3):
        consumer.grow(1, until_fetched=False)
        sizes.append(next(loop).num_rows)

    consumer.grow(1)  # into the slot
    consumer.grow(1)  # into the thread's hand
    consumer.grow(25, until_fetched=False)  # stays with the broker: the task is busy
    sizes += [batch.num_rows for batch in loop]

    assert sizes == [1, 1, 1, 1, 1, 25]


WITHOUT_AN_ENGINE = """
import sys
sys.modules["pyspark"] = None  # an import of it fails
from tests.unit.spark.test_kafka_fetcher import Consumer, encoded, fetcher_of, offsets_of
print(offsets_of(fetcher_of(Consumer([encoded(0, 3)], [encoded(3, 2)]), 0, 5).run_fetch_loop()))
"""


@pytest.mark.shows("S0.18", breaks=LOOP)
def test_the_fetcher_needs_no_engine_and_only_its_thread_polls_kafka() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_AN_ENGINE], capture_output=True, text=True, check=False)
    assert run.stdout == "[0, 1, 2, 3, 4]\n", run.stderr

    rooms = Path(fetch_loop.__file__).parent
    # The driver reads the decision log, which is no source; a queue's task polls its ShareConsumer, without a Handover.
    others = {"share_group_reader.py"}
    sources = [path for path in rooms.rglob("*.py") if path.parent.name != "exactly_once" and path.name not in others]
    polling = {path.name for path in sources if re.search(r"\.poll(_raw|_arrow)?\(", path.read_text(encoding="utf-8"))}
    assert polling == {"kafka_consumer_thread.py"}


@pytest.mark.shows("S0.19", breaks="barnabas.spark.fetch_loop:_fetcher")
def test_a_fetcher_is_made_of_options_a_consumer_a_range_and_data_fetched_ahead() -> None:
    options = SourceOptions({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "columns": "offset"},
                            streaming=True)  # fmt: skip
    consumer = fetch_loop._new_consumer(options)

    fetcher = fetch_loop._fetcher(options, consumer, [OffsetRange(PARTITION, 0, 3)], [encoded(0, 3)])

    assert consumer.position(PARTITION) == 3  # the thread would go on behind what is at hand
    assert [batch.to_pydict() for batch in fetcher.run_fetch_loop()] == [{"offset": [0, 1, 2]}]
    consumer.close()
