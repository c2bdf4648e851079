"""Files of a log as a broken disk or a careless hand leaves them: the log opens, or is refused with a clean error.

The first byte of an input says how: checksums are not looked at (1), the broker before was killed (2). Each piece
changes one file: its number, what to do, a position of two bytes, and the bytes for it.
"""

from __future__ import annotations

from functools import cache
from random import Random

from barnabas.broker.log import file_records
from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import CorruptRecordError, KafkaStorageError, OffsetOutOfRangeError
from barnabas.protocol.kinds import ControlRecordType
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.batch_header import check_crc
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from tests.support.sole_replica import append
from tools.fuzz.disk import disk_with, files_of
from tools.fuzz.pieces import join, split

ABORT, COMMIT = ControlRecordType

_NO_CHECKSUMS, _KILLED = 1, 2
_MOST_CHANGES = 6
_NOW = 1_700_000_000_000
_NAME = TopicPartition("t", 0)
_SETTINGS = {"segment.bytes": 700, "index.interval.bytes": 100, "cleanup.policy": "compact,delete"}


def _started(disk: MemoryFileSystem) -> LogManager:
    manager = LogManager("/data", disk, _SETTINGS, random_bytes=disk.random.randbytes)
    manager.start(now_ms=_NOW, open_logs=False)
    while manager.open_step(_NOW):
        pass
    return manager


def _batch(number: int, producer: int = -1, sequence: int = 0, *, transactional: bool = False) -> bytes:
    builder = RecordBatchBuilder(1 << 20, compression="gzip" if number % 3 == 0 else "none")
    for index in range(1 + number % 2):
        builder.try_append(_NOW + number, b"%d" % (number % 7), b"v%d" % number, [("h", b"x")] * index)
    if producer >= 0:
        builder.set_producer_state(producer, 0, sequence, transactional=transactional)
    return builder.close()


def _end(log: UnifiedLog, producer: int, kind: int) -> None:
    marker = build_end_txn_marker(EndTxnMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=_NOW)
    append(log, marker, now_ms=_NOW, origin=COORDINATOR)


@cache
def _files() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the files after a clean end, and after a kill."""
    disk = MemoryFileSystem(Random(1))
    manager = _started(disk)
    log = manager.create_log(_NAME, bytes(range(16)))
    for number in range(20):
        append(log, _batch(number), now_ms=_NOW)
        append(log, _batch(2 * number, 5, number), now_ms=_NOW)
        if number in (4, 11):
            append(log, _batch(0, producer=number, transactional=True), now_ms=_NOW)
            _end(log, number, ABORT if number == 4 else COMMIT)
    append(log, _batch(0, producer=77, transactional=True), now_ms=_NOW)
    killed = files_of(disk, "/data")
    manager.close()
    return files_of(disk, "/data"), killed


def run(data: bytes) -> None:
    """See the module."""
    flags = data[0] if data else 0
    if flags & _NO_CHECKSUMS:
        file_records.check_crc = lambda *_: None
    try:
        _open_damaged(data, flags)
    finally:
        file_records.check_crc = check_crc


def _open_damaged(data: bytes, flags: int) -> None:
    files = dict(_files()[1 if flags & _KILLED else 0])
    for piece in split(data[1:], _MOST_CHANGES):
        if len(piece) >= 4:
            _change(files, piece)
    _use(disk_with(files))


def _change(files: dict[str, bytes], piece: bytes) -> None:
    names = sorted(files)
    if not names:
        return
    name = names[piece[0] % len(names)]
    old, new = files[name], piece[4:]
    at = int.from_bytes(piece[2:4], "big") % (len(old) + 1)
    kind = piece[1] % 6
    if kind == 0:
        files[name] = old[:at] + new + old[at + len(new) :]
    elif kind == 1:
        files[name] = old[:at]
    elif kind == 2:
        files[name] = old[:at] + new + old[at:]
    elif kind == 3:
        files[name] = new
    elif kind == 4:
        files[name] = old + bytes(at)
    else:
        del files[name]


def _use(disk: MemoryFileSystem) -> None:
    try:
        manager = _started(disk)
        log = manager.get_log(_NAME) or manager.create_log(_NAME)
    except KafkaStorageError:
        return
    _read(log)
    before = log.log_end_offset
    try:
        info = append(log, _batch(1), now_ms=_NOW)
    except (CorruptRecordError, KafkaStorageError):
        return
    assert info.first_offset == before
    for index in range(30):
        if not manager.step(20, _NOW + index * 3_600_000):
            break
    _read(log)
    start, end = log.log_start_offset, log.log_end_offset
    manager.close()
    again = _started(disk)
    found = again.get_log(_NAME)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (start, end), "a log closed cleanly comes back as it was"


def _read(log: UnifiedLog) -> None:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            read = log.read(offset, 300, min_one_message=True)
            after = [batch.next_offset for batch in read_batches(read.records) if list(batch) is not None]
        except (CorruptRecordError, KafkaStorageError, OffsetOutOfRangeError):
            return
        if not after or after[-1] <= offset:
            return
        offset = after[-1]
    for timestamp in (_NOW, _NOW + 10):
        try:
            log.offset_for_timestamp(timestamp)
        except CorruptRecordError:
            return


def seeds() -> list[bytes]:
    """Every file once with each kind of change."""
    found = []
    for flags in range(4):
        for number in range(len(_files()[flags // 2])):
            for kind, at, new in (
                (0, 60, b"\xff\xff"),
                (1, 40, b""),
                (2, 10, b"\0" * 9),
                (3, 0, b"2\n1\n"),
                (4, 99, b""),
                (5, 0, b""),
            ):
                found.append(bytes([flags]) + join([bytes([number, kind]) + at.to_bytes(2, "big") + new]))
    return found
