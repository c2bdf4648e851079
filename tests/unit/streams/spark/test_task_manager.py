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
from barnabas.spark.exactly_once.commit_protocol import Task
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState
from barnabas.spark.ranges import OffsetRange
from barnabas.streams import StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark import rows
from barnabas.streams.spark.internal_topics import TopicCounts
from barnabas.streams.spark.task_manager import Request, TaskHome


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
    request = Request(Task("q", "r", 0, 0), PlannedTask("0_0", 0, ranges, 100, ()), {})
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
    request = Request(Task("q", "r", 0, 0), PlannedTask("0_0", 0, (), 100, ()), {})

    def unread() -> Iterator[pa.RecordBatch]:
        raise AssertionError("it was read")
        yield

    with contextlib.closing(home.attempt(request, unread())) as attempt:
        assert [*attempt.rows] == []

    assert attempt.note is None
    assert attempt.was_decided
