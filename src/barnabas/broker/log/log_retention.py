"""Which segments a log need not keep: behind its start, beyond `retention.bytes`, older than `retention.ms`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.broker.log.local_log import LocalLog
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.broker.log.log_segment import LogSegment


class RetainedLog(Protocol):
    """What retention looks at in a `UnifiedLog`; sizes are bytes."""

    log_start_offset: int
    high_watermark: int

    @property
    def config(self) -> LogConfig:
        """Return the settings of the topic."""

    @property
    def local_log(self) -> LocalLog:
        """Return the segments, oldest first."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def size(self) -> int:
        """The bytes of all segments."""


def deletable_segments(log: RetainedLog, now_ms: int) -> tuple[list[LogSegment], str]:
    """Return the oldest segments that may go, and why; none is younger than one that must stay.

    Segments go as a whole, and only below the high watermark. Behind the log's start they go whatever the cleanup
    policy says; by size and age only where it says `delete`.
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


def _oldest_while(log: RetainedLog, rule: Callable[[LogSegment, LogSegment | None], bool]) -> list[LogSegment]:
    segments = list(log.local_log.segments)
    found = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        empty_active = following is None and segment.size == 0
        if empty_active or end > log.high_watermark or not rule(segment, following):
            break
        found.append(segment)
    return found


def _before_start(log: RetainedLog) -> Callable[[LogSegment, LogSegment | None], bool]:
    start = log.log_start_offset
    return lambda _segment, following: following is not None and following.base_offset <= start


def _too_much(log: RetainedLog) -> Callable[[LogSegment, LogSegment | None], bool]:
    excess = log.size - log.config.retention_bytes

    def rule(segment: LogSegment, _following: LogSegment | None) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return rule


def _too_old(log: RetainedLog, now_ms: int) -> Callable[[LogSegment, LogSegment | None], bool]:
    oldest = now_ms - log.config.retention_ms

    def rule(segment: LogSegment, following: LogSegment | None) -> bool:
        if following is not None:
            log.local_log.segments.used(segment)
        return segment.largest_timestamp() < oldest

    return rule
