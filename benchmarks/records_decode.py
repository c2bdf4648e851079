"""Record batches: reading them as Python objects, beside aiokafka (compiled) and kafka-python."""

from __future__ import annotations

from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from barnabas.records import RecordsDecoder
from benchmarks._options import options
from benchmarks._records import compare, fetched, is_uncompiled, kafka_python, repeat_uncompiled

COUNT = 200_000
TAKE = 500


def ours(data: bytes) -> None:
    """Take 500 records at a time, as a consumer does, checksums checked."""
    decoder = RecordsDecoder(data, "topic", 0)
    while decoder.take(TAKE):
        pass


def theirs(memory_records: Any, data: bytes) -> None:
    """Go through the records of aiokafka or kafka-python and look at key and value, checksums checked."""
    records = memory_records(data)
    while records.has_next():
        batch = records.next_batch()
        batch.validate_crc()
        for record in batch:
            record.key  # noqa: B018 - aiokafka makes the object here
            record.value  # noqa: B018


def main() -> None:
    """Measure and print."""
    if is_uncompiled():
        small = fetched(10_000)
        compare("reading", {"barnabas, uncompiled": (10_000, lambda _count: ours(small))}, rounds=5)
        return
    _default_records, memory_records = kafka_python()
    large, small = fetched(COUNT), fetched(10_000)
    compare(
        "reading records as objects",
        {
            "barnabas, takes of 500": (COUNT, lambda _count: ours(large)),
            f"aiokafka ({MemoryRecords.__module__})": (COUNT, lambda _count: theirs(MemoryRecords, large)),
            "kafka-python": (10_000, lambda _count: theirs(memory_records.MemoryRecords, small)),
        },
    )
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        packed = fetched(COUNT, codec)
        compare(
            f"the same, {codec}",
            {
                "barnabas, takes of 500": (COUNT, lambda _count, data=packed: ours(data)),
                "aiokafka": (COUNT, lambda _count, data=packed: theirs(MemoryRecords, data)),
            },
            rounds=3,
        )
    repeat_uncompiled("benchmarks.records_decode")


if __name__ == "__main__":
    options(__doc__)
    main()
