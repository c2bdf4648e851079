"""The settings of one log, under Kafka's names without dots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from barnabas.errors import ConfigError
from barnabas.records.compression import CODECS

LONG_MAX = 0x7FFFFFFFFFFFFFFF

# name -> (default, least value); the defaults are those of Apache Kafka 4.3's topic settings.
INTEGER_SETTINGS: dict[str, tuple[int, int]] = {
    "segment.bytes": (1073741824, 14),
    "segment.ms": (604800000, 1),
    "segment.jitter.ms": (0, 0),
    "segment.index.bytes": (10485760, 4),
    "index.interval.bytes": (4096, 0),
    "max.message.bytes": (1048588, 0),
    "message.timestamp.before.max.ms": (LONG_MAX, 0),
    "message.timestamp.after.max.ms": (3600000, 0),
    "flush.messages": (LONG_MAX, 1),
    "flush.ms": (LONG_MAX, 0),
    "retention.bytes": (-1, -1),
    "retention.ms": (604800000, -1),
    "file.delete.delay.ms": (60000, 0),
    "delete.retention.ms": (86400000, 0),
    "min.compaction.lag.ms": (0, 0),
    "max.compaction.lag.ms": (LONG_MAX, 1),
    "min.insync.replicas": (1, 1),
}
CLEANUP_POLICIES = frozenset(("compact", "delete"))
TIMESTAMP_TYPES = {"CreateTime": 0, "LogAppendTime": 1}
COMPRESSION_TYPES = ("producer", "uncompressed", *CODECS[1:])
#: Of each codec that has levels: the setting, and Apache Kafka's default (KIP-390).
COMPRESSION_LEVELS = {
    "gzip": ("compression.gzip.level", -1),
    "lz4": ("compression.lz4.level", 9),
    "zstd": ("compression.zstd.level", 3),
}
_LEAST_LEVEL = -131072  # zstd's, the lowest of all; what each codec allows is checked where settings are given
_BOOLEANS = {"true": True, "false": False}

T = TypeVar("T")


class LogConfig:
    """One log's settings, from a mapping of Kafka's topic settings to strings or plain values.

    A name that does not concern the log (`min.insync.replicas`) is left to those whom it concerns. Raises
    `ConfigError` for a value that is not allowed.
    """

    __slots__ = (
        "cleanup_policy",
        "compact",
        "compression_level",
        "compression_type",
        "delete",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "index_interval_bytes",
        "largest_batch",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "max_segment_ms",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "min_insync_replicas",
        "originals",
        "preallocate",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "takes_as_sent",
    )
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    file_delete_delay_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    min_insync_replicas: int
    max_compaction_lag_ms: int

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        given: Mapping[str, object] = settings or {}
        self.originals = dict(given)
        for name, (default, least) in INTEGER_SETTINGS.items():
            setattr(self, name.replace(".", "_"), _integer(name, given.get(name, default), least))
        self.preallocate: bool = _choice("preallocate", given.get("preallocate", False), _BOOLEANS)
        self.message_timestamp_type: int = _choice(
            "message.timestamp.type", given.get("message.timestamp.type", "CreateTime"), TIMESTAMP_TYPES
        )
        self.compression_type: str = _choice(
            "compression.type",
            given.get("compression.type", "producer"),
            {name: name for name in COMPRESSION_TYPES},
        )
        #: For batches that come in another codec than `compression_type`; None where that codec has no levels.
        self.compression_level: int | None = None
        if self.compression_type in COMPRESSION_LEVELS:
            name, default = COMPRESSION_LEVELS[self.compression_type]
            self.compression_level = _integer(name, given.get(name, default), _LEAST_LEVEL)
        self.min_cleanable_dirty_ratio = _ratio(
            "min.cleanable.dirty.ratio", given.get("min.cleanable.dirty.ratio", 0.5)
        )
        self.cleanup_policy = _policies(given.get("cleanup.policy", "delete"))
        self.compact = "compact" in self.cleanup_policy
        self.delete = "delete" in self.cleanup_policy
        self.max_segment_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
        self.largest_batch = min(self.max_message_bytes, self.segment_bytes)
        # Whether a sound batch goes into the log with no more done to it than getting its offsets.
        self.takes_as_sent = (
            not self.compact
            and self.compression_type == "producer"
            and self.message_timestamp_type == TIMESTAMP_TYPES["CreateTime"]
            and self.flush_messages == LONG_MAX
        )

    def __repr__(self) -> str:
        return f"LogConfig({self.originals!r})"


def _bad(name: str, value: object, rule: str) -> ConfigError:
    return ConfigError(f"{name}={value!r} is not allowed: {rule}")


def _integer(name: str, value: object, least: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise _bad(name, value, "it must be a whole number") from None
    if not least <= number <= LONG_MAX:
        raise _bad(name, value, f"it must be at least {least}")
    return number


def _ratio(name: str, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        raise _bad(name, value, "it must be a number") from None
    if not 0 <= number <= 1:
        raise _bad(name, value, "it must lie between 0 and 1")
    return number


def _choice(name: str, value: object, choices: Mapping[str, T]) -> T:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text not in choices:
        raise _bad(name, value, f"it must be one of {', '.join(choices)}")
    return choices[text]


def _policies(value: object) -> frozenset[str]:
    names = value.split(",") if isinstance(value, str) else [str(name) for name in _sequence(value)]
    policies = frozenset(name.strip() for name in names if name.strip())
    if not policies <= CLEANUP_POLICIES:
        raise _bad("cleanup.policy", value, "it must be delete, compact, or both with a comma")
    return policies


def _sequence(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
