"""The driver's bookkeeping against a cluster whose answers are scripted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import DataLossError
from barnabas.spark.options import SourceOptions
from barnabas.spark.stream_reader import KafkaStreamReader

FIRST = TopicPartition("t", 0)
GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}


class ScriptedCluster:
    """Ends of one partition, one for each time they are asked for; the last one stays."""

    def __init__(self, *ends: int, topic_ids: Iterable[bytes] = (b"1",)) -> None:
        self.ends = list(ends)
        self.asked = 0
        self._ids = list(topic_ids)
        self.topic_ids = {"t": self._ids[0]}

    def latest(self, *, fresh: bool = False) -> dict[TopicPartition, int]:
        """The next answer."""
        number, self.asked = self.asked, self.asked + 1
        self.topic_ids = {"t": self._ids[min(number, len(self._ids) - 1)]}
        return {FIRST: self.ends[min(number, len(self.ends) - 1)]}


def reader_of(cluster: Any, **options: str) -> KafkaStreamReader:
    reader = KafkaStreamReader(SourceOptions({**GIVEN, **options}, streaming=True))
    reader._offsets = cluster
    return reader


def test_an_end_before_what_was_read_is_asked_for_again_before_it_counts_as_a_loss() -> None:
    cluster = ScriptedCluster(3, 4, 9)

    end = reader_of(cluster).latestOffset({"t": {"0": 7}}, ReadAllAvailable())

    assert end == {"t": {"0": 9}}
    assert cluster.asked == 3


def test_an_end_that_stays_before_what_was_read_is_a_loss() -> None:
    cluster = ScriptedCluster(3)

    with pytest.raises(DataLossError, match="t-0 ends at offset 3 but the query had read it up to 7"):
        reader_of(cluster, **{"fetchOffset.numRetries": "2"}).latestOffset({"t": {"0": 7}}, ReadAllAvailable())

    assert cluster.asked == 3


def test_a_query_that_reads_what_is_there_now_takes_the_better_answer_for_its_end() -> None:
    cluster = ScriptedCluster(3, 9, 12)
    reader = reader_of(cluster)
    reader.prepareForTriggerAvailableNow()

    ends = [reader.latestOffset({"t": {"0": start}}, ReadAllAvailable()) for start in (7, 9)]

    assert ends == [{"t": {"0": 9}}, {"t": {"0": 9}}]


def test_a_topic_that_was_created_again_may_end_before_what_was_read_and_is_not_asked_again() -> None:
    cluster = ScriptedCluster(7, 2, topic_ids=(b"1", b"2"))
    reader = reader_of(cluster, failOnDataLoss="false")

    ends = [reader.latestOffset({"t": {"0": 7}}, ReadAllAvailable()) for _ in range(2)]

    assert ends == [{"t": {"0": 7}}, {"t": {"0": 2}}]
    assert cluster.asked == 2
