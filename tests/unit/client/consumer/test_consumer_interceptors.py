"""Interceptors of a consumer (KIP-42), on a scripted cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas import TopicPartition
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import ConfigError
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

T0 = TopicPartition("t", 0)


class Recorder:
    """Keeps what it sees; hands out every record but those with the value b'secret'."""

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {}
        self.committed: list[dict[TopicPartition, int]] = []
        self.closed = 0

    def configure(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        kept = {
            partition: [record for record in records.records(partition) if record.value != b"secret"]
            for partition in records.partitions()
        }
        return ConsumerRecords(kept, records.next_offsets)

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.append({partition: offset.offset for partition, offset in offsets.items()})

    def close(self) -> None:
        self.closed += 1


class Failing:
    def on_consume(self, records: object) -> object:
        raise ValueError("no")


def test_interceptors_see_records_first_and_commits_of_every_kind(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"secret", b"b")
    seen = Recorder()
    consumer = cluster.consumer(
        "t",
        group_id="g",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=5000,
        interceptor_classes=[Failing, seen],
    )

    values = [record.value for _ in range(3) for record in consumer.poll(1)]
    assert values == [b"a", b"b"]
    assert consumer.position(T0) == 3
    consumer.commit({T0: 1})
    consumer.commit_async({T0: 2})
    consumer.poll(6)
    assert seen.committed[:2] == [{T0: 1}, {T0: 2}]
    assert {T0: 3}.items() <= seen.committed[2].items()
    consumer.close()

    assert seen.closed == 1
    assert seen.settings["group.id"] == "g"


def test_a_commit_that_failed_is_no_commit(cluster: ScriptedCluster) -> None:
    seen = Recorder()
    consumer = cluster.consumer("t", group_id="g", enable_auto_commit=False, interceptor_classes=[seen])
    consumer.poll(1)
    cluster.errors[ApiKey.OFFSET_COMMIT] = deque([12])
    with pytest.raises(Exception, match="metadata"):
        consumer.commit({T0: 1})

    assert seen.committed == []


def test_what_is_no_interceptor_is_refused(cluster: ScriptedCluster) -> None:
    with pytest.raises(ConfigError, match=r"on_consume"):
        cluster.consumer("t", group_id="g", interceptor_classes=[object()])
