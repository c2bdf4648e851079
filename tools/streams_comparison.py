"""What Kafka Streams offers (tools/java_streams.json), and where it is here, or why it is not.

Names follow from Java's: flatMapValues is `flat_map_values`, `as` is `as_`, TopologyException is `TopologyError`. The
tables say what stands elsewhere, has another name, or is not here.
"""

from __future__ import annotations

import dis
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas import streams
from tools.java_streams import stored

_STORE = "barnabas.streams.state"
_SUPPLIERS = "barnabas.streams.topology.dsl_store_suppliers"

#: Java's classes that have no name in `barnabas.streams`, by the class here.
CLASSES = {
    "KafkaStreams$State": "barnabas.streams.spark.kafka_streams:State",
    "TopologyDescription$GlobalStore": "barnabas.streams.topology.description:GlobalStoreDescription",
    "TopologyDescription$Node": "barnabas.streams.topology.description:NodeDescription",
    "TopologyDescription$Processor": "barnabas.streams.topology.description:ProcessorDescription",
    "TopologyDescription$Sink": "barnabas.streams.topology.description:SinkDescription",
    "TopologyDescription$Source": "barnabas.streams.topology.description:SourceDescription",
    "TopologyDescription$Subtopology": "barnabas.streams.topology.description:SubtopologyDescription",
    "kstream.Suppressed$BufferConfig": "barnabas.streams:BufferConfig",
    "kstream.Suppressed$EagerBufferConfig": "barnabas.streams:BufferConfig",
    "kstream.Suppressed$StrictBufferConfig": "barnabas.streams:BufferConfig",
    "kstream.WindowedSerdes$SessionWindowedSerde": "barnabas.streams:SessionWindowedSerde",
    "kstream.WindowedSerdes$TimeWindowedSerde": "barnabas.streams:TimeWindowedSerde",
    "processor.api.FixedKeyRecord": "barnabas.streams:Record",
    "state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers": f"{_SUPPLIERS}:InMemoryDslStoreSuppliers",
    "state.BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers": f"{_SUPPLIERS}:RocksDBDslStoreSuppliers",
    "state.KeyValueBytesStoreSupplier": "barnabas.streams:StoreSupplier",
    "state.KeyValueIterator": f"{_STORE}.store:StoreIterator",
    "state.KeyValueStore": f"{_STORE}.key_value:KeyValueStore",
    "state.ReadOnlyKeyValueStore": f"{_STORE}.key_value:KeyValueStore",
    "state.ReadOnlySessionStore": f"{_STORE}.session:SessionStore",
    "state.ReadOnlyWindowStore": f"{_STORE}.window:WindowStore",
    "state.SessionBytesStoreSupplier": "barnabas.streams:StoreSupplier",
    "state.SessionStore": f"{_STORE}.session:SessionStore",
    "state.SessionStoreWithHeaders": f"{_STORE}.session:SessionStore",
    "state.TimestampedKeyValueStore": f"{_STORE}.key_value:TimestampedKeyValueStore",
    "state.TimestampedKeyValueStoreWithHeaders": f"{_STORE}.key_value:TimestampedKeyValueStore",
    "state.TimestampedWindowStore": f"{_STORE}.window:TimestampedWindowStore",
    "state.TimestampedWindowStoreWithHeaders": f"{_STORE}.window:TimestampedWindowStore",
    "state.VersionedBytesStoreSupplier": "barnabas.streams:StoreSupplier",
    "state.VersionedKeyValueStore": f"{_STORE}.versioned:VersionedKeyValueStore",
    "state.WindowBytesStoreSupplier": "barnabas.streams:StoreSupplier",
    "state.WindowStore": f"{_STORE}.window:WindowStore",
    "state.WindowStoreIterator": f"{_STORE}.store:StoreIterator",
}

_A_FUNCTION = "a function"
_SPARK = "Spark runs the tasks; there are no stream threads, instances or standbys to ask or to change"
_QUERIES = "`streams.store(name)` is a view of the changelog, from any process; no instance is asked for it"
_SERDE = "a serde: `serialize` and `deserialize` of one object"
_OWN_STORES = "a store of your own has `log` and `restore` (`StoreBuilder.of`)"
_DEPRECATED = "deprecated by `process` and `process_values`"
_BYTES = "how Kafka's own stores keep bytes"

