"""Cleans one log: notes the latest offset of each key, then copies what is still of use to new segments (Cleaner)."""

from __future__ import annotations

from collections.abc import Generator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.cleaned_transaction_metadata import CleanedTransactionMetadata
from barnabas.broker.log.log_segment import AppendedBatch, LogSegment
from barnabas.broker.log.offset_index import MAX_RELATIVE_OFFSET
from barnabas.broker.log.offset_map import SkimpyOffsetMap
from barnabas.broker.log.record_filter import RecordFilter
from barnabas.errors import KafkaError
from barnabas.records.batch_header import read_header
from barnabas.records.fetched_batches import open_batch

if TYPE_CHECKING:
    from barnabas.broker.log.cleanable_offsets import LogToClean
    from barnabas.broker.log.filesystem import Buffer, File, FileSystem
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.records.batch_header import BatchHeader

WAITING = -1
"""What a generator of this module yields while the disk works; otherwise it yields the bytes that it has read."""

Work = Generator[int, None, None]


class LogCleaningError(KafkaError):
    """A log cannot be cleaned."""


class CleanerConfig(NamedTuple):
    """The settings `log.cleaner.*`, with Apache Kafka's defaults; sizes in bytes."""

    enable: bool = True
    dedupe_buffer_size: int = 134_217_728
    io_buffer_size: int = 524_288
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = inf
    backoff_ms: int = 15_000

    @classmethod
    def from_settings(cls, settings: dict[str, object]) -> CleanerConfig:
        """Return the configuration that a mapping of Kafka's names to values gives.

        What is missing is at its default.
        """
        given = {}
        for field, default in cls._field_defaults.items():
            value = settings.get(f"log.cleaner.{field.replace('_', '.')}", default)
            if isinstance(default, bool):
                given[field] = value if isinstance(value, bool) else str(value) == "true"
            else:
                given[field] = type(default)(str(value))
        return cls(**given)


class CleanerStats:
    """What a cleaning did."""

    __slots__ = ("bytes_after", "bytes_before", "end_offset", "keys", "map_memory")

    def __init__(self) -> None:
        self.bytes_before = self.bytes_after = self.end_offset = self.keys = self.map_memory = 0


