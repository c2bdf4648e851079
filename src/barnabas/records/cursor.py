# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Steps through the records of one uncompressed batch, in place.

Format: https://kafka.apache.org/documentation/#record. Every size is checked against the bytes that are there, so
hostile input costs no more than its own length. Types are in `cursor.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from barnabas.errors import CorruptRecordError, InvalidRecordError

if not cython.compiled:
    from barnabas.records.native import take_bytes, view_address

# A record of null key and value without headers takes 7 bytes.
_SMALLEST_RECORD = cython.declare(cython.Py_ssize_t, 7)


class RecordCursor:
    """Stands on one record at a time: `advance()` steps to the next, and the fields say where its parts lie.

    `number` counts the records stepped over; sizes are -1 for null. `advance` returns False at a record that is not
    well-formed, and does not raise, so that loops can run without the interpreter lock.
    """

    def __init__(self, payload: bytes | bytearray | memoryview, record_count: int, last_offset_delta: int) -> None:
        self.view = memoryview(payload).cast("B")
        self.data = view_address(self.view)
        self.end = len(self.view)
        self.next_position = 0
        self.number = 0
        self.remaining = record_count
        self.last_offset_delta = last_offset_delta
        self.offset_delta = -1
        self.timestamp_delta = 0
        self.key_position = self.key_size = self.value_position = self.value_size = 0
        self.headers_position = self.header_count = 0
        self.name_position = self.name_size = 0
        self.position = 0
        self.number_read = 0
        self.lowest_delta = self.highest_delta = self.offset_delta_of_highest = 0
        if record_count < 0 or record_count * _SMALLEST_RECORD > self.end:
            raise CorruptRecordError(f"a batch claims {record_count} records in {self.end} bytes")

    def advance(self) -> bool:
        """Step to the next record; False if it is not well-formed, or the last one leaves bytes over."""
        previous_delta: cython.longlong = self.offset_delta
        end: cython.Py_ssize_t
        self.position = self.next_position
        if not self.read_number() or self.number_read < _SMALLEST_RECORD - 1:
            return False
        if self.number_read > self.end - self.position:
            return False
        end = self.position + self.number_read
        self.position += 1  # the attributes of a record, of which Kafka uses none
        if not self.read_fields(end) or self.position != end:
            return False
        if self.offset_delta <= previous_delta or self.offset_delta > self.last_offset_delta:
            return False
        self.next_position = end
        self.number += 1
        self.remaining -= 1
        return self.remaining > 0 or end == self.end

    def read_fields(self, end: cython.Py_ssize_t) -> bool:
        """Read what follows the attributes of a record that ends at `end`."""
        if not self.read_number():
            return False
        self.timestamp_delta = self.number_read
        if not self.read_number():
            return False
        self.offset_delta = self.number_read
        self.key_size = self.read_size(end)
        if self.key_size < -1:
            return False
        self.key_position = self.position
        if self.key_size > 0:
            self.position += self.key_size
        self.value_size = self.read_size(end)
        if self.value_size < -1:
            return False
        self.value_position = self.position
        if self.value_size > 0:
            self.position += self.value_size
        self.header_count = self.read_size(end)
        self.headers_position = self.position
        if self.header_count <= 0:
            return self.header_count == 0
        return self.walk_headers(end)

    def walk_headers(self, end: cython.Py_ssize_t) -> bool:
        """Check the headers of the current record and step behind them."""
        left: cython.Py_ssize_t = self.header_count
        size: cython.Py_ssize_t
        while left > 0:
            size = self.read_size(end)
            if size < 0:
                return False
            self.position += size
            size = self.read_size(end)
            if size < -1:
                return False
            if size > 0:
                self.position += size
            left -= 1
        return True

    def next_header(self) -> bool:
        """Step to the next header: `name_position`, `name_size`, then `position` and `number_read` of its value.

        Set `position` to `headers_position` before the first; `advance` has checked the headers already.
        """
        self.name_size = self.read_size(self.end)
        self.name_position = self.position
        self.position += self.name_size
        self.number_read = self.read_size(self.end)
        return True

    def read_number(self) -> bool:
        """Read a zigzag varint into `number_read`; False at the end of the data, or if it exceeds 64 bits."""
        value: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.uchar
        position: cython.Py_ssize_t = self.position
        while position < self.end and shift < 64:
            byte = self.data[position]
            position += 1
            if shift == 63 and byte > 1:
                return False
            value |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                self.number_read = cython.cast(cython.longlong, value >> 1) ^ -cython.cast(cython.longlong, value & 1)
                return True
            shift += 7
        return False

    def read_size(self, end: cython.Py_ssize_t) -> int:
        """Read a size that must fit before `end`; -1 for null, -2 where it does not fit."""
        if not self.read_number() or self.number_read < -1 or self.number_read > end - self.position:
            return -2
        return self.number_read

    def check_all(self, need_keys: cython.bint) -> bool:
        """Step through all records and note the timestamps; False at the first that breaks a rule of producers."""
        self.lowest_delta = 0x7FFFFFFFFFFFFFFF
        self.highest_delta = -0x7FFFFFFFFFFFFFFF
        while self.remaining > 0:
            if not self.advance() or self.offset_delta != self.number - 1:
                return False
            if need_keys and self.key_size < 0:
                return False
            if self.timestamp_delta < self.lowest_delta:
                self.lowest_delta = self.timestamp_delta
            if self.timestamp_delta > self.highest_delta:
                self.highest_delta = self.timestamp_delta
                self.offset_delta_of_highest = self.offset_delta
        return True

    def corrupt(self) -> CorruptRecordError:
        """The error for the record that `advance` refused."""
        return CorruptRecordError(f"record {self.number} of its batch is not well-formed, at byte {self.next_position}")


def check_records(
    payload: bytes | bytearray | memoryview,
    record_count: int,
    last_offset_delta: int,
    need_keys: bool = False,
) -> tuple[int, int, int]:
    """Check the records of a batch that a producer sent: all well-formed, offset deltas 0, 1, 2 ..., nothing behind.

    `need_keys` is for compacted topics. Returns the lowest and the highest timestamp delta, and the offset delta of the
    first record that has the highest. Raises `CorruptRecordError` for bytes that are no records, and
    `InvalidRecordError` for records that break a rule.
    """
    cursor: RecordCursor
    well_formed: cython.bint
    keys: cython.bint = need_keys
    if record_count <= 0 or record_count != last_offset_delta + 1:
        raise InvalidRecordError(
            f"a batch of {record_count} records has a last offset delta of {last_offset_delta}; a producer's batch has "
            "at least one record and no gaps"
        )
    cursor = RecordCursor(payload, record_count, last_offset_delta)
    with cython.nogil:
        well_formed = cursor.check_all(keys)
    if well_formed:
        return cursor.lowest_delta, cursor.highest_delta, cursor.offset_delta_of_highest
    if cursor.next_position == cursor.position:
        index = cursor.number - 1
        if cursor.offset_delta != index:
            raise InvalidRecordError(f"record {index} of the batch has the offset delta {cursor.offset_delta}")
        if keys and cursor.key_size < 0:
            raise InvalidRecordError(f"record {index} of the batch has no key, which a compacted topic needs")
    raise cursor.corrupt()


def first_key(payload: bytes | bytearray | memoryview, record_count: int, last_offset_delta: int) -> bytes | None:
    """The key of a batch's first record. Raises `CorruptRecordError`."""
    cursor: RecordCursor = RecordCursor(payload, record_count, last_offset_delta)
    if record_count == 0 or not cursor.advance():
        raise cursor.corrupt()
    if cursor.key_size < 0:
        return None
    key: bytes = take_bytes(cursor.data, cursor.key_position, cursor.key_size)
    return key
