"""What an append answers (LogAppendInfo)."""

from __future__ import annotations

from typing import NamedTuple


class LogAppendInfo(NamedTuple):
    """Where the records went.

    `log_append_time` is epoch milliseconds for a log of LogAppendTime and -1 otherwise. For a batch that the log has
    already, `duplicate` is true, the offsets are those it got then, and nothing was written. `last_leader_epoch`
    is that of the last batch of a follower's append, else -1.
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    record_count: int
    size_in_bytes: int
    duplicate: bool
    last_leader_epoch: int = -1
