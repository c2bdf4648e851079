"""barnabas is the Kafka system in Python: a broker, a client and a Spark pipeline.

The public names load on first use, so that `import barnabas` stays cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing's own, which would cost ten milliseconds

if TYPE_CHECKING:
    from barnabas.broker.embedded import Broker as Broker
    from barnabas.client.admin.admin_client import AdminClient as AdminClient
    from barnabas.client.admin.new_topic import NewTopic as NewTopic
    from barnabas.client.consumer.consumer import Consumer as Consumer
    from barnabas.client.consumer.consumer_rebalance_listener import (
        ConsumerRebalanceListener as ConsumerRebalanceListener,
    )
    from barnabas.client.consumer.consumer_record import ConsumerRecord as ConsumerRecord
    from barnabas.client.consumer.offsets import OffsetAndMetadata as OffsetAndMetadata
    from barnabas.client.consumer.subscription_pattern import SubscriptionPattern as SubscriptionPattern
    from barnabas.client.producer.producer import Producer as Producer
    from barnabas.client.telemetry.kafka_metric import KafkaMetric as KafkaMetric
    from barnabas.protocol.topic_partition import TopicPartition as TopicPartition

__version__ = "0.1.0"

_HOMES = {
    "AdminClient": "barnabas.client.admin.admin_client",
    "Broker": "barnabas.broker.embedded",
    "Consumer": "barnabas.client.consumer.consumer",
    "ConsumerRebalanceListener": "barnabas.client.consumer.consumer_rebalance_listener",
    "ConsumerRecord": "barnabas.client.consumer.consumer_record",
    "KafkaMetric": "barnabas.client.telemetry.kafka_metric",
    "NewTopic": "barnabas.client.admin.new_topic",
    "OffsetAndMetadata": "barnabas.client.consumer.offsets",
    "Producer": "barnabas.client.producer.producer",
    "SubscriptionPattern": "barnabas.client.consumer.subscription_pattern",
    "TopicPartition": "barnabas.protocol.topic_partition",
}

__all__ = [
    "AdminClient",
    "Broker",
    "Consumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaMetric",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'barnabas' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
