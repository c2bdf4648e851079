"""Tasks of Spark's source on the stage of `barnabas anatomy`: each case of their Handover comes about."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count, cycle
from typing import TYPE_CHECKING, NamedTuple

from barnabas import AdminClient
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.spark.options import SourceOptions
    from barnabas.spark.ranges import OffsetRange

#: Offsets of a partition that a task reads, at most.
_RANGE = 60
#: Bytes of a fetch, so that a range comes in several batches.
_FETCH = "1500"


class _Way(NamedTuple):
    """How a task goes on: seconds for a batch, after how many it is not wanted any more, how far behind the end."""

    seconds: float
    batches: int | None = None
    beyond: int = 0


#: A slow task, so that its thread waits; one that ends early, so that the thread is woken; one that is to read what is
#: not there, so that the thread fails.
_WAYS = (_Way(0.2), _Way(0.5, batches=2), _Way(0.0, beyond=1_000_000))


def run_tasks(servers: str, topic: str, partitions: int, is_over: threading.Event) -> None:
    """Read the newest records of a topic again and again, as a task of Spark's source does; needs PyArrow, no Spark.

    Raises `KafkaError` when the brokers cannot be reached any more.
    """
    from barnabas.spark.options import SourceOptions

    options = SourceOptions(
        {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "kafka.client.id": "spark-task",
            "kafka.max.partition.fetch.bytes": _FETCH,
            "kafkaConsumer.pollTimeoutMs": "500",
        },
        streaming=False,
    )
    names = [TopicPartition(topic, number) for number in range(partitions)]
    with AdminClient(bootstrap_servers=servers) as admin:
        for number, way in zip(count(), cycle(_WAYS)):
            if is_over.wait(1.0):
                return
            _run_task(options, _newest(admin, names[number % partitions], way.beyond), way, is_over)


def _newest(admin: AdminClient, name: TopicPartition, beyond: int) -> OffsetRange:
    from barnabas.client.admin.partition_offsets import OffsetSpec
    from barnabas.spark.ranges import OffsetRange

    begin = admin.list_offsets({name: int(OffsetSpec.EARLIEST)})[name].offset
    end = admin.list_offsets({name: int(OffsetSpec.LATEST)})[name].offset
    return OffsetRange(name, max(begin, end - _RANGE) if not beyond else end + beyond, end + 2 * beyond)


def _run_task(options: SourceOptions, wanted: OffsetRange, way: _Way, is_over: threading.Event) -> None:
    from barnabas.spark.errors import DataLossError
    from barnabas.spark.fetch_loop import read_ranges

    batches: Iterator[pa.RecordBatch] = read_ranges(options, [wanted], {})
    with closing(batches):  # type: ignore[type-var]
        for number in count(1):
            try:
                if next(batches, None) is None:
                    return
            except (DataLossError, KafkaError):
                # Also where retention has taken records away meanwhile.
                return
            if is_over.wait(way.seconds) or number == way.batches:
                return
