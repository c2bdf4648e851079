"""barnabas is the Kafka system in Python: a broker, a client and a Spark pipeline.

The public names load on first use, so that `import barnabas` stays cheap. The other public rooms are `barnabas.aio`,
`admin`, `assignors`, `errors`, `metrics`, `partitioners`, `protocol`, `records`, `security`, `serializers`, `spark`,
`streams`, `testing` and `tracing`; everything else may move.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing's own, which would cost ten milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.embedded import Broker
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.new_topic import NewTopic
    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.consumer.consumer_base import OffsetLike
    from barnabas.client.consumer.consumer_interceptors import ConsumerInterceptor
    from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.consumer_records import ConsumerRecords
    from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback
    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.client.consumer.membership.messages import GroupMembershipOperation
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
    from barnabas.client.consumer.share.acknowledgements import AcknowledgeType
    from barnabas.client.consumer.share.share_consumer import ShareConsumer
    from barnabas.client.consumer.share.share_polling import AcknowledgementCommitCallback
    from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
    from barnabas.client.producer.append import FutureRecordMetadata, RecordMetadata
    from barnabas.client.producer.producer import Producer
    from barnabas.client.producer.producer_base import DeliveryCallback
    from barnabas.client.producer.producer_interceptors import ProducerInterceptor
    from barnabas.client.producer.producer_record import ProducerRecord, RecordHeader, RecordHeaders
    from barnabas.client.producer.send_table import TableFuture
    from barnabas.client.producer.transaction import Transaction
    from barnabas.client.producer.transactions.states import PreparedTxnState
    from barnabas.client.telemetry.kafka_metric import KafkaMetric
    from barnabas.config.typed_settings import (
        AdminSettings,
        ConsumerSettings,
        ProducerSettings,
        ShareConsumerSettings,
    )
    from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition

__version__ = "0.2.0"

__all__ = [
    "AcknowledgeType",
    "AcknowledgementCommitCallback",
    "AdminClient",
    "AdminSettings",
    "Broker",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "ConsumerSettings",
    "DeliveryCallback",
    "FetchedData",
    "FutureRecordMetadata",
    "GroupMembershipOperation",
    "KafkaMetric",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetCommitCallback",
    "OffsetLike",
    "PartitionInfo",
    "PreparedTxnState",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerSettings",
    "RecordHeader",
    "RecordHeaders",
    "RecordMetadata",
    "ShareConsumer",
    "ShareConsumerSettings",
    "SubscriptionPattern",
    "TableFuture",
    "TopicIdPartition",
    "TopicPartition",
    "Transaction",
    "__version__",
]

#: Where the public names live: a module, and what of it is public.
_HOMES = {
    "barnabas.broker.embedded": "Broker",
    "barnabas.client.admin.admin_client": "AdminClient",
    "barnabas.client.admin.new_topic": "NewTopic",
    "barnabas.client.cluster": "PartitionInfo",
    "barnabas.client.consumer.consumer": "Consumer",
    "barnabas.client.consumer.consumer_base": "OffsetLike",
    "barnabas.client.consumer.consumer_interceptors": "ConsumerInterceptor",
    "barnabas.client.consumer.consumer_rebalance_listener": "ConsumerRebalanceListener",
    "barnabas.client.consumer.consumer_record": "ConsumerRecord",
    "barnabas.client.consumer.consumer_records": "ConsumerRecords",
    "barnabas.client.consumer.coordinator.offset_commits": "OffsetCommitCallback",
    "barnabas.client.consumer.fetching.fetched_data": "FetchedData",
    "barnabas.client.consumer.membership.messages": "GroupMembershipOperation",
    "barnabas.client.consumer.offsets": "ConsumerGroupMetadata OffsetAndMetadata OffsetAndTimestamp",
    "barnabas.client.consumer.share.acknowledgements": "AcknowledgeType",
    "barnabas.client.consumer.share.share_consumer": "ShareConsumer",
    "barnabas.client.consumer.share.share_polling": "AcknowledgementCommitCallback",
    "barnabas.client.consumer.subscription_pattern": "SubscriptionPattern",
    "barnabas.client.producer.append": "FutureRecordMetadata RecordMetadata",
    "barnabas.client.producer.producer": "Producer",
    "barnabas.client.producer.producer_base": "DeliveryCallback",
    "barnabas.client.producer.producer_interceptors": "ProducerInterceptor",
    "barnabas.client.producer.producer_record": "ProducerRecord RecordHeader RecordHeaders",
    "barnabas.client.producer.transaction": "Transaction",
    "barnabas.client.producer.send_table": "TableFuture",
    "barnabas.client.producer.transactions.states": "PreparedTxnState",
    "barnabas.client.telemetry.kafka_metric": "KafkaMetric",
    "barnabas.config.typed_settings": "AdminSettings ConsumerSettings ProducerSettings ShareConsumerSettings",
    "barnabas.protocol.topic_partition": "TopicIdPartition TopicPartition",
}


def _lazily(room: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` (PEP 562) of a public module, whose names are imported when they are asked for."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}; it has {', '.join(sorted(home_of))}")
        import sys
        from importlib import import_module

        value = getattr(import_module(home), name)
        setattr(sys.modules[room], name, value)
        return value

    def names() -> list[str]:
        import sys

        return sorted(sys.modules[room].__all__)

    return load, names


if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
