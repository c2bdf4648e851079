"""Record batches: to and from Arrow columns, beside aiokafka's objects put into the same columns."""

from __future__ import annotations

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from barnabas.records import arrow_schema, decode_arrow, encode_arrow
from benchmarks._options import options
from benchmarks._records import BATCH_SIZE, KEY, NOW, VALUE, compare, fetched, is_uncompiled, repeat_uncompiled

COUNT = 200_000
SCHEMA = arrow_schema()


def objects_to_columns(data: bytes) -> pa.RecordBatch:
    """Return what one does without a columnar reader: collect lists, then make arrays of them."""
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        batch.validate_crc()
        for record in batch:
            columns["key"].append(record.key)
            columns["value"].append(record.value)
            columns["topic"].append("topic")
            columns["partition"].append(0)
            columns["offset"].append(record.offset)
            columns["timestamp"].append(record.timestamp * 1000)
            columns["timestampType"].append(record.timestamp_type)
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def table(count: int) -> pa.RecordBatch:
    """Rows of the same keys and values."""
    columns = {"key": [KEY] * count, "value": [VALUE] * count}
    return pa.record_batch({name: pa.array(items, pa.binary()) for name, items in columns.items()})


def encode(rows: pa.RecordBatch) -> None:
    """All rows as batches of 1 MiB."""
    for _ in encode_arrow(rows, now_ms=NOW, max_batch_size=BATCH_SIZE):
        pass


def columns_to_objects(rows: pa.RecordBatch) -> None:
    """Do the same without a columnar writer."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, BATCH_SIZE)
    offset = 0
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        if builder.append(offset, NOW, key, value, []) is None:
            builder.build()
            builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, BATCH_SIZE)
            offset = 0
            builder.append(offset, NOW, key, value, [])
        offset += 1
    builder.build()


def main() -> None:
    """Measure and print."""
    if is_uncompiled():
        few = fetched(10_000)
        compare(
            "Arrow",
            {
                "decode_arrow, uncompiled": (10_000, lambda _count: decode_arrow(few, "topic", 0)),
                "encode_arrow, uncompiled": (10_000, lambda count: encode(table(count))),
            },
            rounds=3,
        )
        return
    data, rows = fetched(COUNT), table(COUNT)
    compare(
        "fetched bytes to Arrow columns",
        {
            "barnabas, the 7 columns of Spark's source": (COUNT, lambda _count: decode_arrow(data, "topic", 0)),
            "barnabas, only the value": (COUNT, lambda _count: decode_arrow(data, "topic", 0, columns=("value",))),
            "aiokafka's objects, then 7 columns": (COUNT, lambda _count: objects_to_columns(data)),
        },
    )
    compare(
        "Arrow columns to record batches",
        {
            "barnabas": (COUNT, lambda _count: encode(rows)),
            "Python objects, then aiokafka's builder": (COUNT, lambda _count: columns_to_objects(rows)),
        },
    )
    repeat_uncompiled("benchmarks.records_arrow")


if __name__ == "__main__":
    options(__doc__)
    main()
