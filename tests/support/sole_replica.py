"""Appending to a log as the leader of a partition that has no other replica does."""

from __future__ import annotations

from typing import Any

from barnabas.broker.log.filesystem import Buffer
from barnabas.broker.log.log_append_info import LogAppendInfo
from barnabas.broker.log.unified_log import UnifiedLog


def append(log: UnifiedLog, records: Buffer, **how: Any) -> LogAppendInfo:
    """Append, and let consumers see all of the log: nobody else has to have it first."""
    info = log.append(records, **how)
    if log.must_flush:
        log.flush()
    log.update_high_watermark(log.log_end_offset)
    return info
