"""The operators of the DSL under the names of Kafka's processor classes.

A class named as Kafka's is a supplier: it is made with the arguments of Kafka's constructor, in their order, and
calling it makes a processor for a task. Where Kafka takes a store's factory or name, these take a `StoreBuilder` or a
name; where it takes an Optional, None stands for nothing; where it takes a serializer, a serde. Suppliers of tables
have `view()` and `enable_sending_old_values(force_materialization)`; `stores()` are the builders that they bring.
"""

from barnabas.streams.engine.processors.emit_on_close import TimeTrackerSupplier
from barnabas.streams.engine.processors.foreign_key_join import (
    ForeignTableJoinProcessorSupplier,
    ResponseJoinProcessorSupplier,
    SubscriptionJoinProcessorSupplier,
    SubscriptionReceiveProcessorSupplier,
    SubscriptionSendProcessorSupplier,
)
from barnabas.streams.engine.processors.kstream_aggregate import KStreamAggregate, KStreamReduce, KTablePassThrough
from barnabas.streams.engine.processors.kstream_kstream_join import (
    KStreamJoinWindow,
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
    KStreamKStreamSelfJoin,
)
from barnabas.streams.engine.processors.kstream_ktable_join import KStreamGlobalKTableJoin, KStreamKTableJoin
from barnabas.streams.engine.processors.kstream_print import KStreamPrint
from barnabas.streams.engine.processors.kstream_session_window_aggregate import KStreamSessionWindowAggregate
from barnabas.streams.engine.processors.kstream_sliding_window_aggregate import KStreamSlidingWindowAggregate
from barnabas.streams.engine.processors.kstream_window_aggregate import KStreamWindowAggregate
from barnabas.streams.engine.processors.ktable_aggregate import KTableAggregate, KTableReduce, KTableRepartitionMap
from barnabas.streams.engine.processors.ktable_ktable_join import (
    KTableKTableInnerJoin,
    KTableKTableJoinMerger,
    KTableKTableLeftJoin,
    KTableKTableOuterJoin,
    KTableKTableRightJoin,
)
from barnabas.streams.engine.processors.ktable_source import KTableSource
from barnabas.streams.engine.processors.ktable_stateless import KTableFilter, KTableMapValues, KTableTransformValues
from barnabas.streams.engine.processors.ktable_suppress import KTableSuppressProcessorSupplier
from barnabas.streams.engine.processors.operator import (
    KTableMaterializedValueGetterSupplier,
    KTableSourceValueGetterSupplier,
)
from barnabas.streams.engine.processors.stateless import (
    ForeachProcessor,
    KStreamBranch,
    KStreamFilter,
    KStreamFlatMap,
    KStreamFlatMapValues,
    KStreamMap,
    KStreamMapValues,
    KStreamPeek,
    KStreamSelectKey,
    KTableToStream,
    PassThrough,
)

__all__ = [
    "ForeachProcessor",
    "ForeignTableJoinProcessorSupplier",
    "KStreamAggregate",
    "KStreamBranch",
    "KStreamFilter",
    "KStreamFlatMap",
    "KStreamFlatMapValues",
    "KStreamGlobalKTableJoin",
    "KStreamJoinWindow",
    "KStreamKStreamJoinLeftSide",
    "KStreamKStreamJoinRightSide",
    "KStreamKStreamSelfJoin",
    "KStreamKTableJoin",
    "KStreamMap",
    "KStreamMapValues",
    "KStreamPeek",
    "KStreamPrint",
    "KStreamReduce",
    "KStreamSelectKey",
    "KStreamSessionWindowAggregate",
    "KStreamSlidingWindowAggregate",
    "KStreamWindowAggregate",
    "KTableAggregate",
    "KTableFilter",
    "KTableKTableInnerJoin",
    "KTableKTableJoinMerger",
    "KTableKTableLeftJoin",
    "KTableKTableOuterJoin",
    "KTableKTableRightJoin",
    "KTableMapValues",
    "KTableMaterializedValueGetterSupplier",
    "KTablePassThrough",
    "KTableReduce",
    "KTableRepartitionMap",
    "KTableSource",
    "KTableSourceValueGetterSupplier",
    "KTableSuppressProcessorSupplier",
    "KTableToStream",
    "KTableTransformValues",
    "PassThrough",
    "ResponseJoinProcessorSupplier",
    "SubscriptionJoinProcessorSupplier",
    "SubscriptionReceiveProcessorSupplier",
    "SubscriptionSendProcessorSupplier",
    "TimeTrackerSupplier",
]