#: Classes that are not here, by why. A name that ends with * stands for all that begin so.
WITHOUT = {
    "AutoOffsetReset": "`auto_offset_reset=` takes the text, or a timedelta",
    "ClientInstanceIds": _SPARK,
    "CloseOptions*": "`close(timeout)`; no member leaves, for there is no group membership",
    "GroupProtocol": _SPARK,
    "KafkaClientSupplier": "settings with the prefixes `producer.`, `consumer.`, `admin.` reach the clients",
    "KafkaStreams$CloseOptions": "`close(timeout)`; no member leaves, for there is no group membership",
    "KafkaStreams$StateListener": _A_FUNCTION,
    "KeyQueryMetadata": _QUERIES,
    "KeyValue": "a tuple (key, value)",
    "LagInfo": _SPARK,
    "StoreQueryParameters": _QUERIES,
    "StreamsConfig$InternalConfig": "Kafka's internal settings",
    "StreamsMetadata": _SPARK,
    "TaskMetadata": _SPARK,
    "ThreadMetadata": _SPARK,
    "Topology$AutoOffsetReset": "`auto_offset_reset=` takes the text",
    "TopologyConfig*": "`StreamsBuilder(config)`, `Topology(config)` take what acts while a topology is built",
    "kstream.Aggregator": _A_FUNCTION,
    "kstream.EmitStrategy$StrategyType": "`EmitStrategy` itself is an enumeration",
    "kstream.ForeachAction": _A_FUNCTION,
    "kstream.ForeachProcessor": "`KStream.foreach`",
    "kstream.Initializer": _A_FUNCTION,
    "kstream.KeyValueMapper": _A_FUNCTION,
    "kstream.Materialized$StoreType": "`with_store_type(persistent=...)`",
    "kstream.Merger": _A_FUNCTION,
    "kstream.Predicate": _A_FUNCTION,
    "kstream.Reducer": _A_FUNCTION,
    "kstream.SessionWindowedDeserializer": _SERDE,
    "kstream.SessionWindowedSerializer": _SERDE,
    "kstream.TimeWindowedDeserializer": _SERDE,
    "kstream.TimeWindowedSerializer": _SERDE,
    "kstream.Transformer*": _DEPRECATED,
    "kstream.ValueJoiner*": _A_FUNCTION,
    "kstream.ValueMapper*": _A_FUNCTION,
    "kstream.ValueTransformer": "`KTable.transform_values` takes it as an object with these methods",
    "kstream.ValueTransformerSupplier": _DEPRECATED,
    "kstream.ValueTransformerWithKey": "`KTable.transform_values` takes it as an object with these methods",
    "kstream.ValueTransformerWithKeySupplier": _A_FUNCTION,
    "kstream.WindowedSerdes": "`TimeWindowedSerde(...)` and `SessionWindowedSerde(...)`",
    "processor.BatchingStateRestoreCallback": _OWN_STORES,
    "processor.CommitCallback": _OWN_STORES,
    "processor.ConnectedStoreProvider": "a supplier's method `stores`",
    "processor.RecordContext": "the last argument of a function that names topics has its attributes",
    "processor.StandbyUpdateListener*": _SPARK,
    "processor.StateRestoreCallback": _OWN_STORES,
    "processor.StateStoreContext": _OWN_STORES,
    "processor.To": "`forward(record, child_name)`; the timestamp is the record's",
    "processor.api.InternalFixedKeyRecordFactory": "Kafka's own",
    "processor.api.Wrapped*": "a supplier; `ProcessorWrapper` returns any, and the stores of the given one stay",
    "state.HeadersBytesStore*": _BYTES,
    "state.HostInfo": _QUERIES,
    "state.QueryableStoreType*": _QUERIES,
    "state.RocksDBConfigSetter": "stores on disk are LMDB's",
    "state.StateSerdes": "stores serialize by themselves",
    "state.TimestampedBytesStore": _BYTES,
    "state.VersionedBytesStore": _BYTES,
    "state.VersionedRecordIterator": "one version at a time: `get(key, as_of)`",
}

#: Methods that are here by another name, by Class.method.
RENAMED = {
    "KafkaStreams.metrics": "metric_groups",
    "kstream.JoinWindows.size": "size_ms",
    "kstream.Produced.streamPartitioner": "with_stream_partitioner",
    "kstream.Repartitioned.streamPartitioner": "with_stream_partitioner",
    "kstream.SessionWindows.inactivityGap": "inactivity_gap_ms",
    "kstream.TimeWindows.size": "size_ms",
    "state.DslSessionParams.retentionPeriod": "retention_period_ms",
    "state.DslSessionParams.storeFormat": "dsl_store_format",
    "state.DslWindowParams.retentionPeriod": "retention_period_ms",
    "state.DslWindowParams.windowSize": "window_size_ms",
    "processor.FailOnInvalidTimestamp.extract": "__call__",
    "processor.LogAndSkipOnInvalidTimestamp.extract": "__call__",
    "processor.UsePartitionTimeOnInvalidTimestamp.extract": "__call__",
    "processor.WallclockTimestampExtractor.extract": "__call__",
}

