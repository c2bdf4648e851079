"""What a task does, without Spark: ranges of offsets become Arrow batches."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Producer
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark import fetch_loop
from barnabas.spark.errors import DataLossError
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

NewTopicName = Callable[[int], str]
COUNT = 100
SMALL_FETCHES = {"kafka.max.partition.fetch.bytes": "20000"}


@pytest.fixture
def topic(servers: str, new_topic: NewTopicName) -> str:
    """A topic with numbered records of about 1 KB in one partition."""
    name = new_topic(1)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(COUNT):
            producer.send(name, b"%03d" % number + bytes(1000))
    return name


def read(servers: str, topic: str, start: int, end: int, **options: str) -> Iterator[Any]:
    given = SourceOptions({"kafka.bootstrap.servers": servers, "subscribe": topic, **options}, streaming=False)
    return fetch_loop.read_ranges(given, [OffsetRange(TopicPartition(topic, 0), start, end)], {})


def offsets(batches: Iterator[Any]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize(("cache", "is_kept"), [("true", True), ("false", False)])
def test_data_fetched_beyond_a_range_is_kept_unless_the_option_says_no(
    servers: str, topic: str, cache: str, is_kept: bool
) -> None:
    before = fetch_loop._fetched_ahead.size_in_bytes

    first = offsets(read(servers, topic, 0, 40, fetchedDataCache=cache))
    kept = fetch_loop._fetched_ahead.size_in_bytes - before
    second = offsets(read(servers, topic, 40, COUNT, fetchedDataCache=cache))

    assert (kept > 0) is is_kept
    assert first + second == list(range(COUNT))


def test_a_tasks_memory_is_bounded_by_a_fetch_not_by_its_range(servers: str, topic: str) -> None:
    batches = read(servers, topic, 0, COUNT, **SMALL_FETCHES)

    assert max(batch.num_rows for batch in batches) < COUNT / 2


def test_what_was_decoded_is_let_go_of_without_a_garbage_collection(servers: str, topic: str) -> None:
    read_before = offsets(read(servers, topic, 0, 1, fetchedDataCache="false"))
    gc.collect()
    gc.disable()  # a task makes few objects, so that a collection of all is rare
    try:
        batches = [1 for _ in read(servers, topic, 0, COUNT, fetchedDataCache="false", **SMALL_FETCHES)]
        held = sum(isinstance(found, FetchResponse) for found in gc.get_objects())
    finally:
        gc.enable()

    assert read_before == [0]
    assert len(batches) >= 5
    assert held <= 3


def test_of_several_ranges_the_lost_one_is_passed_over_and_the_others_are_whole(
    servers: str, new_topic: NewTopicName
) -> None:
    name = new_topic(3)
    parts = [TopicPartition(name, number) for number in range(3)]
    with Producer(bootstrap_servers=servers) as producer, AdminClient(bootstrap_servers=servers) as admin:
        for number in range(30):
            producer.send(name, b"", partition=number % 3)
        producer.flush()
        admin.delete_records({parts[1]: 6})
    given = SourceOptions(
        {"kafka.bootstrap.servers": servers, "subscribe": name, "failOnDataLoss": "false"}, streaming=False
    )

    batches = fetch_loop.read_ranges(given, [OffsetRange(part, 2, 9) for part in parts], {})

    found = sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())
    wanted = {0: range(2, 9), 1: range(6, 9), 2: range(2, 9)}
    assert found == [(part, offset) for part, offsets_of_it in wanted.items() for offset in offsets_of_it]


def test_a_lost_offset_fails_the_task_and_names_its_partition_among_several(
    servers: str, new_topic: NewTopicName
) -> None:
    name = new_topic(2)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(name, b"", partition=0).result(30)
    ranges = [OffsetRange(TopicPartition(name, 0), 0, 1), OffsetRange(TopicPartition(name, 1), 5, 9)]
    given = SourceOptions({"kafka.bootstrap.servers": servers, "subscribe": name}, streaming=False)

    with pytest.raises(DataLossError, match=f"offsets 5 to 9 of {name}-1 are gone"):
        list(fetch_loop.read_ranges(given, ranges, {}))


def test_an_end_beyond_the_log_is_a_loss_that_may_be_allowed(servers: str, topic: str) -> None:
    beyond = {"kafkaConsumer.pollTimeoutMs": "500"}

    allowed = offsets(read(servers, topic, COUNT - 2, COUNT + 5, failOnDataLoss="false", **beyond))

    assert allowed == [COUNT - 2, COUNT - 1]
    with pytest.raises(DataLossError, match=f"offsets {COUNT} to {COUNT + 5} of {topic}-0 are gone .it holds 0 to 100"):
        offsets(read(servers, topic, COUNT - 2, COUNT + 5, **beyond))


def test_brokers_that_cannot_be_reached_are_named_with_the_offsets_and_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_loop, "LOOK_UP_SECONDS", 0.2)
    given = SourceOptions(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "200"},
        streaming=False,
    )

    with pytest.raises(KafkaTimeoutError) as raised:
        list(fetch_loop.read_ranges(given, [OffsetRange(TopicPartition("t", 0), 5, 9)], {}))

    for words in ("0.2 s", "offsets 5 to 9 of t-0", "127.0.0.1:1", "kafkaConsumer.pollTimeoutMs"):
        assert words in str(raised.value)


def test_a_new_worker_reads_without_loading_pandas(servers: str, topic: str) -> None:
    program = (
        "import sys; from barnabas.spark import fetch_loop; from barnabas.spark.options import SourceOptions; "
        "from barnabas.spark.ranges import OffsetRange; from barnabas.protocol.topic_partition import TopicPartition; "
        "options = SourceOptions({'kafka.bootstrap.servers': sys.argv[1], 'subscribe': sys.argv[2]}, streaming=False); "
        "wanted = OffsetRange(TopicPartition(sys.argv[2], 0), 0, 9); "
        "rows = [batch.num_rows for batch in fetch_loop.read_ranges(options, [wanted], {})]; "
        "sys.stdout.write(f\"{sum(rows)} {'pandas' in sys.modules}\")"
    )

    done = subprocess.run([sys.executable, "-c", program, servers, topic], capture_output=True, text=True, check=True)

    assert done.stdout == "9 False"
