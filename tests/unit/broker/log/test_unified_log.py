"""What a log takes, refuses, stamps, rolls and forgets."""

from __future__ import annotations

import struct
from random import Random

import pytest

from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.log_config import LogConfig
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.log_retention import delete_old_segments
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedForMessageFormatError,
)
from barnabas.protocol.kinds import ControlRecordType
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, crc32c, read_batches
from barnabas.records.batch_header import LOG_APPEND_TIME
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from tests.support.sole_replica import append

COMMIT = ControlRecordType.COMMIT

NOW = 1_700_000_000_000
HOUR = 3_600_000


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(Random(0))


def new_log(disk: MemoryFileSystem, **settings: object) -> UnifiedLog:
    manager = LogManager("/data", disk)
    manager.start()
    return manager.create_log(
        TopicPartition("t", 0), config={name.replace("_", "."): value for name, value in settings.items()}
    )


def batch(
    *timestamps: int, key: bytes | None = None, value: bytes = b"v", codec: str = "none", timestamp_type: int = 0
) -> bytes:
    builder = RecordBatchBuilder(1 << 24, codec, timestamp_type=timestamp_type)
    for timestamp in timestamps or (NOW,):
        builder.try_append(timestamp, key, value, [])
    return builder.close()


def changed(data: bytes, position: int, piece: bytes) -> bytes:
    """The batch with some bytes replaced and its checksum made right again."""
    result = bytearray(data)
    result[position : position + len(piece)] = piece
    result[17:21] = crc32c(bytes(result[21:])).to_bytes(4, "big")
    return bytes(result)


