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
        self.view = memoryview(payload)
        if self.view.format != "B":
            self.view = self.view.cast("B")
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
        self.number_read = self.skipped_delta = 0
        self.lowest_delta = self.highest_delta = self.offset_delta_of_highest = 0
        if record_count < 0 or record_count * _SMALLEST_RECORD > self.end:
            raise CorruptRecordError(f"a batch claims {record_count} records in {self.end} bytes")

    def advance(self) -> bool:
        """Step to the next record; False if it is not well-formed, or the last one leaves bytes over."""
        previous_delta: cython.longlong = self.offset_delta
        end: cython.Py_ssize_t
        position: cython.Py_ssize_t = self.read_number(self.next_position, self.end)
        self.position = -1
        if position < 0 or self.number_read < _SMALLEST_RECORD - 1 or self.number_read > self.end - position:
            return False
        end = position + self.number_read
        # One byte for the attributes of a record, of which Kafka uses none.
        if self.read_fields(position + 1, end) != end:
            return False
        if self.offset_delta <= previous_delta or self.offset_delta > self.last_offset_delta:
            return False
        self.position = self.next_position = end
        self.number += 1
        self.remaining -= 1
        return self.remaining > 0 or end == self.end

    def read_fields(self, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Read what follows the attributes of a record that ends at `end`; the position after it, -1 if malformed."""
        position = self.read_number(position, end)
        if position < 0:
            return -1
        self.timestamp_delta = self.number_read
        position = self.read_number(position, end)
        if position < 0:
            return -1
        self.offset_delta = self.number_read
        position = self.read_size(position, end)
        if position < 0:
            return -1
        self.key_size = self.number_read
        self.key_position = position
        if self.number_read > 0:
            position += self.number_read
        position = self.read_size(position, end)
        if position < 0:
            return -1
        self.value_size = self.number_read
        self.value_position = position
        if self.number_read > 0:
            position += self.number_read
        position = self.read_size(position, end)
        if position < 0 or self.number_read < 0:
            return -1
        self.header_count = self.number_read
        self.headers_position = position
        return position if self.number_read == 0 else self.walk_headers(position, end)

    def walk_headers(self, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Check the headers of the current record; the position behind them, -1 if malformed."""
        left: cython.Py_ssize_t = self.header_count
        while left > 0:
            position = self.read_size(position, end)
            if position < 0 or self.number_read < 0:
                return -1
            position = self.read_size(position + self.number_read, end)
            if position < 0:
                return -1
            if self.number_read > 0:
                position += self.number_read
            left -= 1
        return position

    def next_header(self) -> bool:
        """Step to the next header: `name_position`, `name_size`, then `position` and `number_read` of its value.

        Set `position` to `headers_position` before the first; `advance` has checked the headers already.
        """
        self.name_position = self.read_size(self.position, self.end)
        self.name_size = self.number_read
        self.position = self.read_size(self.name_position + self.name_size, self.end)
        return True

    def read_number(self, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Read a zigzag varint into `number_read`; the position behind it, -1 where it does not end before `end`."""
        data: cython.p_uchar = self.data
        number: cython.longlong
        if position < end and data[position] < 0x80:
            number = data[position]
            self.number_read = (number >> 1) ^ -(number & 1)
            return position + 1
        if position + 1 < end and data[position + 1] < 0x80:
            number = (data[position] & 0x7F) | (data[position + 1] << 7)
            self.number_read = (number >> 1) ^ -(number & 1)
            return position + 2
        return self.read_long_number(position, end)

    def read_long_number(self, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """As `read_number`, of any length; -1 also where the number exceeds 64 bits."""
        value: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.uchar
        data: cython.p_uchar = self.data
        while position < end and shift < 64:
            byte = data[position]
            position += 1
            if shift == 63 and byte > 1:
                return -1
            value |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
            if byte < 0x80:
                self.number_read = cython.cast(cython.longlong, value >> 1) ^ -cython.cast(cython.longlong, value & 1)
                return position
            shift += 7
        return -1

    def read_size(self, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Read a size into `number_read`, -1 for null; the position behind it, -1 where so much is not left."""
        position = self.read_number(position, end)
        if position < 0 or self.number_read < -1 or self.number_read > end - position:
            return -1
        return position

    def skip(self, records: cython.Py_ssize_t) -> int:
        """Step over up to `records` records, as far as they are well-formed; how many, and `skipped_delta` of the last.

        Where one is not well-formed it is the same number in two's complement.
        """
        count: cython.Py_ssize_t = 0
        while count < records and self.remaining > 0:
            if not self.advance():
                return ~count
            self.skipped_delta = self.offset_delta
            count += 1
        return count

    def skip_through(self, records: cython.Py_ssize_t, last_delta: cython.longlong) -> int:
        """As `skip`, but not over a record with a higher offset delta than `last_delta`."""
        count: cython.Py_ssize_t = 0
        before: cython.longlong
        position: cython.Py_ssize_t
        while count < records and self.remaining > 0:
            before = self.offset_delta
            position = self.next_position
            if not self.advance():
                return ~count
            if self.offset_delta > last_delta:
                self.step_back(position, before)
                return count
            self.skipped_delta = self.offset_delta
            count += 1
        return count

    def step_back(self, position: cython.Py_ssize_t, offset_delta: cython.longlong) -> bool:
        """Stand before the present record again, where the last `advance` began."""
        self.offset_delta = offset_delta
        self.next_position = position
        self.number -= 1
        self.remaining += 1
        return True

    def skip_before(self, offset_delta: cython.longlong) -> bool:
        """Step over the records before an offset delta; False at one that is not well-formed."""
        before: cython.longlong
        position: cython.Py_ssize_t
        while self.remaining > 0 and self.offset_delta + 1 < offset_delta:
            before = self.offset_delta
            position = self.next_position
            if not self.advance():
                return False
            if self.offset_delta >= offset_delta:
                return self.step_back(position, before)
        return True

    def copy(self) -> RecordCursor:
        """Another cursor at the same place, for going over the same records again."""
        other: RecordCursor = RecordCursor.__new__(RecordCursor)
        other.view = self.view
        other.data = self.data
        other.end = self.end
        other.next_position = self.next_position
        other.number = self.number
        other.remaining = self.remaining
        other.last_offset_delta = self.last_offset_delta
        other.offset_delta = self.offset_delta
        return other

    def check_all(self, need_keys: cython.bint) -> bool:
        """Step through all records and note the timestamps; False at the first that breaks a rule of producers."""
        self.lowest_delta = 0x7FFFFFFFFFFFFFFF
        self.highest_delta = ~self.lowest_delta
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
        """Return the error for the record that `advance` refused."""
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
    """Return the key of a batch's first record. Raises `CorruptRecordError`."""
    cursor: RecordCursor = RecordCursor(payload, record_count, last_offset_delta)
    if record_count == 0 or not cursor.advance():
        raise cursor.corrupt()
    if cursor.key_size < 0:
        return None
    key: bytes = take_bytes(cursor.data, cursor.key_position, cursor.key_size)
    return key
