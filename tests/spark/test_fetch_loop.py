"""What a task does, without Spark: ranges of offsets become Arrow batches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import Producer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark import fetch_loop
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

NewTopicName = Callable[[int], str]
COUNT = 100


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
    return fetch_loop.read_range(given, OffsetRange(TopicPartition(topic, 0), start, end))


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
    batches = read(servers, topic, 0, COUNT, **{"kafka.max.partition.fetch.bytes": "20000"})

    assert max(batch.num_rows for batch in batches) < COUNT / 2


def test_a_new_worker_reads_without_loading_pandas(servers: str, topic: str) -> None:
    program = (
        "import sys; from barnabas.spark import fetch_loop; from barnabas.spark.options import SourceOptions; "
        "from barnabas.spark.ranges import OffsetRange; from barnabas.protocol.topic_partition import TopicPartition; "
        "options = SourceOptions({'kafka.bootstrap.servers': sys.argv[1], 'subscribe': sys.argv[2]}, streaming=False); "
        "wanted = OffsetRange(TopicPartition(sys.argv[2], 0), 0, 9); "
        "rows = [batch.num_rows for batch in fetch_loop.read_range(options, wanted)]; "
        "sys.stdout.write(f\"{sum(rows)} {'pandas' in sys.modules}\")"
    )

    done = subprocess.run([sys.executable, "-c", program, servers, topic], capture_output=True, text=True, check=True)

    assert done.stdout == "9 False"
