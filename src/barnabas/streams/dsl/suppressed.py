"""`Suppressed`: hold back updates of a table until a time, or until a window closes (KIP-328)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from barnabas.streams.dsl.operator_names import validate
from barnabas.streams.durations import Duration, as_ms
from barnabas.streams.topology.given_fields import check_fields, log_config_of

_UNBOUNDED = 2**63 - 1


class BufferFullStrategy(Enum):
    """What happens when more is held back than the buffer may hold."""

    EMIT = "emit"
    SHUT_DOWN = "shut-down"


@dataclass(frozen=True)
class BufferConfig:
    """How much may be held back, and what happens then."""

    max_records: int = _UNBOUNDED
    max_bytes: int = _UNBOUNDED
    buffer_full_strategy: BufferFullStrategy = BufferFullStrategy.SHUT_DOWN
    is_logging_enabled: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)

    @staticmethod
    def unbounded() -> BufferConfig:
        """Hold back as much as there is."""
        return BufferConfig()

    @staticmethod
    def of_max_records(record_limit: int) -> BufferConfig:
        """Hold back so many keys, then emit the oldest early; `shut_down_when_full` fails instead."""
        return BufferConfig(max_records=record_limit, buffer_full_strategy=BufferFullStrategy.EMIT)

    @staticmethod
    def of_max_bytes(byte_limit: int) -> BufferConfig:
        """Hold back so many bytes, then emit the oldest early; `shut_down_when_full` fails instead."""
        return BufferConfig(max_bytes=byte_limit, buffer_full_strategy=BufferFullStrategy.EMIT)

    def with_max_records(self, record_limit: int) -> BufferConfig:
        """Hold back so many keys."""
        return replace(self, max_records=record_limit)

    def with_max_bytes(self, byte_limit: int) -> BufferConfig:
        """Hold back so many bytes."""
        return replace(self, max_bytes=byte_limit)

    def with_no_bound(self) -> BufferConfig:
        """Hold back as much as there is."""
        return replace(
            self,
            max_records=_UNBOUNDED,
            max_bytes=_UNBOUNDED,
            buffer_full_strategy=BufferFullStrategy.SHUT_DOWN,
        )

    def shut_down_when_full(self) -> BufferConfig:
        """Fail rather than emit early."""
        return replace(self, buffer_full_strategy=BufferFullStrategy.SHUT_DOWN)

    def emit_early_when_full(self) -> BufferConfig:
        """Emit the oldest early rather than fail."""
        return replace(self, buffer_full_strategy=BufferFullStrategy.EMIT)

    def with_logging_enabled(self, config: Mapping[str, str]) -> BufferConfig:
        """Keep a changelog topic with these settings."""
        return replace(self, is_logging_enabled=True, log_config=log_config_of(config))

    def with_logging_disabled(self) -> BufferConfig:
        """Keep no changelog topic: what is held back is lost with its task."""
        return replace(self, is_logging_enabled=False, log_config={})


@dataclass(frozen=True)
class Suppressed:
    """When a table's updates are sent on. `window_end` tells that a record's time is the end of its window."""

    name: str | None
    time_to_wait_ms: int | None
    buffer_config: BufferConfig
    window_end: bool = False
    safe_to_drop_tombstones: bool = False

    def __post_init__(self) -> None:
        check_fields(self, buffer_config=BufferConfig)
        if self.name is not None:
            validate(self.name)

    @staticmethod
    def until_window_closes(buffer_config: BufferConfig | None = None) -> Suppressed:
        """Send only the last update of each window, when it is closed; the buffer must not emit early.

        Raises ValueError for a buffer that would.
        """
        config = BufferConfig.unbounded() if buffer_config is None else buffer_config
        made = Suppressed(None, None, config, window_end=True, safe_to_drop_tombstones=True)
        if config.buffer_full_strategy is BufferFullStrategy.EMIT:
            raise ValueError(
                "until_window_closes needs a buffer that does not emit early: unbounded, or with shut_down_when_full()"
            )
        return made

    @staticmethod
    def until_time_limit(
        time_to_wait_for_more_events: Duration, buffer_config: BufferConfig | None = None
    ) -> Suppressed:
        """Send the last update of a key when its first one is so old, by stream time."""
        wait_ms = as_ms(time_to_wait_for_more_events, "time_to_wait_for_more_events")
        return Suppressed(None, wait_ms, BufferConfig.unbounded() if buffer_config is None else buffer_config)

    def with_name(self, name: str) -> Suppressed:
        """Name the operator and its store."""
        return replace(self, name=name)

    def with_window_grace(self, grace_ms: int) -> Suppressed:
        """Return what waits for the end of windows with this grace."""
        return replace(self, time_to_wait_ms=grace_ms)
