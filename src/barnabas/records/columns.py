# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""From the records of batches to the buffers of Arrow columns, with no Python object per row.

Layout: https://arrow.apache.org/docs/format/Columnar.html. `arrow.py` makes arrays of the buffers; C types are in
`columns.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

from barnabas.records.batch_header import HEADER_SIZE
from barnabas.records.cursor import RecordCursor

if not cython.compiled:
    from barnabas.records.native import (
        bytearray_address,
        copy_range,
        int32_address,
        int64_address,
        int64_sum,
        new_bytearray,
    )

if TYPE_CHECKING:
    from barnabas.records.batch_header import BatchHeader

# How far `ColumnDecoder.append` came: all of the batch, up to the offset or the number of rows asked for, or until a
# column was as large as 32-bit offsets allow.
WHOLE_BATCH = 0
AT_END_OFFSET = 1
AT_MOST_ROWS = 2
FULL = 3

_WHOLE_BATCH = cython.declare(cython.int, 0)
_AT_END_OFFSET = cython.declare(cython.int, 1)
_AT_MOST_ROWS = cython.declare(cython.int, 2)
_NO_ROOM = cython.declare(cython.int, 3)
_CORRUPT = cython.declare(cython.int, 4)
_MOST_MILLISECONDS = cython.declare(cython.longlong, 9223372036854775)
_FIRST_ROWS = cython.declare(cython.Py_ssize_t, 1024)
_MOST_DATA = cython.declare(cython.Py_ssize_t, 0x7FFFFFFF)


class BinaryColumn:
    """The three buffers of an Arrow binary or string column: ends of values, data, validity bits."""

    def __init__(self) -> None:
        self.rows = self.row_capacity = 0
        self.used = self.capacity = 0
        self.nulls = 0
        self.ends_array = bytearray(4)
        self.data_array = bytearray()
        self.valid_array = bytearray()
        self.ends = int32_address(self.ends_array)
        self.data = bytearray_address(self.data_array)
        self.valid = bytearray_address(self.valid_array)

    def reserve_rows(self, rows: cython.Py_ssize_t) -> int:
        """Make room for `rows` rows in all."""
        if rows <= self.row_capacity:
            return 0
        self.row_capacity = max(rows, 2 * self.row_capacity, _FIRST_ROWS)
        self.ends_array = grown(self.ends_array, 4 * (self.row_capacity + 1))
        self.ends = int32_address(self.ends_array)
        self.valid_array = grown_bits(self.valid_array, self.row_capacity)
        self.valid = bytearray_address(self.valid_array)
        return 0

    def reserve_data(self, size: cython.Py_ssize_t) -> int:
        """Make room for `size` more bytes of data."""
        needed: cython.Py_ssize_t = self.used + size
        if needed > self.capacity:
            self.capacity = min(max(needed, 2 * self.capacity), _MOST_DATA)
            self.data_array = grown(self.data_array, self.capacity)
            self.data = bytearray_address(self.data_array)
        return 0

    def truncate(self, rows: cython.Py_ssize_t) -> int:
        """Drop all but the first `rows` rows."""
        row: cython.Py_ssize_t = rows
        while row < self.rows:
            if not self.valid[row >> 3] >> (row & 7) & 1:
                self.valid[row >> 3] |= 1 << (row & 7)
                self.nulls -= 1
            row += 1
        self.rows = rows
        self.used = self.ends[rows]
        return 0

    def put(self, source: cython.p_uchar, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> None:
        """Append a value, a null where `size` is negative; the room is there."""
        row: cython.Py_ssize_t = self.rows
        if size > 0:
            copy_range(self.data, self.used, source, position, size)
            self.used += size
        elif size < 0:
            self.valid[row >> 3] &= 0xFF ^ (1 << (row & 7))
            self.nulls += 1
        self.rows = row + 1
        self.ends[row + 1] = self.used

    def buffers(self) -> tuple[memoryview | None, memoryview, memoryview]:
        """Return validity (None without nulls), ends and data, as Arrow wants them."""
        valid = memoryview(self.valid_array) if self.nulls else None
        return valid, memoryview(self.ends_array)[: 4 * (self.rows + 1)], memoryview(self.data_array)[: self.used]

    @property
    def null_count(self) -> int:
        """How many rows are null."""
        return self.nulls

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self.rows


class ColumnDecoder:
    """Appends the records of one batch after another to the columns of `names`, those that differ from row to row."""

    def __init__(self, names: frozenset[str], size_hint: cython.Py_ssize_t) -> None:
        self.want_key = "key" in names
        self.want_value = "value" in names
        self.want_offset = "offset" in names
        self.want_timestamp = "timestamp" in names
        self.want_headers = "headers" in names
        self.keys = BinaryColumn()
        self.values = BinaryColumn()
        self.header_names = BinaryColumn()
        self.header_values = BinaryColumn()
        self.rows = self.row_capacity = self.rows_without_headers = 0
        self.offsets_array = bytearray()
        self.timestamps_array = bytearray()
        self.header_ends_array = bytearray(4)
        self.header_valid_array = bytearray()
        self.on_record = self.uses_append_time = False
        self.base_offset = self.base_timestamp = self.append_time = self.first_offset = self.end_offset = 0
        self.last_offset = -1
        self.set_addresses()
        self.size_hint = size_hint
        # The values of uncompressed batches take no more than the batches themselves.
        if self.want_value:
            self.values.reserve_data(size_hint)
        if self.want_key:
            self.keys.reserve_data(size_hint >> 3)

    def set_addresses(self) -> None:
        """Note where the buffers lie, after they have moved."""
        self.offsets = int64_address(self.offsets_array)
        self.timestamps = int64_address(self.timestamps_array)
        self.header_ends = int32_address(self.header_ends_array)
        self.header_valid = bytearray_address(self.header_valid_array)

    def append(
        self,
        header: BatchHeader,
        payload: bytes | memoryview,
        first_offset: cython.longlong,
        end_offset: cython.longlong,
        most_rows: cython.Py_ssize_t,
    ) -> int:
        """Append the batch's records from `first_offset` to before `end_offset`, until there are `most_rows` rows.

        Returns how far it came; `last_offset` is the offset of the last row. Raises `CorruptRecordError`, with none of
        the batch's records appended.
        """
        cursor: RecordCursor = RecordCursor(payload, header.record_count, header.last_offset_delta)
        rows_before: cython.Py_ssize_t = self.rows
        status: cython.int = _NO_ROOM
        self.base_offset = header.base_offset
        self.base_timestamp = header.base_timestamp
        self.append_time = header.max_timestamp
        self.uses_append_time = header.timestamp_type == 1
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.on_record = False
        if self.rows == 0:
            # As if all that is to come were like this batch: growing would copy what there is.
            self.reserve_rows((self.size_hint // (cursor.end + HEADER_SIZE) + 1) * cursor.remaining)
        self.reserve_rows(self.rows + header.record_count)
        while status == _NO_ROOM:
            with cython.nogil:
                status = self.run(cursor, most_rows)
            if status == _NO_ROOM and not self.grow(cursor):
                break
        if status == _CORRUPT:
            self.truncate(rows_before)
            raise cursor.corrupt()
        return status

    def run(self, cursor: RecordCursor, most_rows: cython.Py_ssize_t) -> int:
        """Append records until the batch or the room ends."""
        offset: cython.longlong
        while self.on_record or cursor.remaining > 0:
            if self.rows >= most_rows:
                return _AT_MOST_ROWS
            if not self.on_record and not cursor.advance():
                return _CORRUPT
            self.on_record = True
            offset = self.base_offset + cursor.offset_delta
            if offset >= self.end_offset:
                return _AT_END_OFFSET
            if offset >= self.first_offset:
                if not self.has_room(cursor):
                    return _NO_ROOM
                self.put_row(cursor, offset)
            self.on_record = False
        return _WHOLE_BATCH

    def has_room(self, cursor: RecordCursor) -> bool:
        """Whether the data of the current record fits without growing."""
        if self.want_key and cursor.key_size > self.keys.capacity - self.keys.used:
            return False
        if self.want_value and cursor.value_size > self.values.capacity - self.values.used:
            return False
        if not self.want_headers or cursor.header_count == 0:
            return True
        # All of a record's header bytes lie between the first header and the end of the record.
        if self.header_names.rows + cursor.header_count > self.header_names.row_capacity:
            return False
        if cursor.next_position - cursor.headers_position > self.header_names.capacity - self.header_names.used:
            return False
        return cursor.next_position - cursor.headers_position <= self.header_values.capacity - self.header_values.used

    def grow(self, cursor: RecordCursor) -> int:
        """Make room for the current record; 0 where a column would exceed what Arrow's 32-bit offsets can address."""
        headers_size: cython.Py_ssize_t = cursor.next_position - cursor.headers_position
        if self.want_key and cursor.key_size > 0:
            if cursor.key_size > _MOST_DATA - self.keys.used:
                return 0
            self.keys.reserve_data(cursor.key_size)
        if self.want_value and cursor.value_size > 0:
            if cursor.value_size > _MOST_DATA - self.values.used:
                return 0
            self.values.reserve_data(cursor.value_size)
        if self.want_headers and cursor.header_count > 0:
            if headers_size > _MOST_DATA - max(self.header_names.used, self.header_values.used):
                return 0
            for column in (self.header_names, self.header_values):
                child: BinaryColumn = column
                child.reserve_rows(child.rows + cursor.header_count)
                child.reserve_data(headers_size)
        return 1

    def put_row(self, cursor: RecordCursor, offset: cython.longlong) -> None:
        """Append the current record; the room is there."""
        if self.want_key:
            self.keys.put(cursor.data, cursor.key_position, cursor.key_size)
        if self.want_value:
            self.values.put(cursor.data, cursor.value_position, cursor.value_size)
        if self.want_offset:
            self.offsets[self.rows] = offset
        if self.want_timestamp:
            if self.uses_append_time:
                self.timestamps[self.rows] = microseconds(self.append_time)
            else:
                self.timestamps[self.rows] = microseconds(int64_sum(self.base_timestamp, cursor.timestamp_delta))
        if self.want_headers:
            self.put_headers(cursor)
        self.rows += 1
        self.last_offset = offset

    def put_headers(self, cursor: RecordCursor) -> None:
        """Append the current record's list of headers, null where it has none."""
        left: cython.Py_ssize_t = cursor.header_count
        row: cython.Py_ssize_t = self.rows
        cursor.position = cursor.headers_position
        if left == 0:
            self.header_valid[row >> 3] &= 0xFF ^ (1 << (row & 7))
            self.rows_without_headers += 1
        while left > 0:
            cursor.next_header()
            self.header_names.put(cursor.data, cursor.name_position, cursor.name_size)
            self.header_values.put(cursor.data, cursor.position, cursor.number_read)
            if cursor.number_read > 0:
                cursor.position += cursor.number_read
            left -= 1
        self.header_ends[row + 1] = self.header_names.rows

    def reserve_rows(self, rows: cython.Py_ssize_t) -> int:
        """Make room for `rows` rows in all."""
        if rows <= self.row_capacity:
            return 0
        self.row_capacity = max(rows, 2 * self.row_capacity, _FIRST_ROWS)
        if self.want_key:
            self.keys.reserve_rows(self.row_capacity)
        if self.want_value:
            self.values.reserve_rows(self.row_capacity)
        if self.want_offset:
            self.offsets_array = grown(self.offsets_array, 8 * self.row_capacity)
        if self.want_timestamp:
            self.timestamps_array = grown(self.timestamps_array, 8 * self.row_capacity)
        if self.want_headers:
            self.header_ends_array = grown(self.header_ends_array, 4 * (self.row_capacity + 1))
            self.header_valid_array = grown_bits(self.header_valid_array, self.row_capacity)
        self.set_addresses()
        return 0

    def truncate(self, rows: cython.Py_ssize_t) -> None:
        """Drop all but the first `rows` rows."""
        row: cython.Py_ssize_t
        if self.want_key:
            self.keys.truncate(rows)
        if self.want_value:
            self.values.truncate(rows)
        if self.want_headers:
            row = rows
            while row < self.rows:
                if not self.header_valid[row >> 3] >> (row & 7) & 1:
                    self.header_valid[row >> 3] |= 1 << (row & 7)
                    self.rows_without_headers -= 1
                row += 1
            self.header_names.truncate(self.header_ends[rows])
            self.header_values.truncate(self.header_ends[rows])
        self.rows = rows

    @property
    def data_size(self) -> int:
        """Bytes of keys, values and headers so far."""
        return self.keys.used + self.values.used + self.header_names.used + self.header_values.used


def grown(array: bytearray, size: int) -> bytearray:
    """Return a copy of `array` of `size` bytes; the new ones may hold anything."""
    larger = new_bytearray(size)
    larger[: len(array)] = array
    return larger


def grown_bits(array: bytearray, rows: int) -> bytearray:
    """Return a copy of `array` with bits for `rows` rows; the new ones are set."""
    larger = bytearray(b"\xff") * ((rows + 7) >> 3)
    larger[: len(array)] = array
    return larger


def microseconds(milliseconds: cython.longlong) -> cython.longlong:
    """Milliseconds as microseconds; what 64 bits cannot hold becomes the nearest that they can."""
    if milliseconds > _MOST_MILLISECONDS:
        return _MOST_MILLISECONDS * 1000
    if milliseconds < -_MOST_MILLISECONDS:
        return -_MOST_MILLISECONDS * 1000
    return milliseconds * 1000
