"""Tasks of several topic-partitions: which there are, in which order they read, and which time they are told."""

from __future__ import annotations

import datetime
import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitioned_reader import CoPartition, CoPartitionedStreamReader
from barnabas.spark.co_partitioned_rows import merged
from barnabas.spark.co_partitions import CoPartitions, Group, parse_co_partitions, planned_tasks
from barnabas.spark.errors import OptionError
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

SERVERS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a,b,c"}
WANTED = CoPartitions({"0": Group(("b", "a")), "1": Group(("c",), 1000)}, ("g",))


def ranges(**sizes: list[int]) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition(topic, number), 5, 5 + size)
        for topic, found in sizes.items()
        for number, size in enumerate(found)
    ]


def test_partition_p_of_all_topics_of_a_group_is_one_task_in_the_order_of_the_group() -> None:
    tasks = planned_tasks(WANTED, ranges(a=[1, 0, 1], b=[1, 0], c=[0], g=[3]), 100, 200)

    assert [(task.name, [each.topic_partition for each in task.ranges]) for task in tasks] == [
        ("0_0", [("b", 0), ("a", 0)]), ("0_2", [("a", 2)]),
    ]  # fmt: skip
    told = json.loads(tasks[0].to_json())
    assert told["ranges"] == [["b", 0, 5, 6], ["a", 0, 5, 6]]
    assert (told["task"], told["now_ms"], told["shared"]) == ("0_0", 200, [["g", 0, 5, 8]])


@pytest.mark.parametrize(
    ("before", "now", "due"), [(0, 999, []), (0, 1000, ["1_0", "1_1"]), (1000, 1999, []), (900, 5000, ["1_0", "1_1"])]
)
def test_tasks_of_a_group_with_a_clock_run_without_records_when_it_is_due(
    before: int, now: int, due: list[str]
) -> None:
    found = planned_tasks(WANTED, ranges(a=[0], b=[0], c=[0, 0]), before, now)

    assert [task.name for task in found] == due


#: The second group reads topics that are not planned, and no others.
WITHIN = CoPartitions({"0": Group(("a",)), "1": Group((), 1000, tasks=3)})


@pytest.mark.parametrize(("before", "now", "due"), [(0, 999, []), (0, 1000, ["1_0", "1_1", "1_2"])])
def test_tasks_of_topics_that_are_not_planned_run_when_their_clock_is_due(
    before: int, now: int, due: list[str]
) -> None:
    found = planned_tasks(WITHIN, ranges(a=[0]), before, now)

    assert [(task.name, task.ranges) for task in found] == [(name, ()) for name in due]


@pytest.mark.parametrize("wanted", [WANTED, WITHIN])
def test_the_option_reads_as_it_was_written(wanted: CoPartitions) -> None:
    assert parse_co_partitions(wanted.to_json()) == wanted


@pytest.mark.parametrize(
    "value",
    ["", "[]", "{}", '{"groups":{}}', '{"groups":{"0":{"topics":"a"}}}', '{"groups":{"0":{"topics":["a"],"clock":1}}}',
     '{"groups":{"0":{"topics":["a"],"clock_ms":0}}}', '{"groups":{"0":{"topics":[],"tasks":true}}}',
     '{"groups":{"0":{"topics":["a"]}},"more":1}'],
)  # fmt: skip
def test_what_is_not_of_its_form_is_refused(value: str) -> None:
    with pytest.raises(OptionError, match="coPartitions"):
        SourceOptions({**SERVERS, "coPartitions": value}, streaming=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"minPartitions": "3"}, "cannot be combined"), ({"columns": "key,value"}, "must not leave out")],
)
def test_what_contradicts_it_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions({**SERVERS, "coPartitions": WANTED.to_json(), **given}, streaming=True)


def test_it_is_for_streams_only() -> None:
    with pytest.raises(OptionError, match="streaming queries"):
        SourceOptions({**SERVERS, "coPartitions": WANTED.to_json()}, streaming=False)


