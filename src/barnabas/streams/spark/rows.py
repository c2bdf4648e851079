"""Arrow batches as records of the engine and back."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.record import InputRecord, OutputRecord, output_columns
from barnabas.streams.engine.record import input_records as records_of_columns

if TYPE_CHECKING:
    import pyarrow as pa

#: What is read of the source.
INPUT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def input_records(batch: pa.RecordBatch) -> list[InputRecord]:
    """Return the records of a batch of the source's rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000).to_pylist()
    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    told = names * len(topics) if len(names) == 1 else [names[at] for at in topics.indices.to_pylist()]
    partitions, offsets, keys, values = (
        batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value")
    )
    headers = batch.column("headers")
    texts = None
    if headers.null_count < len(headers):
        texts = [[] if found is None else _pairs(found) for found in headers.to_pylist()]
    return records_of_columns(told, partitions, offsets, times, keys, values, texts)


def _pairs(headers: list[dict[str, Any]]) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in headers]


#: A column of rows for the sink, where it is kept: pickled, what `ErrorHandlerContext` tells of a record's source.
ORIGIN = "origin"


def output_rows(records: list[OutputRecord], *, with_origins: bool = False) -> pa.RecordBatch | None:
    """Return rows for the sink, in the order of the records; None without any."""
    if not records:
        return None
    topics, partitions, keys, values, times, headers = output_columns(records)
    import pyarrow as pa

    schema = output_schema()
    columns = (topics, partitions, keys, values, times)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=False)]
    arrays.append(_header_column(headers, schema.field(len(columns)).type))
    found = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if with_origins:
        return found.append_column(ORIGIN, pa.array([_origin(record.origin) for record in records], pa.binary()))
    return found


def _header_column(headers: list[Any], form: pa.DataType) -> pa.Array:
    """Return the headers of records, None for none: mostly no record has any, which takes no time then."""
    import pyarrow as pa

    if not any(headers):
        return pa.nulls(len(headers), form)
    return pa.array(
        [[{"key": name, "value": value} for name, value in found] if found else None for found in headers], form
    )


def _origin(origin: Any) -> bytes | None:
    if origin is None:
        return None
    node, where, source = origin
    is_same = source is not None and (source.topic, source.partition, source.offset) == (
        where.topic, where.partition, where.offset
    )  # fmt: skip
    raw = (source.key, source.value) if is_same else (None, None)
    return pickle.dumps((node, where.topic, where.partition, where.offset, [*where.headers], where.timestamp, *raw))


def output_schema() -> pa.Schema:
    """Return what goes into the sink."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.schema([
        ("topic", pa.string()), ("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()),
        ("timestamp", pa.int64()), ("headers", pa.list_(pa.field("element", header))),
    ])  # fmt: skip
