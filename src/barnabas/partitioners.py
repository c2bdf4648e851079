"""Which partition a record goes to: Kafka's partitioners, and the protocol for one of your own."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.partitioner import (
        Partitioner,
        RoundRobinPartitioner,
        UniformStickyPartitioner,
        murmur2,
        partition_for_key,
    )

__all__ = [
    "Cluster",
    "Partitioner",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
    "murmur2",
    "partition_for_key",
]

_HOMES = {
    "barnabas.client.cluster": "Cluster",
    "barnabas.client.producer.partitioner": (
        "Partitioner RoundRobinPartitioner UniformStickyPartitioner murmur2 partition_for_key"
    ),
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
