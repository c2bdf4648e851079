"""What a topic's settings are when only the broker's are given: Kafka's ServerTopicConfigSynonyms."""

from __future__ import annotations

from typing import Any

from barnabas.config.config import Config
from barnabas.config.config_def import definitions

_HOUR = 3_600_000
_MINUTE = 60_000

# Topic setting: the broker settings that stand for it, the first one with a value holds; and the factor to its unit.
TOPIC_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE), ("log.retention.hours", _HOUR)),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}


def topic_defaults(broker: Config) -> dict[str, Any]:
    """Every topic setting with the value that holds on this broker for a topic that sets nothing itself."""
    defaults = {name: key.default for name, key in definitions("topic").keys.items()}
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym, factor in synonyms:
            value = broker[synonym]
            if value is not None:
                # A negative duration means "for ever" in every unit.
                defaults[name] = value * factor if factor != 1 and value >= 0 else value
                break
    return defaults
