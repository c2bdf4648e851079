"""What the source of a topology plans, from a checkpoint that may be another topology's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import CoPartitions, Group
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.stream_reader import KafkaStreamReader
from barnabas.streams.spark.batch_stages import PlannedBatch
from barnabas.streams.spark.data_source import TaskStreamReader

BEFORE = {"a": {"0": 3}, "": {"0": 10}}


class Offsets:
    """In place of an `OffsetReader`: the group stands at 7, and topics end at 9."""

    topic_ids: dict[str, bytes | None] = {}  # noqa: RUF012  not changed

    def resolve(self, limit: Any) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, 0): 7 for topic in ("a", "b")}

    def earliest(self, partitions: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)


def reader(**groups: Group) -> TaskStreamReader:
    wanted = CoPartitions(groups)
    options = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": ",".join(wanted.topics), "kafka.group.id": "app",
               "startingOffsets": "group", "coPartitions": wanted.to_json()}  # fmt: skip
    found = TaskStreamReader(SourceOptions(options, streaming=True), Path("/nowhere"))
    inner: Any = found._source._reader
    assert isinstance(inner, KafkaStreamReader)
    inner._offsets = Offsets()
    return found


def planned(found: TaskStreamReader, start: Any, end: Any) -> PlannedBatch:
    (partition,) = found.partitions(start, end)
    batch: PlannedBatch = pickle.loads(partition.value)
    return batch


def test_a_topic_that_is_new_to_the_checkpoint_begins_where_the_group_stands() -> None:
    end = {"a": {"0": 4}, "b": {"0": 9}, "": {"0": 20}}

    batch = planned(reader(one=Group(("a", "b"))), BEFORE, end)

    (work,) = batch.works
    assert batch.now_ms == 20
    assert work.task.ranges == (OffsetRange(TopicPartition("a", 0), 3, 4), OffsetRange(TopicPartition("b", 0), 7, 9))


def test_a_batch_that_was_planned_without_a_topic_is_repeated_without_it() -> None:
    """It died before it was decided, and then came a topology that reads more, or the option was switched off."""
    end = {"a": {"0": 4}, "": {"0": 20}}

    batch = planned(reader(one=Group(("a", "b"))), BEFORE, end)

    (work,) = batch.works
    assert work.task.ranges == (OffsetRange(TopicPartition("a", 0), 3, 4),)
