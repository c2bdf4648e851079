"""What a task's process makes of the rows of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from barnabas.records.arrow import arrow_schema
from barnabas.spark.client_settings import ClientSettings
from barnabas.spark.exactly_once.driver import SinkPlace
from barnabas.spark.exactly_once.protocol import Task
from barnabas.spark.exactly_once.task_notes import NOTE_TOPIC
from barnabas.streams import StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark import plan, rows
from barnabas.streams.spark.application import Application
from barnabas.streams.spark.task_home import Request, TaskHome


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskHome]:
    """The process of a task that merges two topics and keeps nothing; nothing was decided yet."""
    builder = StreamsBuilder()
    builder.stream("b").merge(builder.stream("a")).to("out")
    config = {
        "application.id": "app", "bootstrap.servers": "nowhere:1", "state.dir": str(tmp_path),
        "default.key.serde": "string", "default.value.serde": "string",
    }  # fmt: skip
    topologies = plan.planned(builder.build(), StreamsConfig(config)).subtopologies
    place = SinkPlace((), "decisions", "prefix")
    found = TaskHome(Application("app", config, topologies, None, {"out": 1}, frozenset(), place, ClientSettings({})))
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
    planned = {"task": "0_0", "now_ms": 100, "ranges": [["a", 0, 0, 3], ["b", 0, 0, 4]], "shared": []}
    request = Request(Task("q", "r", 0, 0), json.dumps(planned))
    pieces = [merged_rows(*RECORDS[at : at + piece]) for at in range(0, len(RECORDS), piece)]

    found = [row for batch in home.run(request, pieces) for row in batch.to_pylist()]

    assert [row["value"] for row in found if row["topic"] != NOTE_TOPIC] == [value.encode() for *_, value in RECORDS]
    (note,) = (json.loads(row["value"]) for row in found if row["topic"] == NOTE_TOPIC)
    assert json.loads(note[1])["positions"] == {"a": {"0": 3}, "b": {"0": 4}}
