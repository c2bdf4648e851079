"""Record batches as Arrow tables: the columns of Spark's Kafka source, without Python objects per row.

Needs pyarrow, from the extra `arrow`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barnabas.errors import CorruptRecordError, IllegalArgumentError
from barnabas.records.columns import AT_END_OFFSET, FULL, WHOLE_BATCH, BinaryColumn, ColumnDecoder
from barnabas.records.compression import MAX_DECOMPRESSED_SIZE
from barnabas.records.fetched_batches import open_batches

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.records.types import AbortedTransactions, Buffer

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's Kafka source, in its order; `headers` may follow them."""
ALL_COLUMNS = (*COLUMNS, "headers")

_NO_END = 0x7FFFFFFFFFFFFFFF


def pyarrow() -> Any:
    """Return the module pyarrow. Raises `ImportError` with advice where it is not installed."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError("Arrow tables need the package pyarrow: pip install 'barnabas[arrow]'") from None
    return pa


def arrow_schema(columns: Iterable[str] = COLUMNS) -> pa.Schema:
    """Return the schema of the given columns."""
    pa = pyarrow()
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[name]) for name in columns])


class ColumnBuilder:
    """Collects the records of fetched bytes, of any number of partitions, into one `pyarrow.RecordBatch`."""

    def __init__(self, columns: Iterable[str] = COLUMNS) -> None:
        self.columns = tuple(columns)
        unknown = [name for name in self.columns if name not in ALL_COLUMNS]
        if unknown or len(set(self.columns)) != len(self.columns):
            raise IllegalArgumentError(f"columns {self.columns} must be different ones of {', '.join(ALL_COLUMNS)}")
        self.is_full = False
        self._expected_size = 0
        self._decoder: ColumnDecoder | None = None
        self._partitions: list[tuple[int, str, int]] = []
        self._timestamp_types: list[tuple[int, int]] = []

    @property
    def row_count(self) -> int:
        """How many records have been collected."""
        return 0 if self._decoder is None else self._decoder.rows

    @property
    def data_size(self) -> int:
        """How many bytes of keys, values and headers have been collected."""
        return 0 if self._decoder is None else self._decoder.data_size

    def expect(self, size: int) -> None:
        """Say how many fetched bytes are to come in all before `finish`: then room is made once."""
        self._expected_size = size

    def append(
        self,
        data: Buffer,
        topic: str,
        partition: int,
        fetch_offset: int = 0,
        *,
        end_offset: int | None = None,
        max_rows: int | None = None,
        check_crcs: bool = True,
        aborted_transactions: AbortedTransactions | None = None,
        max_batch_size: int = MAX_DECOMPRESSED_SIZE,
    ) -> int:
        """Add the records of one partition's fetched bytes from `fetch_offset` to before `end_offset`.

        Returns the offset to go on from, past what was skipped and never past `end_offset`. It stops early at
        `max_rows` rows in all, where a column would exceed 2 GiB (`is_full`), and before a corrupt batch; go on after
        `finish` with the returned offset. A corrupt batch raises `CorruptRecordError` when it is the first.
        """
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = ColumnDecoder(frozenset(self.columns), max(len(data), self._expected_size))
        end = _NO_END if end_offset is None else end_offset
        most_rows = _NO_END if max_rows is None else max_rows
        start = rows = decoder.rows
        position = fetch_offset
        batches = open_batches(
            data,
            fetch_offset=fetch_offset,
            end_offset=end_offset,
            check_crcs=check_crcs,
            max_size=max_batch_size,
            aborted_transactions=aborted_transactions,
        )
        try:
            for header, payload in batches:
                if payload is None:
                    position = max(position, min(header.next_offset, end))
                    continue
                reached = decoder.append(header, payload, position, end, most_rows)
                if decoder.rows > rows:
                    self._timestamp_types.append((decoder.rows - rows, header.timestamp_type))
                    rows = decoder.rows
                    position = decoder.last_offset + 1
                if reached in (WHOLE_BATCH, AT_END_OFFSET):
                    position = min(header.next_offset, end)
                self.is_full = reached == FULL
                if reached != WHOLE_BATCH:
                    break
        except CorruptRecordError as error:
            if decoder.rows == start:
                raise type(error)(f"{topic}-{partition} cannot be read from offset {position} on: {error}") from None
        if decoder.rows > start:
            self._partitions.append((decoder.rows - start, topic, partition))
        return position

    def finish(self) -> pa.RecordBatch:
        """Return the collected records; the builder is empty then and can be used again."""
        pa = pyarrow()
        schema = arrow_schema(self.columns)
        decoder = self._decoder or ColumnDecoder(frozenset(self.columns), 0)
        arrays = [self._array(pa, decoder, field) for field in schema]
        self.is_full = False
        self._decoder = None
        self._partitions = []
        self._timestamp_types = []
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(self, pa: Any, decoder: ColumnDecoder, field: pa.Field) -> pa.Array:
        name = field.name
        if name == "key":
            return _binary(pa, field.type, decoder.keys)
        if name == "value":
            return _binary(pa, field.type, decoder.values)
        if name == "topic":
            return _runs(pa, field.type, [(rows, topic) for rows, topic, _partition in self._partitions])
        if name == "partition":
            return _runs(pa, field.type, [(rows, partition) for rows, _topic, partition in self._partitions])
        if name == "timestampType":
            return _runs(pa, field.type, self._timestamp_types)
        if name == "headers":
            return _headers(pa, field.type, decoder)
        numbers = decoder.offsets_array if name == "offset" else decoder.timestamps_array
        used = memoryview(numbers)[: 8 * decoder.rows]
        return pa.Array.from_buffers(field.type, decoder.rows, [None, pa.py_buffer(used)])


def _binary(pa: Any, arrow_type: pa.DataType, column: BinaryColumn) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in column.buffers()]
    return pa.Array.from_buffers(arrow_type, column.row_count, buffers, null_count=column.null_count)


def _runs(pa: Any, arrow_type: pa.DataType, runs: list[tuple[int, Any]]) -> pa.Array:
    """Return an array of repeated values, given as the number of repetitions and the value."""
    merged: list[tuple[int, Any]] = []
    for rows, value in runs:
        if merged and merged[-1][1] == value:
            merged[-1] = (merged[-1][0] + rows, value)
        else:
            merged.append((rows, value))
    arrays = [pa.repeat(plain_scalar(pa, arrow_type, value), rows) for rows, value in merged]
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, arrow_type)


def plain_scalar(pa: Any, arrow_type: pa.DataType, value: str | int) -> pa.Scalar:
    """As `pa.scalar`, which imports pandas: half a second in every new Python worker of Spark."""
    if isinstance(value, str):
        data = value.encode()
        buffers = [None, pa.py_buffer(struct.pack("=2i", 0, len(data))), pa.py_buffer(data)]
    else:
        buffers = [None, pa.py_buffer(struct.pack("=i", value))]
    return pa.Array.from_buffers(arrow_type, 1, buffers)[0]


def _headers(pa: Any, arrow_type: pa.ListType, decoder: ColumnDecoder) -> pa.Array:
    struct = arrow_type.value_type
    names = _binary(pa, struct.field("key").type, decoder.header_names)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        # Kafka's own reader replaces what is not UTF-8 in names.
        names = pa.array([name.decode("utf-8", "replace") for name in names.view(pa.binary()).to_pylist()], pa.string())
    values = _binary(pa, struct.field("value").type, decoder.header_values)
    children = pa.StructArray.from_arrays([names, values], fields=list(struct))
    valid = pa.py_buffer(decoder.header_valid_array) if decoder.rows_without_headers else None
    ends = pa.py_buffer(memoryview(decoder.header_ends_array)[: 4 * (decoder.rows + 1)])
    return pa.Array.from_buffers(
        arrow_type, decoder.rows, [valid, ends], null_count=decoder.rows_without_headers, children=[children]
    )


def decode_arrow(
    data: Buffer,
    topic: str,
    partition: int,
    fetch_offset: int = 0,
    *,
    end_offset: int | None = None,
    columns: Iterable[str] = COLUMNS,
    check_crcs: bool = True,
    aborted_transactions: AbortedTransactions | None = None,
) -> pa.RecordBatch:
    """Return the records of one partition's fetched bytes from `fetch_offset` to before `end_offset`, as Arrow columns.

    Raises `CorruptRecordError`; `ColumnBuilder` also gives the records before a corrupt batch.
    """
    builder = ColumnBuilder(columns)
    position = fetch_offset
    while True:
        reached = builder.append(
            data,
            topic,
            partition,
            position,
            end_offset=end_offset,
            check_crcs=check_crcs,
            aborted_transactions=aborted_transactions,
        )
        if builder.is_full:
            raise IllegalArgumentError(f"{len(data)} bytes of {topic}-{partition} do not fit into one Arrow batch")
        if reached == position:
            return builder.finish()
        position = reached
