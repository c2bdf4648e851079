"""From Arrow tables to record batches, without Python objects per row. Needs pyarrow, from the extra `arrow`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.records.arrow import pyarrow
from barnabas.records.builder import RecordBatchBuilder
from barnabas.records.rows import ArrowRows, BinaryRows, key_partitions

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_rows(table: pa.RecordBatch, now_ms: int) -> ArrowRows:
    """Return the columns key, value, timestamp and headers of a table, as `RecordBatchBuilder.append_rows` takes them.

    All but `value` may be missing; other columns are left alone. Keys and values may be of any binary or string type,
    timestamps an Arrow timestamp or integers of epoch milliseconds (null means `now_ms`), headers a list of structs of
    name and value. Raises `IllegalTypeError` for other types.
    """
    pa = pyarrow()
    if "value" not in table.schema.names:
        raise IllegalArgumentError(f"the table has no column 'value', only {', '.join(table.schema.names) or 'none'}")
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    headers = pa.list_(pa.field("element", header))
    return ArrowRows(
        table.num_rows,
        _column(pa, table, "key", pa.binary()),
        _column(pa, table, "value", pa.binary()),
        _column(pa, table, "timestamp", pa.int64()),
        _column(pa, table, "headers", headers),
        now_ms,
    )


def _column(pa: Any, table: pa.RecordBatch, name: str, wanted: pa.DataType) -> pa.Array | None:
    return _cast(pa, name, table.column(name), wanted) if name in table.schema.names else None


def _cast(pa: Any, name: str, column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    if column.type == wanted:
        return column
    if name in ("key", "value") and not _holds_bytes(pa, column.type):
        raise IllegalTypeError(f"column {name!r} has type {column.type}; it must hold bytes or strings")
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise IllegalTypeError(f"column {name!r} has type {column.type}, which cannot be sent: {error}") from None


def _holds_bytes(pa: Any, arrow_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    kinds = (
        "is_binary", "is_string", "is_large_binary", "is_large_string",
        "is_fixed_size_binary", "is_binary_view", "is_string_view", "is_null",
    )  # fmt: skip
    return any(getattr(pa.types, kind)(arrow_type) for kind in kinds)


def partition_column(keys: pa.Array, partition_count: int) -> pa.Int32Array:
    """Return the partition of each key as Kafka's producer chooses it: murmur2 modulo `partition_count`.

    -1 for null.
    """
    pa = pyarrow()
    keys = _cast(pa, "key", keys, pa.binary())
    numbers = key_partitions(BinaryRows(keys), len(keys), partition_count)
    return pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(numbers)])


def fill_builders(rows: ArrowRows, new_builder: Callable[[], RecordBatchBuilder]) -> Iterator[RecordBatchBuilder]:
    """Builders from `new_builder` with all rows appended in order, each as full as it gets."""
    row = 0
    while row < rows.count:
        builder = new_builder()
        row = builder.append_rows(rows, row)
        yield builder


def encode_arrow(
    table: pa.RecordBatch,
    *,
    now_ms: int,
    max_batch_size: int,
    compression: str = "none",
    level: int | None = None,
    base_offset: int = 0,
) -> Iterator[bytes]:
    """Yield a table's rows as record batches of at most `max_batch_size` bytes before compression.

    A row that is larger than that gets a batch of its own. See `arrow_rows` for the columns.
    """
    rows = arrow_rows(table, now_ms)
    for builder in fill_builders(rows, lambda: RecordBatchBuilder(max_batch_size, compression, level)):
        count = builder.record_count
        yield builder.close(base_offset)
        base_offset += count
