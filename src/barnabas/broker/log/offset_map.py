# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The latest offset of each key, in bounded memory, and what it means for the records of a batch (SkimpyOffsetMap).

Compaction asks this about every record of a log, on the broker's only thread: hence compiled. C types are in
`offset_map.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

if not cython.compiled:
    from barnabas.records.cursor import RecordCursor
    from barnabas.records.native import (
        bytearray_address,
        copy_range,
        int64_address,
        new_bytearray,
        number_size,
        take_bytes,
    )

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer

SLOT_SIZE = 24
_SMALLEST = 16
_LONGEST_NUMBER = 10


class SkimpyOffsetMap:
    """A hash table of fixed size from keys to offsets that does not keep the keys, as Apache Kafka's.

    A slot takes 24 bytes: 128 bits of hash and the offset. The hash is Python's own (SipHash with the secret of this
    process), of the key and of the salted key: that two keys share it is as unlikely as with Kafka's MD5, and no
    client can provoke it. `memory` bounds the table, of which `load_factor` is used at most; `expected` records need
    no more.
    """

    def __init__(self, memory: int, expected: int, salt: bytes, load_factor: float = 0.9) -> None:
        slots = _SMALLEST
        while slots * load_factor < expected and 2 * slots * SLOT_SIZE <= memory:
            slots *= 2
        self.mask = slots - 1
        self.capacity = min(int(slots * load_factor), slots - 1)
        self.salt = salt
        self.table = bytearray(slots * SLOT_SIZE)
        self.cells = int64_address(self.table)
        self.size = 0
        self.latest_offset = -1
        self.kept = self.tombstones = 0
        self.first_delta = self.highest_delta = 0

    @property
    def memory(self) -> int:
        """The bytes of the table."""
        return len(self.table)

    def slot_of(self, key: bytes) -> int:
        """Where the key stands in the table, or is to stand: there the offset cell is 0 then."""
        first: cython.longlong = hash(key)
        second: cython.longlong = hash(self.salt + key)
        step: cython.Py_ssize_t = (second & self.mask) | 1
        slot: cython.Py_ssize_t = first & self.mask
        at: cython.Py_ssize_t
        while True:
            at = 3 * slot
            if self.cells[at + 2] == 0:
                self.cells[at] = first
                self.cells[at + 1] = second
                return at
            if self.cells[at] == first and self.cells[at + 1] == second:
                return at
            slot = (slot + step) & self.mask

    def get(self, key: bytes) -> int:
        """Return the latest offset of the key, -1 when it has none."""
        offset: cython.longlong = self.cells[self.slot_of(key) + 2]
        return offset - 1

    def put(self, key: bytes, offset: cython.longlong) -> bool:
        """Note the offset as the key's latest; False, with nothing noted, when there is no room for another key."""
        at: cython.Py_ssize_t = self.slot_of(key)
        if self.cells[at + 2] == 0:
            if self.size >= self.capacity:
                return False
            self.size += 1
        self.cells[at + 2] = offset + 1
        return True

    def add_records(
        self,
        payload: Buffer,
        record_count: int,
        last_offset_delta: int,
        base_offset: cython.longlong,
        start_offset: cython.longlong,
    ) -> bool:
        """Take in the keys of a batch's records from `start_offset` on; False when there was no room for all.

        Raises `CorruptRecordError`.
        """
        cursor: RecordCursor = RecordCursor(payload, record_count, last_offset_delta)
        offset: cython.longlong
        while cursor.remaining > 0:
            if not cursor.advance():
                raise cursor.corrupt()
            offset = base_offset + cursor.offset_delta
            if cursor.key_size < 0 or offset < start_offset:
                continue
            if not self.put(take_bytes(cursor.data, cursor.key_position, cursor.key_size), offset):
                return False
        return True

    def filter_records(
        self,
        payload: Buffer,
        record_count: int,
        last_offset_delta: int,
        base_offset: cython.longlong,
        keep_tombstones: cython.bint,
    ) -> list[tuple[int, int]]:
        """Return the records of a batch that compaction keeps, as ranges of the payload.

        These are the records beyond the map, and of each key the latest; of records without a value only with
        `keep_tombstones`. Beside the ranges it leaves in `kept` their number, in `tombstones` how many have no value,
        and in `first_delta` and `highest_delta` their timestamp deltas. Raises `CorruptRecordError`.
        """
        cursor: RecordCursor = RecordCursor(payload, record_count, last_offset_delta)
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        position: cython.Py_ssize_t = 0
        ranges: list[tuple[int, int]] = []
        self.kept = self.tombstones = 0
        while cursor.remaining > 0:
            position = cursor.next_position
            if not cursor.advance():
                raise cursor.corrupt()
            if not self.keeps(cursor, base_offset + cursor.offset_delta, keep_tombstones):
                continue
            if self.kept == 0:
                self.first_delta = self.highest_delta = cursor.timestamp_delta
                start = position
            elif end != position:
                ranges.append((start, end))
                start = position
            if cursor.timestamp_delta > self.highest_delta:
                self.highest_delta = cursor.timestamp_delta
            end = cursor.next_position
            self.kept += 1
            if cursor.value_size < 0:
                self.tombstones += 1
        if self.kept:
            ranges.append((start, end))
        return ranges

    def keeps(self, cursor: RecordCursor, offset: cython.longlong, keep_tombstones: cython.bint) -> bool:
        """Whether the record on which the cursor stands is kept."""
        latest: cython.longlong
        if offset > self.latest_offset:
            return True
        if cursor.key_size < 0 or (cursor.value_size < 0 and not keep_tombstones):
            return False
        latest = self.cells[self.slot_of(take_bytes(cursor.data, cursor.key_position, cursor.key_size)) + 2] - 1
        return offset >= latest


def rebase_records(
    payload: Buffer, ranges: list[tuple[int, int]], count: int, shift: cython.longlong, same: cython.bint
) -> bytes:
    """Return the records in these ranges with other timestamp deltas: `shift` more, or, with `same`, just `shift`."""
    cursor: RecordCursor = RecordCursor(payload, 0, 0)
    size: cython.Py_ssize_t = count * 2 * _LONGEST_NUMBER
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    used: cython.Py_ssize_t = 0
    for start, end in ranges:
        size += end - start
    target_array = new_bytearray(size)
    target: cython.p_uchar = bytearray_address(target_array)
    for start, end in ranges:
        cursor.position = start
        while cursor.position < end:
            used = put_rebased(target, used, cursor, shift, same)
    return bytes(memoryview(target_array)[:used])


def put_rebased(
    target: cython.p_uchar,
    position: cython.Py_ssize_t,
    cursor: RecordCursor,
    shift: cython.longlong,
    same: cython.bint,
) -> int:
    """Write the record at the cursor's position with another timestamp delta; the position behind it."""
    rest: cython.Py_ssize_t
    delta: cython.longlong
    start: cython.Py_ssize_t = cursor.read_number(cursor.position, cursor.end)
    end: cython.Py_ssize_t = start + cursor.number_read
    # One byte for the attributes of a record, of which Kafka uses none.
    start = cursor.read_number(start + 1, end)
    delta = shift if same else cursor.number_read + shift
    rest = end - start
    position = put_number(target, position, 1 + number_size(delta) + rest)
    target[position] = 0
    position = put_number(target, position + 1, delta)
    copy_range(target, position, cursor.data, start, rest)
    cursor.position = end
    return position + rest


def put_number(target: cython.p_uchar, position: cython.Py_ssize_t, number: cython.longlong) -> int:
    """Write a zigzag varint; the position behind it."""
    rest: cython.ulonglong = (cython.cast(cython.ulonglong, number) << 1) ^ cython.cast(cython.ulonglong, number >> 63)
    while rest > 0x7F:
        target[position] = (rest & 0x7F) | 0x80
        position += 1
        rest >>= 7
    target[position] = rest
    return position + 1
