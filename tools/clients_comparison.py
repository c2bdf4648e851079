"""What Java's producer and consumers offer (tools/java_clients.json), and where it is here, or why it is not.

Names follow from Java's: commitAsync is `commit_async`, onPartitionsLost `on_partitions_lost`, a class has the name of
Java's without Kafka. The tables say what has another name, stands elsewhere, or is not here. Exceptions are in
docs/reference/errors.md, settings in docs/reference/settings.md, the admin client in docs/reference/admin.md.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tools.admin_comparison import snake
from tools.java_clients import stored

_ASSIGNORS: Final = "barnabas.client.consumer.assignors"
_SETTINGS: Final = "a setting, given by its name"

#: Java's classes, by the class here where it is not `barnabas.NAME`; a reason where there is none (it has a space).
CLASSES: Final[dict[str, str]] = {
    "clients.consumer.AcknowledgementCommitCallback": "a function: `callback(offsets, error)`",
    "clients.consumer.CloseOptions": "arguments of `Consumer.close`: `timeout`, `group_membership_operation`",
    "clients.consumer.CloseOptions$GroupMembershipOperation": "barnabas:GroupMembershipOperation",
    "clients.consumer.ConsumerPartitionAssignor": "barnabas.assignors:ConsumerPartitionAssignor",
    "clients.consumer.ConsumerPartitionAssignor$Assignment": f"{_ASSIGNORS}.consumer_partition_assignor:Assignment",
    "clients.consumer.ConsumerPartitionAssignor$GroupAssignment": "a mapping of member ids to assignments",
    "clients.consumer.ConsumerPartitionAssignor$GroupSubscription": "a mapping of member ids to subscriptions",
    "clients.consumer.ConsumerPartitionAssignor$RebalanceProtocol": "names in `protocols` of an assignor",
    "clients.consumer.ConsumerPartitionAssignor$Subscription": f"{_ASSIGNORS}.consumer_partition_assignor:Subscription",
    "clients.consumer.CooperativeStickyAssignor": "barnabas.assignors:CooperativeStickyAssignor",
    "clients.consumer.GroupProtocol": f"{_SETTINGS}: group.protocol",
    "clients.consumer.KafkaConsumer": "barnabas:Consumer",
    "clients.consumer.KafkaShareConsumer": "barnabas:ShareConsumer",
    "clients.consumer.MockConsumer": "barnabas.testing:MockConsumer",
    "clients.consumer.MockShareConsumer": "barnabas.testing:MockShareConsumer",
    "clients.consumer.OffsetCommitCallback": "a function: `callback(offsets, error)`",
    "clients.consumer.OffsetResetStrategy": f"{_SETTINGS}: auto.offset.reset",
    "clients.consumer.RangeAssignor": "barnabas.assignors:RangeAssignor",
    "clients.consumer.RoundRobinAssignor": "barnabas.assignors:RoundRobinAssignor",
    "clients.consumer.StickyAssignor": "barnabas.assignors:StickyAssignor",
    "clients.producer.Callback": "a function: `on_delivery(metadata, error)`",
    "clients.producer.KafkaProducer": "barnabas:Producer",
    "clients.producer.MockProducer": "barnabas.testing:MockProducer",
    "clients.producer.Partitioner": "barnabas.partitioners:Partitioner",
    "clients.producer.RoundRobinPartitioner": "barnabas.partitioners:RoundRobinPartitioner",
    "common.Cluster": "barnabas.client.cluster:Cluster",
    "common.IsolationLevel": f"{_SETTINGS}: isolation.level",
    "common.KafkaFuture": "results come as values, or as `barnabas.FutureRecordMetadata`",
    "common.Metric": "barnabas:KafkaMetric",
    "common.MetricName": "barnabas.network.metric_group:MetricGroup",
    "common.Node": "barnabas.network.node:Node",
    "common.Uuid": "ids are 16 `bytes`",
    "common.header.Header": "barnabas:RecordHeader",
    "common.header.Headers": "barnabas:RecordHeaders",
    "common.serialization.Deserializer": "barnabas.serializers:KafkaDeserializer",
    "common.serialization.Serde": "barnabas.streams:Serde",
    "common.serialization.Serdes": "barnabas.streams:Serdes",
    "common.serialization.Serializer": "barnabas.serializers:KafkaSerializer",
}
#: By a method, of one class or of all: its name here, or the reason why it has none.
METHODS: Final[dict[str, str]] = {
    "AcknowledgeType.forId": "names of the wire; here a type is given by its name",
    "Cluster.clusterResource": "cluster_id",
    "Cluster.empty": "`Cluster()` is empty",
    "Cluster.nodeById": "node",
    "Cluster.nodeIfOnline": "`PartitionInfo.offline_replicas` has the ids",
    "Cluster.partitionsForNode": "`PartitionInfo.leader` has the id",
    "Cluster.topicIds": "`topic_id(topic)` for each of `topics`",
    "Cluster.withPartitions": "a snapshot is not changed",
    "ConsumerInterceptor.close": "called where an interceptor has it",
    "ConsumerPartitionAssignor.getAssignorInstances": "what partition.assignment.strategy does with its values",
    "ConsumerPartitionAssignor.supportedProtocols": "protocols",
    "ConsumerPartitionAssignor.version": "an assignor gives its user data a version by itself",
    "ConsumerRecords.empty": "`ConsumerRecords({}, {})` is empty",
    "ConsumerRecords.iterator": "__iter__",
    "CooperativeStickyAssignor.supportedProtocols": "protocols",
    "Headers.toArray": "it is iterable: `list(headers)`",
    "KafkaConsumer.commitSync": "commit",
    "KafkaShareConsumer.acquisitionLockTimeoutMs": "acquisition_lock_timeout",
    "Metric.metricName": "name",
    "Metric.metricValue": "value",
    "MetricName.description": "docs/guide/observability.md describes them",
    "MetricName.name": "the keys of `values`",
    "MockConsumer.addedMetrics": "metrics are not registered with a mock",
    "MockConsumer.commitSync": "commit",
    "MockConsumer.disableTelemetry": "a mock has no telemetry",
    "MockConsumer.injectTimeoutException": "a mock has no telemetry",
    "MockConsumer.resetShouldRebalance": "`should_rebalance = False`",
    "MockConsumer.scheduleNopPollTask": "`schedule_poll_task(lambda: None)`",
    "MockConsumer.setClientInstanceId": "a mock has no telemetry",
    "MockConsumer.setMaxPollRecords": "max_poll_records",
    "MockConsumer.setOffsetsException": "offsets_exception",
    "MockConsumer.setPollException": "poll_exception",
    "MockShareConsumer.acquisitionLockTimeoutMs": "acquisition_lock_timeout",
    "MockShareConsumer.setClientInstanceId": "a mock has no telemetry",
    "MockProducer.addedMetrics": "metrics are not registered with a mock",
    "MockProducer.disableTelemetry": "a mock has no telemetry",
    "MockProducer.injectTimeoutException": "a mock has no telemetry",
    "MockProducer.setClientInstanceId": "a mock has no telemetry",
    "MockProducer.setMockMetrics": "metrics of a mock are not set",
    "Node.hasRack": "`rack is not None`",
    "Node.idString": "`id` is a number: `str(node.id)`",
    "Node.isEmpty": "None stands for no node",
    "Node.isFenced": "`describe_cluster` of the admin client tells of fenced brokers",
    "Node.noNode": "None stands for no node",
    "Partitioner.close": "called where a partitioner has it",
    "ProducerInterceptor.close": "called where an interceptor has it",
    "ProducerRecord.timestamp": "timestamp_ms",
    "RecordMetadata.hasOffset": "`offset >= 0`",
    "RecordMetadata.hasTimestamp": "`timestamp >= 0`",
    "RoundRobinPartitioner.close": "called where a partitioner has it",
    "RoundRobinPartitioner.configure": "called where a partitioner has it",
    "Deserializer.close": "an object of the application, which makes and closes it",
    "Deserializer.configure": "an object of the application, which makes and closes it",
    "PreparedTxnState.hasTransaction": "`producer_id >= 0` where there is one",
    "Serializer.close": "an object of the application, which makes and closes it",
    "Serializer.configure": "an object of the application, which makes and closes it",
    "Serde.close": "an object of the application, which makes and closes it",
    "Serde.configure": "an object of the application, which makes and closes it",
    "Serdes.Boolean": "boolean",
    "Serdes.ByteArray": "bytes",
    "Serdes.ByteBuffer": "`Serdes.bytes()`: bytes stand for buffers",
    "Serdes.Bytes": "bytes",
    "Serdes.Double": "double",
    "Serdes.Float": "float",
    "Serdes.Integer": "integer",
    "Serdes.ListSerde": "a serde of one's own by `Serdes.of`",
    "Serdes.Long": "long",
    "Serdes.Short": "short",
    "Serdes.String": "string",
    "Serdes.UUID": "uuid",
    "Serdes.Void": "void",
    "Serdes.serdeFrom": "of",
    "ConsumerPartitionAssignor$Subscription.setGroupInstanceId": "the consumer sets it",
}
#: Classes that are interfaces of others in the list.
INTERFACES: Final = {
    "clients.consumer.Consumer": "clients.consumer.KafkaConsumer",
    "clients.consumer.ShareConsumer": "clients.consumer.KafkaShareConsumer",
    "clients.producer.Producer": "clients.producer.KafkaProducer",
}


class Entry(NamedTuple):
    """A class or a method of Java's; `here` is where it is, and else `reason` says why it is not."""

    java: str
    here: str
    reason: str


def entries() -> Iterator[Entry]:
    """Go through all that Java has."""
    for name, parts in stored()["classes"].items():
        if name in INTERFACES:
            continue
        place = CLASSES.get(name, f"barnabas:{name.rpartition('.')[2]}")
        if " " in place:
            yield Entry(name, "", place)
            continue
        ours = _find(place)
        yield Entry(name, place.replace(":", ".") if ours is not None else "", "")
        for member in (*parts["methods"], *parts["constants"]):
            yield _member(name, member, ours)


def _member(name: str, member: str, ours: Any) -> Entry:
    java = f"{name.rpartition('.')[2]}.{member}"
    known = METHODS.get(java) or METHODS.get(member) or (member if member.isupper() else snake(member))
    if " " in known:
        return Entry(java, "", known)
    return Entry(java, known if _has(ours, known) else "", "")


def _find(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name, None)


def _has(ours: Any, name: str) -> bool:
    if hasattr(ours, name):
        return True
    made = ours.__dict__.get("__init__")
    # What a constructor takes or sets.
    names = set(inspect.signature(made).parameters) if made is not None else set()
    return name in names | set(getattr(getattr(made, "__code__", None), "co_names", ()))
