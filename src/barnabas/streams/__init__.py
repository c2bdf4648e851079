"""Kafka Streams in Python: the DSL and the Processor API, from topic to topic.

Rules of the room
-----------------
1. **Behaviour and names are Apache Kafka's (4.3.1)**, record by record: tests/vectors/streams holds what Kafka's own
   TopologyTestDriver makes of hundreds of topologies. Names are in snake_case, with `_` behind Python's words
   (`Materialized.as_`, `Consumed.with_`); exceptions end in Error.
2. **`dsl` makes a topology, `engine` runs it, and neither knows the other's inside**: between them stands `topology`,
   whose nodes hold suppliers of processors, builders of stores, serdes. import-linter holds the order: `spark` →
   `testing`, `queries` → `dsl` → `engine` → `state` → `topology`, `serdes`. Only `spark` imports pyspark.
3. **Engine and stores know no clock, socket, disk or Spark**: records and the time come in, outputs and changelogs go
   out. One engine runs in `TopologyTestDriver` and on Spark.
4. **A mistake is an error when the step is taken or the topology is built**, with Kafka's class and words; a note on
   the error names the step and the user's line (`topology/origins.py`).
5. Durations are timedeltas, milliseconds or keywords (`TimeWindows.of_size(minutes=5)`), kept as milliseconds.

Begin at `dsl/streams_builder.py`, `topology/internal_topology_builder.py`, `engine/task.py`,
`testing/topology_test_driver.py`. `store_changelog_reader` restores stores, of tasks on Spark and of queries.
The public names load on first use, so that `import barnabas.streams` stays cheap.
"""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.streams.config import StreamsConfig
    from barnabas.streams.dsl.branched import BranchedKStream
    from barnabas.streams.dsl.cogrouped import (
        CogroupedKStream,
        SessionWindowedCogroupedKStream,
        TimeWindowedCogroupedKStream,
    )
    from barnabas.streams.dsl.global_ktable import GlobalKTable
    from barnabas.streams.dsl.kgrouped_stream import KGroupedStream
    from barnabas.streams.dsl.kgrouped_table import KGroupedTable
    from barnabas.streams.dsl.kstream import KStream
    from barnabas.streams.dsl.ktable import KTable
    from barnabas.streams.dsl.materialized import Materialized
    from barnabas.streams.dsl.options import (
        Branched,
        Consumed,
        Grouped,
        Joined,
        Named,
        Produced,
        Repartitioned,
        StreamJoined,
        TableJoined,
    )
    from barnabas.streams.dsl.printed import Printed
    from barnabas.streams.dsl.streams_builder import StreamsBuilder
    from barnabas.streams.dsl.suppressed import BufferConfig, Suppressed
    from barnabas.streams.dsl.windowed_streams import SessionWindowedKStream, TimeWindowedKStream
    from barnabas.streams.dsl.windows import (
        JoinWindows,
        SessionWindows,
        SlidingWindows,
        TimeWindows,
        UnlimitedWindows,
        Windows,
    )
    from barnabas.streams.emit_strategy import EmitStrategy
    from barnabas.streams.engine.exception_handlers import (
        DefaultProductionExceptionHandler,
        ErrorHandlerContext,
        LogAndContinueExceptionHandler,
        LogAndContinueProcessingExceptionHandler,
        LogAndFailExceptionHandler,
        LogAndFailProcessingExceptionHandler,
        Response,
    )
    from barnabas.streams.engine.timestamp_extractors import (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
    from barnabas.streams.errors import (
        InvalidStateStoreError,
        MissingSourceTopicError,
        ProcessorStateError,
        StateStoreMigratedError,
        StateStoreNotAvailableError,
        StreamsError,
        StreamsNotStartedError,
        StreamsRebalancingError,
        StreamsStoppedError,
        TaskCorruptedError,
        TaskIdFormatError,
        TaskMigratedError,
        TopologyError,
        UnknownStateStoreError,
    )
    from barnabas.streams.queries.store_view import StoreView
    from barnabas.streams.serdes.serde import Serde
    from barnabas.streams.serdes.serdes import Serdes
    from barnabas.streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
    from barnabas.streams.spark.kafka_streams import KafkaStreams, State, StreamThreadExceptionResponse
    from barnabas.streams.state.memory import BytesMap
    from barnabas.streams.state.session import SessionBytes
    from barnabas.streams.state.store import (
        AggregationWithHeaders,
        StateStore,
        ValueAndTimestamp,
        ValueTimestampHeaders,
        VersionedRecord,
    )
    from barnabas.streams.state.window import WindowBytes
    from barnabas.streams.state_restore_listener import StateRestoreListener
    from barnabas.streams.testing.test_topics import TestInputTopic, TestOutputTopic, TestRecord
    from barnabas.streams.testing.topology_test_driver import TopologyTestDriver
    from barnabas.streams.topology.description import TopologyDescription
    from barnabas.streams.topology.dsl_store_suppliers import (
        BuiltInDslStoreSuppliers,
        DslKeyValueParams,
        DslSessionParams,
        DslStoreFormat,
        DslStoreSuppliers,
        DslWindowParams,
    )
    from barnabas.streams.topology.processor_api import (
        Cancellable,
        ContextualFixedKeyProcessor,
        ContextualProcessor,
        FixedKeyProcessor,
        FixedKeyProcessorContext,
        FixedKeyProcessorSupplier,
        ProcessingContext,
        Processor,
        ProcessorContext,
        ProcessorSupplier,
        PunctuationType,
        Punctuator,
        RecordMetadata,
        StreamPartitioner,
        TaskId,
        TimestampExtractor,
        TopicNameExtractor,
    )
    from barnabas.streams.topology.processor_wrapper import ProcessorWrapper
    from barnabas.streams.topology.record import Record
    from barnabas.streams.topology.sensors import RecordingLevel, Sensor, Stat, StreamsMetrics
    from barnabas.streams.topology.stores import StoreBuilder, StoreKind, Stores, StoreSupplier
    from barnabas.streams.topology.topology import Topology
    from barnabas.streams.windowed import SessionWindow, TimeWindow, UnlimitedWindow, Window, Windowed

__all__ = [
    "AggregationWithHeaders",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "BuiltInDslStoreSuppliers",
    "BytesMap",
    "Cancellable",
    "CogroupedKStream",
    "Consumed",
    "ContextualFixedKeyProcessor",
    "ContextualProcessor",
    "DefaultProductionExceptionHandler",
    "DslKeyValueParams",
    "DslSessionParams",
    "DslStoreFormat",
    "DslStoreSuppliers",
    "DslWindowParams",
    "EmitStrategy",
    "ErrorHandlerContext",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyProcessorSupplier",
    "GlobalKTable",
    "Grouped",
    "InvalidStateStoreError",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KafkaStreams",
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "MissingSourceTopicError",
    "Named",
    "Printed",
    "ProcessingContext",
    "Processor",
    "ProcessorContext",
    "ProcessorStateError",
    "ProcessorSupplier",
    "ProcessorWrapper",
    "Produced",
    "PunctuationType",
    "Punctuator",
    "Record",
    "RecordMetadata",
    "RecordingLevel",
    "Repartitioned",
    "Response",
    "Sensor",
    "Serde",
    "Serdes",
    "SessionBytes",
    "SessionWindow",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "SlidingWindows",
    "Stat",
    "State",
    "StateRestoreListener",
    "StateStore",
    "StateStoreMigratedError",
    "StateStoreNotAvailableError",
    "StoreBuilder",
    "StoreKind",
    "StoreSupplier",
    "StoreView",
    "Stores",
    "StreamJoined",
    "StreamPartitioner",
    "StreamThreadExceptionResponse",
    "StreamsBuilder",
    "StreamsConfig",
    "StreamsError",
    "StreamsMetrics",
    "StreamsNotStartedError",
    "StreamsRebalancingError",
    "StreamsStoppedError",
    "Suppressed",
    "TableJoined",
    "TaskCorruptedError",
    "TaskId",
    "TaskIdFormatError",
    "TaskMigratedError",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TimeWindow",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindowedSerde",
    "TimeWindows",
    "TimestampExtractor",
    "TopicNameExtractor",
    "Topology",
    "TopologyDescription",
    "TopologyError",
    "TopologyTestDriver",
    "UnknownStateStoreError",
    "UnlimitedWindow",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedRecord",
    "WallclockTimestampExtractor",
    "Window",
    "WindowBytes",
    "Windowed",
    "Windows",
]

_HOMES = {
    "barnabas.streams.config": "StreamsConfig",
    "barnabas.streams.dsl.branched": "BranchedKStream",
    "barnabas.streams.dsl.cogrouped": ("CogroupedKStream SessionWindowedCogroupedKStream TimeWindowedCogroupedKStream"),
    "barnabas.streams.dsl.global_ktable": "GlobalKTable",
    "barnabas.streams.dsl.kgrouped_stream": "KGroupedStream",
    "barnabas.streams.dsl.kgrouped_table": "KGroupedTable",
    "barnabas.streams.dsl.kstream": "KStream",
    "barnabas.streams.dsl.ktable": "KTable",
    "barnabas.streams.dsl.materialized": "Materialized",
    "barnabas.streams.dsl.options": (
        "Branched Consumed Grouped Joined Named Produced Repartitioned StreamJoined TableJoined"
    ),
    "barnabas.streams.dsl.printed": "Printed",
    "barnabas.streams.dsl.streams_builder": "StreamsBuilder",
    "barnabas.streams.dsl.suppressed": "BufferConfig Suppressed",
    "barnabas.streams.dsl.windowed_streams": "SessionWindowedKStream TimeWindowedKStream",
    "barnabas.streams.dsl.windows": "JoinWindows SessionWindows SlidingWindows TimeWindows UnlimitedWindows Windows",
    "barnabas.streams.emit_strategy": "EmitStrategy",
    "barnabas.streams.engine.exception_handlers": (
        "DefaultProductionExceptionHandler ErrorHandlerContext LogAndContinueExceptionHandler "
        "LogAndContinueProcessingExceptionHandler LogAndFailExceptionHandler "
        "LogAndFailProcessingExceptionHandler Response"
    ),
    "barnabas.streams.engine.timestamp_extractors": (
        "FailOnInvalidTimestamp LogAndSkipOnInvalidTimestamp UsePartitionTimeOnInvalidTimestamp "
        "WallclockTimestampExtractor"
    ),
    "barnabas.streams.errors": (
        "InvalidStateStoreError MissingSourceTopicError ProcessorStateError StateStoreMigratedError "
        "StateStoreNotAvailableError StreamsError StreamsNotStartedError StreamsRebalancingError "
        "StreamsStoppedError TaskCorruptedError TaskIdFormatError TaskMigratedError TopologyError "
        "UnknownStateStoreError"
    ),
    "barnabas.streams.queries.store_view": "StoreView",
    "barnabas.streams.serdes.serde": "Serde",
    "barnabas.streams.serdes.serdes": "Serdes",
    "barnabas.streams.serdes.windowed": "SessionWindowedSerde TimeWindowedSerde",
    "barnabas.streams.spark.kafka_streams": "KafkaStreams State StreamThreadExceptionResponse",
    "barnabas.streams.state_restore_listener": "StateRestoreListener",
    "barnabas.streams.testing.test_topics": "TestInputTopic TestOutputTopic TestRecord",
    "barnabas.streams.testing.topology_test_driver": "TopologyTestDriver",
    "barnabas.streams.topology.description": "TopologyDescription",
    "barnabas.streams.topology.processor_api": (
        "Cancellable ContextualFixedKeyProcessor ContextualProcessor FixedKeyProcessor "
        "FixedKeyProcessorContext FixedKeyProcessorSupplier ProcessingContext Processor ProcessorContext "
        "ProcessorSupplier PunctuationType Punctuator RecordMetadata StreamPartitioner TaskId "
        "TimestampExtractor TopicNameExtractor"
    ),
    "barnabas.streams.topology.processor_wrapper": "ProcessorWrapper",
    "barnabas.streams.topology.record": "Record",
    "barnabas.streams.topology.sensors": "RecordingLevel Sensor Stat StreamsMetrics",
    "barnabas.streams.topology.stores": "StoreBuilder StoreKind StoreSupplier Stores",
    "barnabas.streams.topology.topology": "Topology",
    "barnabas.streams.state.memory": "BytesMap",
    "barnabas.streams.state.window": "WindowBytes",
    "barnabas.streams.state.session": "SessionBytes",
    "barnabas.streams.state.store": (
        "AggregationWithHeaders StateStore ValueAndTimestamp ValueTimestampHeaders VersionedRecord"
    ),
    "barnabas.streams.topology.dsl_store_suppliers": (
        "BuiltInDslStoreSuppliers DslKeyValueParams DslSessionParams DslStoreFormat DslStoreSuppliers DslWindowParams"
    ),
    "barnabas.streams.windowed": "SessionWindow TimeWindow UnlimitedWindow Window Windowed",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
