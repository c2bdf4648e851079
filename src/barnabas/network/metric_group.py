"""The metrics of a client in Kafka's groups, and the plainer views of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

NODE_ID: Final = "node-id"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
_NODE_PREFIX: Final = "node-"


class MetricGroup(NamedTuple):
    """Numbers by Kafka's names that share a group (`producer-topic-metrics`) and tags (`{"topic": "flights"}`).

    Tags are Kafka's, but for the client's id, which is the same in all: none, `node-id` (`node-1`), `topic`, or `topic`
    and `partition`.
    """

    group: str
    tags: Mapping[str, str]
    values: Mapping[str, float]


class Measured(ABC):
    """A client whose metrics can be asked for, from any thread."""

    @abstractmethod
    def metric_groups(self) -> list[MetricGroup]:
        """All numbers of the client now, in Kafka's groups.

        Times are in milliseconds, sizes in bytes, but for names that say otherwise; not a number is what Kafka has for
        what has not happened yet.
        """

    def metrics(self) -> dict[str, float]:
        """Return the numbers of the client as a whole, by name; no two groups have the same."""
        return {name: value for group in self.metric_groups() if not group.tags for name, value in group.values.items()}

    def node_metrics(self) -> dict[int, dict[str, float]]:
        """Return requests, bytes and latencies by the number of the broker."""
        return {node_of(group.tags): dict(group.values) for group in self.metric_groups() if NODE_ID in group.tags}


def with_app_info(groups: Iterable[MetricGroup], started_at_ms: int) -> list[MetricGroup]:
    """Add the two groups that Kafka has for every client: when it was made, and how many metrics it has."""
    found = [*groups, MetricGroup("app-info", {}, {"start-time-ms": started_at_ms})]
    count = sum(len(group.values) for group in found)
    return [*found, MetricGroup("kafka-metrics-count", {}, {"count": count + 1})]


def by_topic(groups: Iterable[MetricGroup]) -> dict[str, dict[str, float]]:
    """Return the numbers of each topic."""
    return {group.tags[TOPIC]: dict(group.values) for group in groups if group.tags.keys() == {TOPIC}}


def by_partition(groups: Iterable[MetricGroup]) -> dict[TopicPartition, dict[str, float]]:
    """Return the numbers of each partition."""
    return {
        TopicPartition(group.tags[TOPIC], int(group.tags[PARTITION])): dict(group.values)
        for group in groups
        if PARTITION in group.tags
    }


def node_tags(node_id: int) -> dict[str, str]:
    """Return the tags of what belongs to one broker."""
    return {NODE_ID: f"{_NODE_PREFIX}{node_id}"}


def node_of(tags: Mapping[str, str]) -> int:
    """Return the number of the broker that the tags name."""
    return int(tags[NODE_ID].removeprefix(_NODE_PREFIX))