_BY_METADATA = "`record_metadata()` has it"
_NO_FILES = "a task may run on any executor and has no directory of yours"
_PREFIX = "the prefix is written out"
_ATTRIBUTE = "an attribute of each object, of the same name in snake_case"
_NO_POSITIONS = "positions of stores (KIP-796) are not kept"

#: Methods that are not here, by Class.method (* stands for all that begin so): why.
MISSING = {
    "KafkaStreams$State.*": "compare with members of `State`",
    "KafkaStreams.addStreamThread": _SPARK,
    "KafkaStreams.allLocalStorePartitionLags": _SPARK,
    "KafkaStreams.clientInstanceIds": _SPARK,
    "KafkaStreams.metadataFor*": _SPARK,
    "KafkaStreams.queryMetadataForKey": _QUERIES,
    "KafkaStreams.removeStreamThread": _SPARK,
    "KafkaStreams.setStandbyUpdateListener": _SPARK,
    "KafkaStreams.streamsMetadataForStore": _QUERIES,
    "StreamsMetrics.metrics": "the application has them: `metric_groups()`",
    "StreamsConfig.adminClientPrefix": _PREFIX,
    "StreamsConfig.clientTagPrefix": _PREFIX,
    "StreamsConfig.configDef": "`barnabas.streams.config.SETTINGS`",
    "StreamsConfig.consumerPrefix": _PREFIX,
    "StreamsConfig.default*": _ATTRIBUTE,
    "StreamsConfig.deserializationExceptionHandler": _ATTRIBUTE,
    "StreamsConfig.get*": "`values` has all settings",
    "StreamsConfig.globalConsumerPrefix": _PREFIX,
    "StreamsConfig.main": "prints a page of Kafka's documentation",
    "StreamsConfig.mainConsumerPrefix": _PREFIX,
    "StreamsConfig.processingExceptionHandler": _ATTRIBUTE,
    "StreamsConfig.producerPrefix": _PREFIX,
    "StreamsConfig.productionExceptionHandler": _ATTRIBUTE,
    "StreamsConfig.restoreConsumerPrefix": _PREFIX,
    "StreamsConfig.topicPrefix": _PREFIX,
    "StreamsConfig.verifyTopologyOptimizationConfigs": "checked where the settings are made",
    "TopologyDescription$Sink.topicNameExtractor": "`topic` is None where a function names the topic",
    "TopologyDescription$Source.topicSet": "`topics`",
    "kstream.EmitStrategy.type": "`EmitStrategy` itself is an enumeration",
    "kstream.JoinWindows.grace": "deprecated by `of_time_difference_and_grace`",
    "kstream.JoinWindows.of": "deprecated by `of_time_difference_with_no_grace`",
    "kstream.JoinWindows.windowsFor": "unsupported in Kafka, too",
    "kstream.Joined.gracePeriod": "`grace_period_ms`",
    "processor.api.ProcessorWrapper.asWrapped": "any supplier may be returned",
    "processor.api.ProcessorWrapper.asWrappedFixedKey": "any supplier may be returned",
    "kstream.UnlimitedWindows.size": "without end",
    "kstream.Window.endTime": "`end`, in milliseconds",
    "kstream.Window.startTime": "`start`, in milliseconds",
    "kstream.Windows.gracePeriodMs": "the attribute `grace_period_ms`",
    "kstream.Windows.size": "the attribute `size_ms`",
    "kstream.WindowedSerdes$TimeWindowedSerde.forChangelog": "changelogs have stores' own keys",
    "processor.FailOnInvalidTimestamp.onInvalidTimestamp": _A_FUNCTION,
    "processor.LogAndSkipOnInvalidTimestamp.onInvalidTimestamp": _A_FUNCTION,
    "processor.ProcessorContext.headers": "the record has them",
    "processor.ProcessorContext.offset": _BY_METADATA,
    "processor.ProcessorContext.partition": _BY_METADATA,
    "processor.ProcessorContext.stateDir": _NO_FILES,
    "processor.ProcessorContext.timestamp": "the record has it",
    "processor.ProcessorContext.topic": _BY_METADATA,
    "processor.Punctuator.punctuate": _A_FUNCTION,
    "DslStoreFormat.of": "`DslStoreFormat[name]`",
    "processor.StateStore.commit": _OWN_STORES,
    "processor.StateStore.committedOffset": _OWN_STORES,
    "processor.StateStore.getPosition": _NO_POSITIONS,
    "processor.StateStore.managesOffsets": _OWN_STORES,
    "processor.StateStore.query": _QUERIES,
    "processor.StreamPartitioner.partitions": _A_FUNCTION,
    "processor.TaskId.topologyName": "named topologies are not supported",
    "processor.TimestampExtractor.extract": _A_FUNCTION,
    "processor.TopicNameExtractor.extract": _A_FUNCTION,
    "processor.UsePartitionTimeOnInvalidTimestamp.onInvalidTimestamp": _A_FUNCTION,
    "processor.api.FixedKeyProcessorSupplier.get": _A_FUNCTION,
    "processor.api.ProcessingContext.stateDir": _NO_FILES,
    "processor.api.ProcessorSupplier.get": _A_FUNCTION,
    "state.DslKeyValueParams.isTimestamped": "`dsl_store_format` says it",
    "state.DslWindowParams.isTimestamped": "`dsl_store_format` says it",
    "state.SessionBytesStoreSupplier.retentionPeriod": "`retention_ms`",
    "state.StoreBuilder.build": "a task builds its stores",
    "state.StoreBuilder.loggingEnabled": "`logging`",
    "state.StoreSupplier.metricsScope": "Kafka's, by the kind of store, with lmdb in the place of rocksdb",
    "state.AggregationWithHeaders.getAggregationOrNull": "`found.aggregation`, or None",
    "state.AggregationWithHeaders.make*": "the class itself makes one",
    "state.ValueAndTimestamp.getValueOrNull": "`found.value`, or None",
    "state.ValueAndTimestamp.make*": "the class itself makes one",
    "state.ValueTimestampHeaders.getValueOrNull": "`found.value`, or None",
    "state.ValueTimestampHeaders.make*": "the class itself makes one",
    "state.WindowBytesStoreSupplier.retentionPeriod": "`retention_ms`",
    "state.WindowBytesStoreSupplier.windowSize": "`window_size_ms`",
}


