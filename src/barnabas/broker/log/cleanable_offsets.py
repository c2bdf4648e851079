"""How much of a log compaction may look at, and how much of that is dirty (LogToClean)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.log_config import LONG_MAX

if TYPE_CHECKING:
    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.unified_log import UnifiedLog


class LogToClean(NamedTuple):
    """A log with the dirty range [first_dirty_offset, first_uncleanable_offset), whose end is that of a segment."""

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_clean: bool
    """Whether a dirty record waits for longer than `max.compaction.lag.ms`."""

    @property
    def ages(self) -> bool:
        """Whether time alone may make it due: dirty segments that are too young, or will have waited too long."""
        config, active = self.log.config, self.log.local_log.segments.active
        has_dirty = self.first_dirty_offset < active.base_offset
        return has_dirty and (config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < LONG_MAX)

    @property
    def cleanable_ratio(self) -> float:
        """The dirty part of all bytes that may be cleaned."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough (`min.cleanable.dirty.ratio`), or dirty for too long."""
        if not self.cleanable_bytes:
            return False
        return self.must_clean or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: UnifiedLog, first_dirty_offset: int, now_ms: int) -> LogToClean:
    """Return what there is to clean in a log whose records before `first_dirty_offset` are clean."""
    segments = log.local_log.segments
    older = list(segments)[:-1]
    dirty = [segment for segment in older if _end(log, segment) > first_dirty_offset]
    bound = _first_uncleanable_offset(log, dirty, now_ms)
    last = segments.floor(bound)
    end = max(last.base_offset if last is not None else bound, first_dirty_offset)
    # A segment in which the dirty range begins counts as both, clean and dirty, as in Apache Kafka.
    clean = sum(segment.size for segment in older if segment.base_offset < first_dirty_offset)
    cleanable = sum(segment.size for segment in dirty if segment.base_offset < end) if end > first_dirty_offset else 0
    return LogToClean(log, first_dirty_offset, end, clean, cleanable, _waits_too_long(log, dirty, now_ms))


def _end(log: UnifiedLog, segment: LogSegment) -> int:
    following = log.local_log.segments.higher(segment.base_offset)
    return log.log_end_offset if following is None else following.base_offset


def _first_uncleanable_offset(log: UnifiedLog, dirty: list[LogSegment], now_ms: int) -> int:
    bound = min(log.last_stable_offset, log.local_log.segments.active.base_offset)
    lag = log.config.min_compaction_lag_ms
    for segment in dirty if lag > 0 else ():
        log.local_log.segments.used(segment)
        if segment.largest_timestamp() > now_ms - lag:
            return min(bound, segment.base_offset)
    return bound


def _waits_too_long(log: UnifiedLog, dirty: list[LogSegment], now_ms: int) -> bool:
    latest = now_ms - log.config.max_compaction_lag_ms
    if latest <= 0:
        return False
    for segment in dirty:
        log.local_log.segments.used(segment)
        if 0 <= segment.first_batch_timestamp < latest:
            return True
    return False
