"""The topics that an application makes for itself, repartition topics and changelogs, with their settings."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.streams.topology.stores import StoreBuilder

DAY_MS = 24 * 60 * 60 * 1000
_LONGEST_MS = 2**63 - 1

#: Kafka's RepartitionTopicConfig: what is read is deleted by the application, nothing by time.
REPARTITION_CONFIG = {
    "cleanup.policy": "delete",
    "segment.bytes": "52428800",
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True)
class InternalTopic:
    """A topic to be made for the application; `partitions` None: as many as its co-partitioned topics have."""

    name: str
    config: dict[str, str]
    partitions: int | None = None


def changelog_config(store: StoreBuilder, additional_retention_ms: int) -> dict[str, str]:
    """Return the settings of a store's changelog topic, which the user's `log_config` may override."""
    config = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
    if store.is_versioned_store:
        config["min.compaction.lag.ms"] = _sum(store.history_retention_ms, additional_retention_ms)
    elif store.is_window_store:
        config["cleanup.policy"] = "compact,delete"
        config["retention.ms"] = _sum(store.retention_ms, additional_retention_ms)
    return config | store.log_config


def _sum(retention_ms: int | None, additional_ms: int) -> str:
    """Return how long to keep records; a store may keep them for ever, and a setting is a long."""
    return str(min((retention_ms or 0) + additional_ms, _LONGEST_MS))
