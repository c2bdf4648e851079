# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Builds one record batch of magic 2, each record written straight to its place.

Format: https://kafka.apache.org/documentation/#recordbatch. C types are in `builder.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

from barnabas.errors import IllegalArgumentError, IllegalStateError, IllegalTypeError
from barnabas.records.batch_header import (
    BEFORE_CHECKSUM,
    CHECKED_FIELDS,
    CHECKSUM_START,
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from barnabas.records.checksum import crc32c
from barnabas.records.compression import CODECS, compress

if not cython.compiled:
    from barnabas.records.native import (
        buffer_address,
        copy_bytes,
        copy_range,
        finished,
        hold,
        int64_sum,
        new_buffer,
        number_size,
    )
    from barnabas.records.rows import ArrowRows, BinaryRows

if TYPE_CHECKING:
    from barnabas.records.types import Buffer, EncodedHeaders, Headers

# Memory that is not written to costs nothing, growing does.
_FIRST_ALLOCATION = 1024 * 1024
_MAX_SIZE = 0x7FFFFFFF


class RecordBatchBuilder:
    """One batch in the making.

    `capacity` is the size in bytes, header included, that the batch aims at; the first record always fits, however
    large. With a codec, `compression_ratio` says what part of the bytes is expected to be left (Kafka's producer keeps
    such an estimate per topic), and the room is reckoned by it. `timestamp_type` is 0 for CreateTime, 1 for
    LogAppendTime.
    """

    def __init__(
        self,
        capacity: int,
        compression: str = "none",
        level: int | None = None,
        timestamp_type: int = 0,
        compression_ratio: float = 1.0,
    ) -> None:
        if compression not in CODECS:
            raise IllegalArgumentError(f"unknown compression type {compression!r}; Kafka has {', '.join(CODECS)}")
        self.codec = compression
        self.level = level
        self.attributes = CODECS.index(compression) | (TIMESTAMP_TYPE_BIT if timestamp_type else 0)
        self.compression_ratio = compression_ratio if compression != "none" else 1.0
        # The room for records, in bytes before compression.
        self.limit = min(_MAX_SIZE, HEADER_SIZE + int(max(0, capacity - HEADER_SIZE) / self.compression_ratio))
        self.allocated = min(self.limit, _FIRST_ALLOCATION)
        self.buffer = new_buffer(self.allocated)
        self.data = buffer_address(self.buffer)
        self.position = HEADER_SIZE
        self.count = 0
        self.base_timestamp = self.highest_timestamp = -1
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.closed = False

    @property
    def record_count(self) -> int:
        """How many records have been appended."""
        return self.count

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp appended, in epoch milliseconds; -1 without records."""
        return self.highest_timestamp

    @property
    def uncompressed_size(self) -> int:
        """The size of the batch in bytes before compression."""
        return self.position

    @property
    def estimated_size(self) -> int:
        """The expected size of the closed batch in bytes; exact without compression."""
        return HEADER_SIZE + int((self.position - HEADER_SIZE) * self.compression_ratio)

    @property
    def is_full(self) -> bool:
        """Whether the batch has reached the size it aims at."""
        return self.count > 0 and self.position >= self.limit

    def try_append(
        self, timestamp_ms: cython.longlong, key: Buffer | None, value: Buffer | None, headers: Headers = ()
    ) -> int:
        """Append a record and return its offset delta, or -1, with nothing stored, where there is no room for it.

        Raises `IllegalTypeError` where key, value or headers are not bytes (serialize first), and
        `IllegalArgumentError` for a negative timestamp other than -1 (none).
        """
        return self.append_record(timestamp_ms, key, value, headers)

    def append_record(
        self, timestamp_ms: cython.longlong, key: Buffer | None, value: Buffer | None, headers: Headers
    ) -> int:
        """Return what `try_append` does, for callers in C."""
        key_bytes: bytes = b""
        value_bytes: bytes = b""
        key_size: cython.Py_ssize_t = -1
        value_size: cython.Py_ssize_t = -1
        size_of_headers: cython.Py_ssize_t = 1
        header_list: EncodedHeaders | None = None
        if key is not None:
            key_bytes = key if type(key) is bytes else as_bytes(key, "key")
            key_size = len(key_bytes)
        if value is not None:
            value_bytes = value if type(value) is bytes else as_bytes(value, "value")
            value_size = len(value_bytes)
        if headers:
            header_list = checked_headers(headers)
            size_of_headers = headers_size(header_list)
        if not self.begin_record(timestamp_ms, key_size, value_size, size_of_headers):
            return -1
        self.put_number(key_size)
        if key_size > 0:
            self.put_bytes(key_bytes, key_size)
        self.put_number(value_size)
        if value_size > 0:
            self.put_bytes(value_bytes, value_size)
        if header_list is None:
            self.put_number(0)
        else:
            self.put_headers(header_list)
        self.count += 1
        return self.count - 1

    def append_rows(self, rows: ArrowRows, start: cython.Py_ssize_t) -> int:
        """Append the rows from `start` on as records, as many as there is room for; return the row to go on from.

        Raises `IllegalArgumentError` for a negative timestamp other than -1, or a header without a name; the rows
        before are appended then.
        """
        row: cython.Py_ssize_t = start
        while row < rows.count:
            if not self.begin_record(
                rows.timestamp(row), rows.keys.size(row), rows.values.size(row), rows.headers_size(row)
            ):
                break
            self.put_value(rows.keys, row)
            self.put_value(rows.values, row)
            self.put_row_headers(rows, row)
            self.count += 1
            row += 1
        return row

    def put_value(self, rows: BinaryRows, row: cython.Py_ssize_t) -> int:
        """Write one value of an Arrow column and its size; the room is there."""
        size: cython.Py_ssize_t = rows.size(row)
        self.put_number(size)
        if size > 0:
            copy_range(self.data, self.position, rows.data, rows.start(row), size)
            self.position += size
        return 0

    def put_row_headers(self, rows: ArrowRows, row: cython.Py_ssize_t) -> int:
        """Write the headers of one row; the room is there."""
        header: cython.Py_ssize_t = rows.first_header(row)
        end: cython.Py_ssize_t = rows.end_of_headers(row)
        self.put_number(end - header)
        while header < end:
            self.put_value(rows.header_names, header)
            self.put_value(rows.header_values, header)
            header += 1
        return 0

    def begin_record(
        self,
        timestamp_ms: cython.longlong,
        key_size: cython.Py_ssize_t,
        value_size: cython.Py_ssize_t,
        headers_size: cython.Py_ssize_t,
    ) -> bool:
        """Write a record up to its key if it has room; its exact size is known before anything is written."""
        size: cython.Py_ssize_t
        delta: cython.longlong
        end: cython.Py_ssize_t
        if self.closed:
            raise IllegalStateError("the batch is closed; append to a new one")
        if timestamp_ms < -1:
            raise IllegalArgumentError(f"timestamp {timestamp_ms} is negative; give epoch milliseconds, or -1 for none")
        delta = int64_sum(timestamp_ms, -self.base_timestamp) if self.count > 0 else 0
        size = 1 + number_size(delta) + number_size(self.count) + number_size(key_size) + number_size(value_size)
        size += headers_size + (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0)
        end = self.position + number_size(size) + size
        if end > self.limit and self.count > 0:
            return False
        if end > self.allocated:
            self.reserve(end)
        if self.count == 0:
            self.base_timestamp = timestamp_ms
        if timestamp_ms > self.highest_timestamp:
            self.highest_timestamp = timestamp_ms
        self.put_number(size)
        self.data[self.position] = 0  # the attributes of a record, of which Kafka uses none
        self.position += 1
        self.put_number(delta)
        self.put_number(self.count)
        return True

    def reserve(self, end: cython.Py_ssize_t) -> int:
        """Make the buffer large enough for `end` bytes."""
        if end > 0x7FFFFFFF:
            raise IllegalArgumentError(f"a record batch of {end} bytes is more than Kafka's format can hold")
        self.allocated = max(end, min(2 * self.allocated, self.limit))
        larger = new_buffer(self.allocated)
        copy_range(buffer_address(larger), 0, self.data, 0, self.position)
        self.buffer = larger
        self.data = buffer_address(larger)
        return 0

    def put_number(self, number: cython.longlong) -> None:
        """Write a zigzag varint; the room is there."""
        rest: cython.ulonglong = (cython.cast(cython.ulonglong, number) << 1) ^ cython.cast(
            cython.ulonglong, number >> 63
        )
        while rest > 0x7F:
            self.data[self.position] = (rest & 0x7F) | 0x80
            self.position += 1
            rest >>= 7
        self.data[self.position] = rest
        self.position += 1

    def put_bytes(self, item: bytes, size: cython.Py_ssize_t) -> None:
        """Write all `size` bytes of `item`; the room is there."""
        copy_bytes(self.data, self.position, item, size)
        self.position += size

    def put_headers(self, headers: EncodedHeaders) -> int:
        """Write the headers of a record; the room is there."""
        self.put_number(len(headers))
        for name, value in headers:
            self.put_number(len(name))
            self.put_bytes(name, len(name))
            if value is None:
                self.put_number(-1)
            else:
                self.put_number(len(value))
                self.put_bytes(value, len(value))
        return 0

    def set_producer_state(
        self, producer_id: int, epoch: int, base_sequence: int, transactional: bool = False, control: bool = False
    ) -> None:
        """Make the batch that of an idempotent or transactional producer; `control` makes it a transaction marker."""
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence
        self.attributes &= ~(TRANSACTIONAL_BIT | CONTROL_BIT)
        self.attributes |= (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)

    def close(self, base_offset: int = 0, partition_leader_epoch: int = -1) -> bytes:
        """Return the finished batch. The builder gives its memory back and takes no more records."""
        if self.closed:
            raise IllegalStateError("the batch is closed already")
        if self.count == 0:
            raise IllegalStateError("a batch needs at least one record")
        header = CHECKED_FIELDS.pack(
            self.attributes, self.count - 1, self.base_timestamp, self.highest_timestamp,
            self.producer_id, self.producer_epoch, self.base_sequence, self.count,
        )  # fmt: skip
        self.closed = True
        if self.codec == "none":
            return self.close_in_place(base_offset, partition_leader_epoch, header)
        with memoryview(self.buffer) as view, view[HEADER_SIZE : self.position] as records:
            payload = compress(self.codec, records, self.level)
        self.buffer = new_buffer(0)
        crc = crc32c(payload, crc32c(header))
        size = HEADER_SIZE - LOG_OVERHEAD + len(payload)
        front = BEFORE_CHECKSUM.pack(base_offset, size, partition_leader_epoch, CURRENT_MAGIC, crc)
        return b"".join((front, header, payload))

    def close_in_place(self, base_offset: cython.longlong, partition_leader_epoch: cython.int, header: bytes) -> bytes:
        """Write the header before the records and make the buffer itself the batch."""
        copy_bytes(self.data, CHECKSUM_START, header, len(header))
        with memoryview(self.buffer) as view, view[CHECKSUM_START : self.position] as covered:
            crc = crc32c(covered)
        front = BEFORE_CHECKSUM.pack(
            base_offset, self.position - LOG_OVERHEAD, partition_leader_epoch, CURRENT_MAGIC, crc
        )
        copy_bytes(self.data, 0, front, len(front))
        held: cython.p_void = hold(self.buffer)
        self.buffer = new_buffer(0)
        return finished(held, self.position)


def checked_headers(headers: Headers) -> EncodedHeaders:
    """Return the headers with encoded names.

    `IllegalTypeError` where they are not pairs of a `str` and bytes or None.
    """
    checked: list[tuple[bytes, bytes | None]] = []
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2 or not isinstance(header[0], str):
            raise IllegalTypeError(f"a header must be a pair of a str and bytes or None, not {header!r:.80}")
        name, value = header
        checked.append((name.encode(), None if value is None else as_bytes(value, "header value")))
    return checked


def headers_size(headers: EncodedHeaders) -> int:
    """Return the size in bytes of a record's headers, their number included."""
    size: cython.Py_ssize_t = number_size(len(headers))
    for name, value in headers:
        size += number_size(len(name)) + len(name)
        size += 1 if value is None else number_size(len(value)) + len(value)
    return size


def as_bytes(item: object, what: str) -> bytes:
    """`item` as `bytes`; `IllegalTypeError` where it is no buffer."""
    if type(item) is bytes:
        return item
    try:
        return bytes(memoryview(item))  # type: ignore[arg-type]  # anything but a buffer raises
    except TypeError:
        raise IllegalTypeError(
            f"the {what} must be bytes or None, not {type(item).__name__}; serialize it first"
        ) from None
