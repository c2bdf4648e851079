"""Record batches: building them, beside aiokafka (compiled) and kafka-python."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from barnabas.records import RecordBatchBuilder
from benchmarks._options import options
from benchmarks._records import BATCH_SIZE, KEY, NOW, VALUE, compare, is_uncompiled, kafka_python, repeat_uncompiled


def ours(count: int) -> None:
    """`RecordBatchBuilder.try_append` until there is no room, then `close`."""
    builder = RecordBatchBuilder(BATCH_SIZE)
    append = builder.try_append
    for number in range(count):
        if append(NOW + number, KEY, VALUE) < 0:
            builder.close()
            builder = RecordBatchBuilder(BATCH_SIZE)
            append = builder.try_append
            append(NOW + number, KEY, VALUE)
    builder.close()


def theirs(builder_type: type, count: int) -> None:
    """Do the same with the builder of aiokafka or kafka-python."""
    settings = (2, 0, False, -1, -1, -1, BATCH_SIZE)
    builder = builder_type(*settings)
    offset = 0
    for number in range(count):
        if builder.append(offset, NOW + number, KEY, VALUE, []) is None:
            builder.build()
            builder = builder_type(*settings)
            offset = 0
            builder.append(offset, NOW + number, KEY, VALUE, [])
        offset += 1
    builder.build()


def main() -> None:
    """Measure and print."""
    if is_uncompiled():
        compare("building", {"barnabas, uncompiled": (10_000, ours)}, rounds=5)
        return
    default_records, _memory_records = kafka_python()
    compare(
        "building batches of 1 MiB",
        {
            "barnabas": (300_000, ours),
            f"aiokafka ({DefaultRecordBatchBuilder.__module__})": (
                100_000,
                lambda count: theirs(DefaultRecordBatchBuilder, count),
            ),
            "kafka-python": (10_000, lambda count: theirs(default_records.DefaultRecordBatchBuilder, count)),
        },
    )
    repeat_uncompiled("benchmarks.records_build")


if __name__ == "__main__":
    options(__doc__)
    main()