class Cleaner:
    """One cleaning of one log, in small steps.

    `run` may be abandoned at any step: nothing has changed then but for files that end in `.cleaned`. Raises
    `CorruptRecordError` and `LogCleaningError` for a log that cannot be cleaned, `KafkaStorageError` for one that is
    offline or deleted, and `OSError`.
    """

    def __init__(
        self, filesystem: FileSystem, config: CleanerConfig, target: LogToClean, now_ms: int, salt: bytes
    ) -> None:
        self._filesystem = filesystem
        self._config = config
        self._target = target
        self._log: UnifiedLog = target.log
        self._now_ms = now_ms
        # Apache Kafka fills half of the buffer at once; here requests wait meanwhile.
        self._unit = max(config.io_buffer_size // 8, 1)
        records = target.first_uncleanable_offset - target.first_dirty_offset
        self._map = SkimpyOffsetMap(config.dedupe_buffer_size, records, salt, config.io_buffer_load_factor)
        self._unfinished: LogSegment | None = None
        self.deletable: list[str] = []
        """Files that were replaced and may go."""
        self.stats = CleanerStats()

    def run(self) -> Work:
        """Return the steps of the cleaning."""
        target, log, stats = self._target, self._log, self.stats
        yield from self._build_offset_map()
        end = self._map.latest_offset + 1
        if end <= target.first_dirty_offset:
            raise LogCleaningError(
                f"the keys of one batch at offset {target.first_dirty_offset} do not fit in "
                f"log.cleaner.dedupe.buffer.size={self._config.dedupe_buffer_size}"
            )
        stats.end_offset = end
        stats.keys, stats.map_memory = self._map.size, self._map.memory
        transactions = CleanedTransactionMetadata()
        record_filter = RecordFilter(
            self._map,
            transactions,
            log.producer_state.producers,
            end_offset=target.first_uncleanable_offset,
            now_ms=self._now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
        )
        segments = log.local_log.segments.values(0, end)
        while segments:
            group = self._next_group(segments)
            segments = segments[len(group) :]
            yield from self._clean_segments(group, record_filter, transactions)

    def abandon(self, *, remove: bool) -> None:
        """Close what is half made, and remove it. Raises `OSError`."""
        if self._unfinished is not None:
            self._unfinished.delete() if remove else self._unfinished.abandon()
            self._unfinished = None

    # -- the first pass ----------------------------------------------------------------------------------------------

    def _build_offset_map(self) -> Work:
        log, start, end = self._log, self._target.first_dirty_offset, self._target.first_uncleanable_offset
        segments = log.local_log.segments.values(start, end)
        transactions = CleanedTransactionMetadata()
        transactions.add_aborted_transactions(log.local_log.collect_aborted(segments[0], start, end))
        worked = 0
        for at, segment in enumerate(segments):
            log.local_log.segments.used(segment)
            position = segment.offset_index.lookup(start).position
            for header, chunk in segment.records.batches(position, check=True):
                if not self._note_keys(chunk, header, transactions, start):
                    return
                worked += header.size_in_bytes
                if worked >= self._unit:
                    yield worked
                    log.check_online()
                    worked = 0
            following = segments[at + 1].base_offset if at + 1 < len(segments) else end
            # Offsets may be missing at the end of a segment.
            self._map.latest_offset = max(self._map.latest_offset, following - 1)
        yield worked

    def _note_keys(
        self, chunk: Buffer, header: BatchHeader, transactions: CleanedTransactionMetadata, start: int
    ) -> bool:
        stale = transactions.can_discard(chunk, header)
        offset_map = self._map
        if header.last_offset < start:
            return True
        if not stale and not header.is_control:
            opened, payload = open_batch(chunk, header)
            if not offset_map.add_records(
                payload, opened.record_count, opened.last_offset_delta, opened.base_offset, start
            ):
                return False
        offset_map.latest_offset = header.last_offset
        return True

    # -- the second pass ---------------------------------------------------------------------------------------------

    def _next_group(self, segments: list[LogSegment]) -> list[LogSegment]:
        """Return the first segments that together stay within the limits of one."""
        config = self._log.config
        first = segments[0].base_offset
        size = index_entries = time_index_entries = 0
        group: list[LogSegment] = []
        for segment in segments:
            self._log.local_log.segments.used(segment)
            following = self._log.local_log.segments.higher(segment.base_offset)
            end = following.base_offset if following is not None else self._target.first_uncleanable_offset
            size += segment.size
            index_entries += segment.offset_index.entries
            time_index_entries += segment.time_index.entries
            fits = (
                size <= config.segment_bytes
                and index_entries <= segment.offset_index.max_entries
                and time_index_entries <= segment.time_index.max_entries
                and end - 1 - first <= MAX_RELATIVE_OFFSET
            )
            if group and not fits:
                break
            group.append(segment)
        return group

    def _clean_segments(
        self, group: list[LogSegment], record_filter: RecordFilter, transactions: CleanedTransactionMetadata
    ) -> Work:
        log, local = self._log, self._log.local_log
        cleaned = LogSegment.create_cleaned(self._filesystem, log.directory, group[0].base_offset, log.config)
        self._unfinished = cleaned
        transactions.cleaned_index = cleaned.txn_index
        for segment in group:
            following = local.segments.higher(segment.base_offset)
            end = following.base_offset if following is not None else log.log_end_offset
            aborted = local.collect_aborted(segment, segment.base_offset, end)
            transactions.add_aborted_transactions(aborted)
            local.segments.used(segment)
            yield from self._clean_into(cleaned, segment, record_filter)
        cleaned.complete_indexes()
        yield from self._sync(cleaned.begin_flush(), [])
        self.stats.bytes_before += sum(segment.size for segment in group)
        self.stats.bytes_after += cleaned.size
        self._unfinished = None
        replaced = log.replace_segments(cleaned, group)
        yield from self._sync([], [log.directory])
        self.deletable += replaced
        yield 0
        log.check_online()

    def _clean_into(self, cleaned: LogSegment, segment: LogSegment, record_filter: RecordFilter) -> Work:
        kept: list[Buffer] = []
        worked = 0
        for header, chunk in segment.records.batches(0, check=True):
            data = record_filter.filter(chunk, header)
            worked += header.size_in_bytes
            if len(data):
                kept.append(data)
            if worked >= self._unit:
                _append(cleaned, kept)
                kept = []
                yield worked
                self._log.check_online()
                worked = 0
        _append(cleaned, kept)
        yield worked
        self._log.check_online()

    def _sync(self, files: list[File], directories: list[str]) -> Work:
        sync = self._filesystem.sync_in_background(files, directories)
        while not sync.done:
            yield WAITING
        self._log.check_online()
        for file in files:
            file.close()
        if sync.error is not None:
            raise sync.error


def _append(segment: LogSegment, kept: list[Buffer]) -> None:
    if not kept:
        return
    data = b"".join(kept)
    batches = []
    position = 0
    base_offset = -1
    while (header := read_header(data, position)) is not None:
        base_offset = header.base_offset if base_offset < 0 else base_offset
        batches.append(AppendedBatch(header.size_in_bytes, header.last_offset, header.max_timestamp))
        position += header.size_in_bytes
    segment.append(data, base_offset, batches)
