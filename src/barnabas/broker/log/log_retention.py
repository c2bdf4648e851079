"""Segments that a log need not keep: behind its start, beyond `retention.bytes`, older than `retention.ms`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.broker.log.log_health import CLEANING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.unified_log import UnifiedLog


def delete_old_segments(log: UnifiedLog, now_ms: int) -> list[str]:
    """Take out the segments that retention does not keep; the files, renamed, to be deleted after a delay.

    While the log is cleaned, nothing is taken out. Raises `KafkaStorageError`.
    """
    log.check_online()
    if log.being_cleaned:
        return []
    paths: list[str] = []
    try:
        while True:
            segments, reason = deletable_segments(log, now_ms)
            if not segments:
                log.health.succeeded(CLEANING)
                return paths
            paths += _delete_segments(log, segments, reason)
    except OSError as error:
        # The segments lie before the start of the log by now: what is left of them harms no reader.
        raise log.storage_failure("deleting segments", error, kind=CLEANING) from error


def _delete_segments(log: UnifiedLog, segments: list[LogSegment], reason: str) -> list[str]:
    local = log.local_log
    if segments[-1] is local.segments.active:
        log.roll()
    following = local.segments.higher(segments[-1].base_offset)
    if following is not None:
        log.increment_log_start_offset(following.base_offset, f"segments are deleted, for {reason}")
    if anatomy.active is not None:
        names = *log.topic_partition, log.log_start_offset, len(segments), reason
        anatomy.active.record(anatomy.events.SegmentsDeleted(*names))
    snapshots = log.producer_state.mark_snapshots_for_deletion([segment.base_offset for segment in segments])
    return snapshots + local.remove_segments(segments)


def deletable_segments(log: UnifiedLog, now_ms: int) -> tuple[list[LogSegment], str]:
    """Return the oldest segments that may go, and why; none is younger than one that must stay.

    Segments go as a whole, and only below the high watermark. Behind the log's start they go under any cleanup
    policy; by size and age only where it says `delete`.
    """
    rules: list[tuple[str, Callable[[LogSegment, LogSegment | None], bool]]] = [
        (f"the log starts at offset {log.log_start_offset} now", _before_start(log))
    ]
    if log.config.delete:
        if log.config.retention_bytes >= 0:
            rules.append((f"the log has more than retention.bytes={log.config.retention_bytes}", _too_much(log)))
        if log.config.retention_ms >= 0:
            rules.append((f"it is older than retention.ms={log.config.retention_ms}", _too_old(log, now_ms)))
    for reason, rule in rules:
        found = _oldest_while(log, rule)
        if found:
            return found, reason
    return [], ""


def next_expiry(log: UnifiedLog) -> float:
    """Return when age may let the oldest segment go, in epoch milliseconds; never (infinity) where nothing ages.

    What is more than `retention.bytes`, or lies before the start of the log, comes with a change of the log.
    """
    if not log.config.delete or log.config.retention_ms < 0:
        return inf
    oldest = log.local_log.segments.first
    if oldest is log.local_log.segments.active:
        return oldest.largest_timestamp() + log.config.retention_ms + 1 if oldest.size else inf
    log.local_log.segments.used(oldest)
    return oldest.largest_timestamp() + log.config.retention_ms + 1


def _oldest_while(log: UnifiedLog, rule: Callable[[LogSegment, LogSegment | None], bool]) -> list[LogSegment]:
    segments = list(log.local_log.segments)
    found = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        empty_active = following is None and segment.size == 0
        if empty_active or end > log.high_watermark or not rule(segment, following):
            break
        found.append(segment)
    return found


def _before_start(log: UnifiedLog) -> Callable[[LogSegment, LogSegment | None], bool]:
    start = log.log_start_offset
    return lambda _segment, following: following is not None and following.base_offset <= start


def _too_much(log: UnifiedLog) -> Callable[[LogSegment, LogSegment | None], bool]:
    excess = log.size - log.config.retention_bytes

    def rule(segment: LogSegment, _following: LogSegment | None) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return rule


def _too_old(log: UnifiedLog, now_ms: int) -> Callable[[LogSegment, LogSegment | None], bool]:
    oldest = now_ms - log.config.retention_ms

    def rule(segment: LogSegment, following: LogSegment | None) -> bool:
        if following is not None:
            log.local_log.segments.used(segment)
        return segment.largest_timestamp() < oldest

    return rule
