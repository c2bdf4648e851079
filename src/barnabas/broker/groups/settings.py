"""The broker's settings that groups go by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.config.config import Config

#: How long a member that has no id yet may wait in JoinGroup before its answer tells it to try again.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


class GroupSettings:
    """The settings of classic groups and committed offsets, read once. All times are milliseconds."""

    __slots__ = (
        "initial_rebalance_delay_ms",
        "max_session_timeout_ms",
        "max_size",
        "min_session_timeout_ms",
        "offset_metadata_max_bytes",
        "offsets_retention_check_interval_ms",
        "offsets_retention_ms",
    )

    def __init__(self, config: Config):
        self.min_session_timeout_ms = config.get_int("group.min.session.timeout.ms")
        self.max_session_timeout_ms = config.get_int("group.max.session.timeout.ms")
        self.max_size = config.get_int("group.max.size")
        self.initial_rebalance_delay_ms = config.get_int("group.initial.rebalance.delay.ms")
        self.offset_metadata_max_bytes = config.get_int("offset.metadata.max.bytes")
        self.offsets_retention_ms = config.get_int("offsets.retention.minutes") * 60_000
        self.offsets_retention_check_interval_ms = config.get_int("offsets.retention.check.interval.ms")