class Entry(NamedTuple):
    """A method of Java's, as Class.method: whether it is here, by what name, and otherwise why not."""

    java: str
    here: str | None
    reason: str | None


def snake(name: str) -> str:
    """Return Java's name in Python's form."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return parted.lower()


def entries() -> Iterator[Entry]:
    """Yield all methods of all classes, a class without methods as its name alone."""
    for java, methods in stored()["classes"].items():
        cls = class_of(java)
        if cls is None:
            yield Entry(java, None, _reason(WITHOUT, java))
            continue
        for method in methods:
            name = f"{java}.{method}"
            yield Entry(name, _method(cls, method, name), _reason(MISSING, name))


def class_of(java: str) -> Any:
    """Return the class here, None for none."""
    if java in CLASSES:
        module, _, name = CLASSES[java].partition(":")
        return getattr(importlib.import_module(module), name)
    return getattr(streams, java.rpartition(".")[2].replace("Exception", "Error"), None)


def _method(cls: Any, method: str, name: str) -> str | None:
    if (renamed := RENAMED.get(name)) is not None:
        return renamed if _has(cls, renamed) else None
    plain = snake(method)
    return next((found for found in (plain, f"{plain}_") if _has(cls, found)), None)


def _has(cls: Any, name: str) -> bool:
    fields = getattr(cls, "__dataclass_fields__", {})
    if hasattr(cls, name) or name in fields:
        return True
    return any(name in vars(base).get("__slots__", ()) or name in _fields(base) for base in cls.__mro__)


def _fields(cls: type) -> set[str]:
    """Return the attributes for which a class has a descriptor when it is compiled, of one that is not now."""
    source, code = (
        getattr(sys.modules[cls.__module__], "__file__", None),
        getattr(vars(cls).get("__init__"), "__code__", None),
    )
    if code is None or not str(source).endswith(".py") or "# cython:" not in Path(str(source)).read_text()[:20]:
        return set()
    return {str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_ATTR"}


def _reason(table: dict[str, str], java: str) -> str | None:
    if java in table:
        return table[java]
    return next((why for name, why in table.items() if name.endswith("*") and java.startswith(name[:-1])), None)


def unused() -> set[str]:
    """Return what the tables say of things that Java does not offer, or that are here after all."""
    found = list(entries())
    known = set(stored()["classes"])
    absent = {entry.java for entry in found if entry.here is None}
    wrong = (CLASSES.keys() - known) | (RENAMED.keys() - {entry.java for entry in found})
    for table in (WITHOUT, MISSING):
        wrong |= {
            name
            for name in table
            if not any(java == name or (name.endswith("*") and java.startswith(name[:-1])) for java in absent)
        }
    return wrong
