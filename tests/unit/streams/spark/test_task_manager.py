"""What a task's process makes of the rows of a batch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.arrow import arrow_schema
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once.commit_protocol import Task as SparkTask
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState
from barnabas.spark.ranges import OffsetRange
from barnabas.streams import StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark import rows
from barnabas.streams.spark.batch_stages import Request
from barnabas.streams.spark.internal_topics import TopicCounts, counted
from barnabas.streams.spark.read_positions import note_of_reading
from barnabas.streams.spark.task_manager import TaskHome
from barnabas.streams.topology.processor_api import TaskId


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskHome]:
    """The process of a task that merges two topics and keeps nothing; nothing was decided yet."""
    builder = StreamsBuilder()
    builder.stream("b").merge(builder.stream("a")).to("out")
    config = {
        "application.id": "app", "bootstrap.servers": "nowhere:1", "state.dir": str(tmp_path),
        "default.key.serde": "string", "default.value.serde": "string",
    }  # fmt: skip
    planned = plan.planned(builder.build(), StreamsConfig(config))
    found = TaskHome(plan.application(planned, TopicCounts({"a": 1, "b": 1}, {}), {"out": 1}))
    monkeypatch.setattr(found, "decision", lambda query, least: None)
    yield found
    found.close()


def merged_rows(*records: tuple[str, int, str]) -> pa.RecordBatch:
    schema = arrow_schema(rows.INPUT_COLUMNS)
    columns: dict[str, list[Any]] = {name: [] for name in rows.INPUT_COLUMNS}
    for offset, (topic, time, value) in enumerate(records):
        row = {"key": b"k", "value": value.encode(), "topic": topic, "partition": 0, "offset": offset,
               "timestamp": time * 1000, "headers": []}  # fmt: skip
        for name, cell in row.items():
            columns[name].append(cell)
    arrays = [pa.array(columns[field.name], pa.int64()).cast(field.type) if field.name == "timestamp"
              else pa.array(columns[field.name], field.type) for field in schema]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


RECORDS = [
    ("b", 15, "1"),
    ("a", 15, "2"),
    ("a", 25, "3"),
    ("b", 25, "4"),
    ("b", 0, "5"),
    ("b", 25, "6"),
    ("a", 26, "7"),
]


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_records_are_taken_in_the_order_of_the_source_in_whatever_pieces_they_come(home: TaskHome, piece: int) -> None:
    ranges = tuple(OffsetRange(TopicPartition(topic, 0), 0, end) for topic, end in (("a", 3), ("b", 4)))
    request = Request(SparkTask("q", "r", 0, 0), PlannedTask("0_0", 0, ranges, 100, ()), {})
    pieces = [merged_rows(*RECORDS[at : at + piece]) for at in range(0, len(RECORDS), piece)]

    with contextlib.closing(home.attempt(request, pieces)) as attempt:
        found = [row for batch in attempt.rows for row in batch.to_pylist()]

    assert [row["value"] for row in found] == [value.encode() for *_, value in RECORDS]
    assert attempt.note is not None
    assert not attempt.was_decided
    assert json.loads(attempt.note.text)["positions"] == {"a": {"0": 3}, "b": {"0": 4}}


def test_a_batch_that_is_decided_is_neither_read_nor_computed(home: TaskHome, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Decision(0, "r", COMPLETE, (), states=(TaskState("0_0", "{}", {}),))
    monkeypatch.setattr(home, "decision", lambda query, least: decided)
    request = Request(SparkTask("q", "r", 0, 0), PlannedTask("0_0", 0, (), 100, ()), {})

    def unread() -> Iterator[pa.RecordBatch]:
        raise AssertionError("it was read")
        yield

    with contextlib.closing(home.attempt(request, unread())) as attempt:
        assert [*attempt.rows] == []

    assert attempt.note is None
    assert attempt.was_decided


def counting_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> TaskHome:
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda key, value: value).count(store="words").to_stream().map_values(str).to(
        "out"
    )
    config = {
        "application.id": "app", "bootstrap.servers": "nowhere:1", "state.dir": str(folder),
        "default.key.serde": "string", "default.value.serde": "string",
    }  # fmt: skip
    planned = plan.planned(builder.build(), StreamsConfig(config))
    counts = counted(planned.infos, planned.copartitioned, {"lines": 2})
    found = TaskHome(plan.application(planned, counts, {"out": 1}))
    monkeypatch.setattr(found, "decision", lambda query, least: None)
    monkeypatch.setattr(found, "restore", lambda held, given, state: with_task(found, held))
    return found


def with_task(home: TaskHome, held: Any) -> None:
    held.task = Task(home.topology_of(TaskId(0, 0)), TaskId(0, 0), TaskSettings(home._config))


@pytest.mark.parametrize("is_within", [True, False])
def test_a_task_notes_where_its_repartition_topics_end_if_others_read_them_within_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_within: bool
) -> None:
    home, topic = counting_home(tmp_path, monkeypatch), "app-words-repartition"
    ranges = (OffsetRange(TopicPartition("lines", 0), 0, 1),)
    request = Request(SparkTask("q", "r", 0, 0), PlannedTask("0_0", 0, ranges, 100, ()), {}, is_within=is_within)

    with contextlib.closing(home.attempt(request, [merged_rows(("lines", 1, "a"))])) as attempt:
        found = [row["topic"] for batch in attempt.rows for row in batch.to_pylist()]

    assert found == [topic]
    assert attempt.note is not None
    note = json.loads(attempt.note.text)
    assert (note["inner"], note.get("within", False)) == ([topic], is_within)
    assert attempt.note.topics == ((topic,) if is_within else ())
    ends = {TopicPartition(topic, 1): 9, TopicPartition("lines", 0): 3}
    assert attempt.note.state(ends.items()).ends == ({topic: {"1": 9}} if is_within else {})
    home.close()


def test_what_a_reader_noted_tells_from_where_to_where_it_has_read() -> None:
    ranges = [("between", 1, 4, 9), ("others", 1, 2, 3)]

    assert note_of_reading(ranges, {"between"}, (), is_within=False) == {
        "positions": {"between": {"1": 9}, "others": {"1": 3}}, "began": {"between": {"1": 4}},
    }  # fmt: skip