class Inner:
    """Where a `KafkaStreamReader` would ask the brokers."""

    def __init__(self, ends: list[dict[str, dict[str, int]]]) -> None:
        self.ends = ends
        self.topic_ids: dict[str, bytes | None] = {}

    def latestOffset(self, start: Any, limit: Any) -> Any:
        return self.ends.pop(0)

    def ranges(self, start: Any, end: Any) -> list[OffsetRange]:
        return [OffsetRange(TopicPartition("c", 0), start["c"]["0"], end["c"]["0"])]


def reader(ends: list[dict[str, dict[str, int]]], *times: int) -> CoPartitionedStreamReader:
    clock = iter(times)
    options = SourceOptions({**SERVERS, "coPartitions": WANTED.to_json()}, streaming=True)
    found = CoPartitionedStreamReader(options, WANTED, lambda: next(clock))
    found._reader = Inner(ends)  # type: ignore[assignment]
    return found


def test_a_micro_batch_has_its_time_in_its_offsets_and_an_idle_query_plans_none() -> None:
    start = {"c": {"0": 1}, "": {"0": 1500}}
    stream = reader([{"c": {"0": 1}}, {"c": {"0": 1}}, {"c": {"0": 3}}, {"c": {"0": 3}}], 1600, 2000, 2001, 1400)

    assert stream.latestOffset(start, ReadAllAvailable()) == start
    assert stream.latestOffset(start, ReadAllAvailable()) == {"c": {"0": 1}, "": {"0": 2000}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"c": {"0": 3}, "": {"0": 2001}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"c": {"0": 3}, "": {"0": 1500}}, (
        "the time never goes back"
    )


def test_a_query_of_topics_that_are_not_planned_begins_with_a_micro_batch() -> None:
    """Records may wait there, and no offset tells."""
    start = {"a": {"0": 1}, "": {"0": 1500}}
    options = SourceOptions({**SERVERS, "coPartitions": WITHIN.to_json()}, streaming=True)
    clock = iter([1400, 1600])
    stream = CoPartitionedStreamReader(options, WITHIN, lambda: next(clock))
    stream._reader = Inner([{"a": {"0": 1}}] * 2)  # type: ignore[assignment]

    first = stream.latestOffset(start, ReadAllAvailable())

    assert first == {"a": {"0": 1}, "": {"0": 1501}}
    assert stream.latestOffset(first, ReadAllAvailable()) == first


def test_a_micro_batch_that_is_repeated_has_the_same_tasks_and_time() -> None:
    start, end = {"c": {"0": 1}, "": {"0": 1500}}, {"c": {"0": 3}, "": {"0": 2001}}

    (first,), (second,) = (reader([], 9).partitions(start, end) for _ in range(2))

    assert isinstance(first, CoPartition)
    assert isinstance(second, CoPartition)
    assert first.task == second.task
    assert first.task.now_ms == 2001


rows = st.lists(st.integers(0, 6), max_size=12)
cuts = st.lists(st.integers(0, 12), max_size=4)


def batches(name: str, times: list[int], at: list[int]) -> list[Any]:
    found = pa.RecordBatch.from_pydict({
        "name": pa.array([f"{name}{index}" for index in range(len(times))], pa.string()),
        "timestamp": pa.array(
            [datetime.datetime.fromtimestamp(each, datetime.UTC) for each in times], pa.timestamp("us", tz="UTC")
        ),
    })  # fmt: skip
    ends = [0, *sorted(min(place, len(times)) for place in at), len(times)]
    return [found.slice(start, end - start) for start, end in itertools.pairwise(ends)]


@given(st.lists(st.tuples(rows, cuts), min_size=1, max_size=4))
def test_the_least_of_the_first_records_comes_next_wherever_batches_end(
    streams: list[tuple[list[int], list[int]]],
) -> None:
    expected, left = [], [[*times] for times, _ in streams]
    while any(left):
        _, index = min((times[0], index) for index, times in enumerate(left) if times)
        expected.append(f"{'abcd'[index]}{len(streams[index][0]) - len(left[index])}")
        left[index].pop(0)

    found = merged([iter(batches("abcd"[index], *each)) for index, each in enumerate(streams)])

    assert [name for batch in found for name in batch.column("name").to_pylist()] == expected