REFUSED = {
    "no batch": (b"", InvalidRecordError),
    "half a batch": (batch()[:50], InvalidRecordError),
    "a batch and a half": (batch() + batch()[:50], CorruptRecordError),
    "two batches": (batch() + batch(), InvalidRecordError),
    "a wrong checksum": (batch()[:-1] + b"\x01", CorruptRecordError),
    "a base offset": (changed(batch(), 0, struct.pack(">q", 1)), InvalidRecordError),
    "too few offsets": (changed(batch(NOW, NOW), 23, struct.pack(">i", 0)), InvalidRecordError),
    "too many records": (changed(batch(), 57, struct.pack(">i", 2)), InvalidRecordError),
    "no records": (changed(batch(), 57, struct.pack(">i", 0)), InvalidRecordError),
    "a control batch": (changed(batch(), 21, struct.pack(">h", 0x30)), InvalidRecordError),
    "records cut short": (changed(batch(), 61, b"\x7e"), KafkaError),
    "claimed append time": (batch(timestamp_type=LOG_APPEND_TIME), InvalidTimestampError),
    "a time in the future": (batch(NOW, NOW + HOUR + 1), InvalidTimestampError),
    "a time so far in the future that the difference wraps around": (batch(-1, 2**63 - 1), InvalidTimestampError),
    "a batch too large": (batch(value=bytes(3000)), RecordTooLargeError),
    "an old format": (
        # A message of magic 1: offset, size, checksum, magic, attributes, timestamp, null key, null value.
        bytes(8) + struct.pack(">i", 22) + bytes(4) + b"\x01\x00" + bytes(8) + b"\xff" * 8,
        UnsupportedForMessageFormatError,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_log_refuses(disk: MemoryFileSystem, what: str) -> None:
    log = new_log(disk, max_message_bytes=2000)
    data, error = REFUSED[what]

    with pytest.raises(error, match=r"t-0|batch|message|record"):
        append(log, data, now_ms=NOW)

    assert (log.log_end_offset, log.size) == (0, 0)
    assert append(log, batch(), now_ms=NOW).first_offset == 0


def test_a_batch_larger_than_a_segment_is_refused(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=1000)

    with pytest.raises(RecordBatchTooLargeError):
        append(log, batch(value=bytes(1000)), now_ms=NOW)


def test_a_compacted_log_needs_keys(disk: MemoryFileSystem) -> None:
    log = new_log(disk, cleanup_policy="compact")

    with pytest.raises(InvalidRecordError):
        append(log, batch(), now_ms=NOW)
    assert append(log, batch(key=b"k"), now_ms=NOW).first_offset == 0


def test_timestamps_may_be_bounded_in_the_past(disk: MemoryFileSystem) -> None:
    log = new_log(disk, message_timestamp_before_max_ms=1000)

    with pytest.raises(InvalidTimestampError, match=r"message\.timestamp\.before\.max\.ms"):
        append(log, batch(NOW - 1001, NOW), now_ms=NOW)
    assert append(log, batch(NOW - 1000, NOW + HOUR), now_ms=NOW).last_offset == 1


def test_what_is_given_is_not_changed_and_may_be_read_only(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    data = bytearray(batch())
    before = bytes(data)
    append(log, data, now_ms=NOW, leader_epoch=4)
    append(log, memoryview(before), now_ms=NOW, leader_epoch=4)

    assert data == before
    batches = list(read_batches(log.read(0, 1000).records))
    assert [(one.base_offset, one.partition_leader_epoch) for one in batches] == [(0, 4), (1, 4)]
    for one in batches:
        one.check()


def test_a_log_of_append_time_stamps_its_records(disk: MemoryFileSystem) -> None:
    log = new_log(disk, message_timestamp_type="LogAppendTime")

    info = append(log, batch(5, 6), now_ms=NOW)

    assert info.log_append_time == NOW
    (stored,) = read_batches(log.read(0, 1000).records)
    stored.check()
    assert [(record.timestamp, record.offset) for record in stored] == [(NOW, 0), (NOW, 1)]
    assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)


def test_a_largest_timestamp_that_is_wrong_is_put_right(disk: MemoryFileSystem) -> None:
    log = new_log(disk)

    append(log, changed(batch(NOW, NOW + 5), 35, struct.pack(">q", NOW + 99)), now_ms=NOW)

    (stored,) = read_batches(log.read(0, 1000).records)
    stored.check()
    assert stored.max_timestamp == NOW + 5


@pytest.mark.parametrize(("setting", "sent", "stored"), [("gzip", "none", "gzip"), ("uncompressed", "gzip", "none")])
def test_a_log_may_prescribe_the_codec(disk: MemoryFileSystem, setting: str, sent: str, stored: str) -> None:
    log = new_log(disk, compression_type=setting)
    append(log, batch(NOW, NOW + 1, key=b"k", value=b"v" * 200, codec=sent), now_ms=NOW)
    append(log, batch(NOW + 2, codec=stored), now_ms=NOW)

    batches = list(read_batches(log.read(0, 10_000).records))

    assert [one.compression for one in batches] == [stored, stored]
    assert [(r.offset, r.timestamp, r.key) for one in batches for r in one] == [
        (0, NOW, b"k"), (1, NOW + 1, b"k"), (2, NOW + 2, None),
    ]  # fmt: skip


def test_a_coordinator_may_append_several_batches(disk: MemoryFileSystem) -> None:
    log = new_log(disk)

    info = append(log, batch(NOW, NOW) + batch(NOW), now_ms=NOW, origin=COORDINATOR)

    assert (info.first_offset, info.last_offset, info.record_count) == (0, 2, 3)
    assert [one.base_offset for one in read_batches(log.read(0, 1000).records)] == [0, 2]


def test_a_segment_ends_with_its_bytes_its_time_or_its_index(disk: MemoryFileSystem) -> None:
    size = len(batch())
    by_bytes = new_log(disk, segment_bytes=2 * size)
    for _ in range(5):
        by_bytes.append(batch(), now_ms=NOW)
    assert by_bytes.local_log.segments.base_offsets == [0, 2, 4]

    by_time = new_log(MemoryFileSystem(Random(0)), segment_ms=1000)
    for time in (0, 1000, 1001, 1500):
        by_time.append(batch(NOW + time), now_ms=NOW)
    assert by_time.local_log.segments.base_offsets == [0, 2]

    by_index = new_log(MemoryFileSystem(Random(0)), segment_index_bytes=36, index_interval_bytes=0)
    for _ in range(7):
        by_index.append(batch(), now_ms=NOW)
    assert by_index.local_log.segments.base_offsets == [0, 5]

    untimed = new_log(MemoryFileSystem(Random(0)), segment_ms=1000)
    for now in (NOW, NOW + 1000, NOW + 1001):
        untimed.append(batch(-1), now_ms=now)
    assert untimed.local_log.segments.base_offsets == [0, 2]


def test_flush_messages_brings_records_to_the_disk_before_the_answer(disk: MemoryFileSystem) -> None:
    log = new_log(disk, flush_messages=3)

    for expected in (0, 0, 3, 3, 3, 6):
        append(log, batch(), now_ms=NOW)
        assert log.recovery_point == expected
    disk.power_loss()
    manager = LogManager("/data", disk)
    manager.start()
    assert next(iter(manager)).log_end_offset == 6


def killed_with_damage(disk: MemoryFileSystem, log: UnifiedLog, position: int, damage: bytes) -> LogManager:
    """The broker after a crash before which two records were flushed, with damage on the disk in the first segment."""
    path = log.local_log.segments.first.records.path
    file = disk.open(path)
    file.pwrite(damage, position)
    file.sync()
    disk.replace("/data/recovery-point-offset-checkpoint", b"0\n1\nt 0 2\n", sync=True)
    disk.crash()
    manager = LogManager("/data", disk)
    manager.start()
    return manager


def values_after_power_loss(disk: MemoryFileSystem) -> list[bytes | None]:
    disk.power_loss()
    manager = LogManager("/data", disk)
    manager.start()
    (log,) = manager
    values: list[bytes | None] = []
    while data := log.read(len(values), 1 << 20).records:
        values += [record.value for found in read_batches(data) for record in found]
    return values


@pytest.mark.parametrize("seed", range(5))
def test_what_recovery_cuts_does_not_come_back_when_the_power_is_lost(seed: int) -> None:
    disk = MemoryFileSystem(Random(seed))
    log = new_log(disk, flush_messages=2)
    for _ in range(2):
        append(log, batch(), now_ms=NOW)
    (recovered,) = killed_with_damage(disk, log, log.size, bytes(60))
    assert (recovered.log_end_offset, recovered.recovery_point) == (2, 2)

    recovered.roll()
    append(recovered, batch(value=b"next"), now_ms=NOW)
    recovered.flush()

    assert values_after_power_loss(disk) == [b"v", b"v", b"next"]


@pytest.mark.parametrize("seed", range(5))
def test_segments_that_recovery_deletes_do_not_come_back_when_the_power_is_lost(seed: int) -> None:
    disk = MemoryFileSystem(Random(seed))
    log = new_log(disk, flush_messages=1)
    for _ in range(3):
        append(log, batch(), now_ms=NOW)
    log.roll()
    append(log, batch(value=b"behind the damage"), now_ms=NOW)
    (recovered,) = killed_with_damage(disk, log, 2 * len(batch()), bytes(60))
    assert (recovered.log_end_offset, recovered.recovery_point) == (2, 2)

    for _ in range(3):
        append(recovered, batch(value=b"next"), now_ms=NOW)
    recovered.flush()

    assert values_after_power_loss(disk) == [b"v", b"v", b"next", b"next", b"next"]


def test_a_gap_that_no_record_follows_is_no_part_of_the_log(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    for _ in range(3):
        append(log, batch(), now_ms=NOW)
    log.roll()
    first = log.local_log.segments.first.records.path
    disk.replace("/data/recovery-point-offset-checkpoint", b"0\n0\n", sync=True)
    disk.crash()
    # The power has taken the last batch, and what was written behind it; the file that it was written to is there.
    disk.open(first).truncate(2 * len(batch()))

    manager = LogManager("/data", disk)
    manager.start()
    (recovered,) = manager

    assert (recovered.log_end_offset, recovered.high_watermark) == (2, 2)
    append(recovered, batch(value=b"next"), now_ms=NOW)
    records = [record for found in read_batches(recovered.read(2, 1 << 20).records) for record in found]
    assert [(record.offset, record.value) for record in records] == [(2, b"next")]


@pytest.mark.parametrize(("has_copies", "left"), [(True, [0, 1]), (False, [0, 1, 3, 4])])
def test_a_replica_ends_where_records_are_missing(disk: MemoryFileSystem, has_copies: bool, left: list[int]) -> None:
    """It would count as having them, and lead without. A broker that is alone keeps what it has.

    Found by `./run sim --cluster quorum --faults "reset as it joins" --seed 15`: acknowledged records were lost.
    """
    log = new_log(disk)
    for _ in range(3):
        append(log, batch(), now_ms=NOW)
    log.roll()
    for _ in range(2):
        append(log, batch(), now_ms=NOW)
    first = log.local_log.segments.first.records.path
    disk.replace("/data/recovery-point-offset-checkpoint", b"0\n0\n", sync=True)
    disk.crash()
    # The power has taken the last batch of the segment, and nothing of the one behind it.
    disk.open(first).truncate(2 * len(batch()))

    manager = LogManager("/data", disk, has_copies=has_copies)
    manager.start()
    (recovered,) = manager

    assert recovered.log_end_offset == left[-1] + 1
    offsets = [
        record.offset
        for at in (0, 3)
        if at <= left[-1]
        for found in read_batches(recovered.read(at, 1 << 20).records)
        for record in found
    ]
    assert offsets == left


def test_a_failed_flush_puts_the_log_offline(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    append(log, batch(), now_ms=NOW)
    disk.fail = lambda operation, path: OSError(5, "broken") if operation == "sync" and path.endswith(".log") else None

    with pytest.raises(KafkaStorageError, match="flushing"):
        log.flush()
    disk.fail = None
    with pytest.raises(KafkaStorageError, match="offline"):
        append(log, batch(), now_ms=NOW)


def test_deleted_records_are_out_of_range_and_their_segments_go(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=2 * len(batch()), retention_ms=-1)
    for _ in range(5):
        append(log, batch(), now_ms=NOW)

    assert log.increment_log_start_offset(3, "a client asked for it")
    assert not log.increment_log_start_offset(2, "a client asked for it")
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100)
    with pytest.raises(OffsetOutOfRangeError, match="high watermark is 5"):
        log.increment_log_start_offset(6, "a client asked for it")
    paths = delete_old_segments(log, NOW)

    assert log.local_log.segments.base_offsets == [2, 4]
    assert f"/data/t-0/{0:020d}.log.deleted" in paths
    assert log.earliest_offset().offset == 3
    assert log.read(3, 100).records


def test_retention_by_bytes_keeps_at_least_so_many(disk: MemoryFileSystem) -> None:
    size = len(batch())
    log = new_log(disk, segment_bytes=size, retention_bytes=2 * size, retention_ms=-1)
    for _ in range(6):
        append(log, batch(), now_ms=NOW)

    delete_old_segments(log, NOW)

    assert log.local_log.segments.base_offsets == [4, 5]
    assert (log.log_start_offset, log.size) == (4, 2 * size)


def test_retention_by_time_goes_by_the_records_and_rolls_the_last_segment(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=len(batch()), retention_ms=1000)
    for at in range(3):
        append(log, batch(NOW + 500 * at), now_ms=NOW)

    delete_old_segments(log, NOW + 1500)
    assert log.local_log.segments.base_offsets == [1, 2]
    delete_old_segments(log, NOW + 9000)

    assert log.local_log.segments.base_offsets == [3]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)
    assert append(log, batch(NOW + 9000), now_ms=NOW + 9000).first_offset == 3


def test_a_compacted_log_is_not_deleted_by_time(disk: MemoryFileSystem) -> None:
    log = new_log(disk, cleanup_policy="compact", segment_bytes=len(batch(key=b"k")), retention_ms=1)
    for _ in range(3):
        append(log, batch(key=b"k"), now_ms=NOW)

    assert delete_old_segments(log, NOW + 10 * HOUR) == []


def test_the_high_watermark_stays_within_the_log(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    for _ in range(3):
        append(log, batch(), now_ms=NOW)

    assert [log.update_high_watermark(offset) for offset in (1, 9, -1, 2)] == [1, 3, 0, 2]
    assert [one.base_offset for one in read_batches(log.read(0, 1000).records)] == [0, 1]
    assert log.latest_offset().offset == 2


@pytest.mark.parametrize(
    "setting",
    [
        {"segment.bytes": "many"},
        {"segment.bytes": 1},
        {"cleanup.policy": "keep"},
        {"min.cleanable.dirty.ratio": 2},
        {"message.timestamp.type": "Never"},
        {"preallocate": "perhaps"},
        {"retention.ms": -2},
    ],
)
def test_a_setting_that_is_not_allowed_is_named(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting)).replace(".", r"\.")):
        LogConfig(setting)


def test_settings_come_as_strings_or_values() -> None:
    config = LogConfig({"segment.bytes": "2000", "preallocate": True, "cleanup.policy": ["compact", "delete"]})

    assert (config.segment_bytes, config.preallocate, config.compact, config.delete) == (2000, True, True, True)
    assert (LogConfig().retention_ms, LogConfig().compact) == (604800000, False)


@pytest.mark.shows("S3.10", breaks="barnabas.broker.log.unified_log:UnifiedLog.read")
def test_reading_deletes_nothing(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    for _ in range(3):
        append(log, batch(), now_ms=NOW)

    reads = [log.read(0, 1000).records for _ in range(3)]

    assert reads[0] == reads[1] == reads[2] == disk.read(f"/data/t-0/{0:020d}.log")
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)


@pytest.mark.shows("S3.12", breaks="barnabas.broker.log.log_retention:delete_old_segments")
def test_deletion_takes_whole_segments(disk: MemoryFileSystem) -> None:
    size = len(batch())
    log = new_log(disk, segment_bytes=3 * size, retention_bytes=4 * size, retention_ms=-1)
    for _ in range(8):
        append(log, batch(), now_ms=NOW)

    delete_old_segments(log, NOW)

    # Four batches would be enough; but of the second segment's three none can go alone.
    assert log.local_log.segments.base_offsets == [3, 6]
    assert log.log_start_offset == 3


@pytest.mark.shows("S3.27", breaks="barnabas.broker.log.log_segment:LogSegment.append")
def test_a_partition_gives_records_in_the_order_in_which_it_took_them(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=300)
    values = [str(at).encode() for at in range(50)]
    for value in values:
        append(log, batch(value=value), now_ms=NOW)

    read = [record.value for one in read_batches(log.read(0, 1).records) for record in one]
    for offset in range(1, 50):
        read += [record.value for one in read_batches(log.read(offset, 1).records) for record in one]

    assert read == values


@pytest.mark.shows("S3.33", breaks="barnabas.broker.log.log_validator:LogValidator.validate_and_assign_offsets")
def test_offsets_begin_at_zero_follow_each_other_and_are_not_the_clients_to_choose(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    infos = [append(log, batch(*[NOW] * count), now_ms=NOW) for count in (1, 3, 2)]

    assert [(info.first_offset, info.last_offset) for info in infos] == [(0, 0), (1, 3), (4, 5)]
    with pytest.raises(InvalidRecordError, match="base offset 100 in place of 0"):
        append(log, changed(batch(), 0, struct.pack(">q", 100)), now_ms=NOW)
    marker = build_end_txn_marker(EndTxnMarker(COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW)
    append(log, marker, now_ms=NOW, origin=COORDINATOR)
    append(log, batch(), now_ms=NOW)
    records = [
        record.offset for one in read_batches(log.read(0, 10_000).records) if not one.is_control for record in one
    ]
    assert records == [0, 1, 2, 3, 4, 5, 7]
