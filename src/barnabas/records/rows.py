# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows of Arrow columns as a builder of record batches reads them, with no Python object per row.

Layout: https://arrow.apache.org/docs/format/Columnar.html. `table_encoder.py` brings tables into the types that are
read here; C types are in `rows.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

from barnabas.errors import IllegalArgumentError

if not cython.compiled:
    from barnabas.records.native import int32_address, int32_view_address, int64_view_address, number_size, view_address
    from barnabas.records.partitioner import murmur2_at

if TYPE_CHECKING:
    import pyarrow as pa


class BinaryRows:
    """A column of type binary or string; without an array all rows are null."""

    def __init__(self, array: pa.Array | None) -> None:
        valid, ends, data = array.buffers() if array is not None else (None, None, None)
        self.views = [_view(valid), _view(ends), _view(data)]
        self.valid = view_address(self.views[0])
        self.ends = int32_view_address(self.views[1])
        self.data = view_address(self.views[2])
        self.has_nulls = valid is not None
        # An array of no rows may have no buffer of ends.
        self.is_absent = ends is None
        self.offset = array.offset if array is not None else 0

    def is_null(self, row: cython.Py_ssize_t) -> bool:
        """Whether the value is null."""
        place: cython.Py_ssize_t = row + self.offset
        return self.is_absent or (self.has_nulls and not self.valid[place >> 3] >> (place & 7) & 1)

    def size(self, row: cython.Py_ssize_t) -> int:
        """Return the size of a value in bytes, -1 for null."""
        if self.is_null(row):
            return -1
        return self.ends[row + self.offset + 1] - self.ends[row + self.offset]

    def start(self, row: cython.Py_ssize_t) -> int:
        """Where the bytes of a value begin in `data`."""
        return self.ends[row + self.offset]

    def murmur2(self, row: cython.Py_ssize_t) -> int:
        """Kafka's hash of a value that is not null, as an unsigned number."""
        return murmur2_at(self.data, self.start(row), self.size(row))


class ArrowRows:
    """The rows of a table as records: binary keys and values, times in epoch milliseconds, headers.

    Columns that are None count as null in every row; a null time means `default_timestamp`. Arrays must be of exactly
    these types: binary, int64, list of struct of string and binary.
    """

    def __init__(
        self,
        count: int,
        keys: pa.Array | None,
        values: pa.Array | None,
        timestamps: pa.Array | None,
        headers: pa.Array | None,
        default_timestamp: int,
    ) -> None:
        self.count = count
        self.keys = BinaryRows(keys)
        self.values = BinaryRows(values)
        self.default_timestamp = default_timestamp
        time_valid, times = timestamps.buffers() if timestamps is not None else (None, None)
        header_buffers = headers.buffers() if headers is not None else [None, None]
        # `flatten` keeps to the offset of the struct, as the ends of the list do, and makes names of null structs null.
        names, header_values = headers.values.flatten() if headers is not None else (None, None)
        self.views = [_view(time_valid), _view(times), _view(header_buffers[0]), _view(header_buffers[1])]
        self.timestamp_valid = view_address(self.views[0])
        self.timestamps = int64_view_address(self.views[1])
        self.has_timestamps = times is not None
        self.has_null_timestamps = time_valid is not None
        self.timestamp_offset = timestamps.offset if timestamps is not None else 0
        self.header_valid = view_address(self.views[2])
        self.header_ends = int32_view_address(self.views[3])
        self.has_headers = header_buffers[1] is not None
        self.has_null_headers = header_buffers[0] is not None
        self.header_offset = headers.offset if headers is not None else 0
        self.header_names = BinaryRows(names)
        self.header_values = BinaryRows(header_values)

    def timestamp(self, row: cython.Py_ssize_t) -> int:
        """Return the time of a row."""
        place: cython.Py_ssize_t = row + self.timestamp_offset
        if not self.has_timestamps:
            return self.default_timestamp
        if self.has_null_timestamps and not self.timestamp_valid[place >> 3] >> (place & 7) & 1:
            return self.default_timestamp
        return self.timestamps[place]

    def first_header(self, row: cython.Py_ssize_t) -> int:
        """Which of all headers is the first one of the row."""
        return self.header_ends[row + self.header_offset] if self.has_headers else 0

    def end_of_headers(self, row: cython.Py_ssize_t) -> int:
        """Which of all headers is the first one after the row; the first one of the row where its list is null."""
        place: cython.Py_ssize_t = row + self.header_offset
        if not self.has_headers:
            return 0
        if self.has_null_headers and not self.header_valid[place >> 3] >> (place & 7) & 1:
            return self.header_ends[place]
        return self.header_ends[place + 1]

    def headers_size(self, row: cython.Py_ssize_t) -> int:
        """Return the size in bytes of a row's headers in a record, their number included."""
        header: cython.Py_ssize_t = self.first_header(row)
        end: cython.Py_ssize_t = self.end_of_headers(row)
        total: cython.Py_ssize_t = number_size(end - header)
        size: cython.Py_ssize_t
        while header < end:
            size = self.header_names.size(header)
            if size < 0:
                raise IllegalArgumentError(f"row {row} has a header without a name (its key is null)")
            total += number_size(size) + size
            size = self.header_values.size(header)
            total += number_size(size) + (size if size > 0 else 0)
            header += 1
        return total


def key_partitions(keys: BinaryRows, count: cython.Py_ssize_t, partition_count: cython.uint) -> bytearray:
    """Return the partitions of the first `count` keys as Kafka's producer chooses them (-1 for null), in 32 bits."""
    numbers = bytearray(4 * count)
    partitions: cython.p_int = int32_address(numbers)
    row: cython.Py_ssize_t = 0
    with cython.nogil:
        while row < count:
            partitions[row] = -1 if keys.is_null(row) else (keys.murmur2(row) & 0x7FFFFFFF) % partition_count
            row += 1
    return numbers


def _view(buffer: pa.Buffer | None) -> memoryview:
    return memoryview(bytes(8) if buffer is None else buffer).cast("B")
