"""What the application's side of a member is told once."""

from __future__ import annotations

from typing import NamedTuple


class CoordinatorSettings(NamedTuple):
    """Settings of a `Coordinator`; durations in seconds, `auto_commit_interval` None for no automatic commits."""

    group_id: str
    group_instance_id: str | None
    auto_commit_interval: float | None
    rebalance_timeout: float
    api_timeout: float
    retry_backoff: float
