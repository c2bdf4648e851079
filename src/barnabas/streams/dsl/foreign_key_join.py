"""Joins of a table with another by a foreign key (KIP-213). Source: Kafka's KTableImpl.doJoinOnForeignKey.

Each row subscribes to the row that it refers to, through a topic partitioned by the foreign key; answers come back
through a second topic, partitioned by the row's own key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.graph.graph_node import (
    GraphNode,
    ProcessorGraphNode,
    ProcessorParameters,
    ProcessorToStateConnectorNode,
    VersionedSemanticsNode,
)
from barnabas.streams.dsl.graph.source_nodes import StreamSinkNode, StreamSourceNode
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Consumed, Produced, TableJoined, only, pick
from barnabas.streams.dsl.table_sources import table_source
from barnabas.streams.engine.processors import (
    ForeignTableJoinProcessorSupplier,
    ResponseJoinProcessorSupplier,
    SubscriptionJoinProcessorSupplier,
    SubscriptionReceiveProcessorSupplier,
    SubscriptionSendProcessorSupplier,
)
from barnabas.streams.serdes import Serdes
from barnabas.streams.serdes.foreign_key import (
    CombinedKeySchema,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapperSerde,
)
from barnabas.streams.topology.dsl_store_suppliers import DslKeyValueParams, DslStoreFormat
from barnabas.streams.topology.nodes import InternalTopicProperties
from barnabas.streams.topology.stores import StoreBuilder, StoreKind

if TYPE_CHECKING:
    from barnabas.streams.dsl.ktable import KTable

_FK = "KTABLE-FK-JOIN-"


def join(
    table: KTable[Any, Any],
    foreign: KTable[Any, Any],
    given: list[Any],
    options: tuple[Any, ...],
    keywords: tuple[str | None, str | None],
    left: bool,
) -> KTable[Any, Any]:
    """Add a foreign-key join and return the table that comes out."""
    step = "left_join" if left else "join"
    only((TableJoined, Materialized), options, step)
    name, store = keywords
    joined: TableJoined[Any, Any] = pick(TableJoined, options, step) or TableJoined(name=name)
    materialized = pick(Materialized, options, step)
    if materialized is None:
        materialized = Materialized() if store is None else Materialized.as_(store)
    extractor = functions.with_key(given[0], "value", step, "foreignKeyExtractor can't be null")
    joiner = functions.checked(given[1], "value foreign_value", step, "joiner can't be null")
    foreign.enable_sending_old_values(True)
    table.enable_sending_old_values(True)
    return _ForeignKeyJoin(table, foreign, joined, left).build(extractor, joiner, materialized)


class _ForeignKeyJoin:
    """The steps of one foreign-key join; names are taken from the counter in Kafka's order."""

    def __init__(
        self, table: KTable[Any, Any], foreign: KTable[Any, Any], joined: TableJoined[Any, Any], left: bool
    ) -> None:
        self._table, self._foreign, self._joined, self._left = table, foreign, joined, left
        self._builder = table.upstream.builder
        self._subscription_topic = self._named("-subscription-registration", "SUBSCRIPTION-REGISTRATION-") + "-topic"
        self._primary_topic = self._pseudo("-pk")
        self._foreign_topic = self._pseudo("-fk")
        self._hash_topic = self._pseudo("-vh")
        key_serde, foreign_key_serde = table.upstream.key_serde, foreign.upstream.key_serde
        self._subscription_serde = SubscriptionWrapperSerde(self._primary_topic, key_serde)
        self._response_serde = SubscriptionResponseWrapperSerde(foreign.upstream.value_serde)
        self._schema = CombinedKeySchema(self._foreign_topic, foreign_key_serde, self._primary_topic, key_serde)

    def _named(self, suffix: str, kind: str, prefix: str = _FK) -> str:
        return self._builder.names.suffixed_or(self._joined.name, suffix, prefix + kind)

    def _pseudo(self, suffix: str) -> Callable[[], str]:
        topic = self._subscription_topic + suffix
        return lambda: self._builder.topology_builder.decorate(topic)

    def build(self, extractor: Any, joiner: Any, materialized: Materialized[Any, Any]) -> KTable[Any, Any]:
        """Add all steps."""
        names = self._builder.topology_builder
        names.add_internal_topic(self._subscription_topic, InternalTopicProperties())
        subscriptions = self._send(extractor)
        answering = self._answer(subscriptions)
        responses = self._named("-subscription-response", "SUBSCRIPTION-RESPONSE-") + "-topic"
        names.add_internal_topic(responses, InternalTopicProperties())
        return self._resolve(self._through(answering, responses), joiner, materialized)

    def _send(self, extractor: Any) -> GraphNode:
        upstream, foreign_key_serde = self._table.upstream, self._foreign.upstream.key_serde
        name = self._named("-subscription-registration-processor", "SUBSCRIPTION-REGISTRATION-")
        supplier = SubscriptionSendProcessorSupplier(
            extractor, self._foreign_topic, self._hash_topic, foreign_key_serde, upstream.value_serde, self._left
        )
        send = VersionedSemanticsNode(name, ProcessorParameters(supplier, name))
        self._builder.add(upstream.node, send)
        produced = Produced(foreign_key_serde, self._subscription_serde, _by_key(self._joined.other_partitioner))
        sink = StreamSinkNode(
            self._named("-subscription-registration-sink", "", "KTABLE-SINK-"), self._subscription_topic, produced
        )
        self._builder.add(send, sink)
        source = StreamSourceNode(
            self._named("-subscription-registration-source", "", "KTABLE-SOURCE-"),
            (self._subscription_topic,),
            Consumed(foreign_key_serde, self._subscription_serde),
        )
        self._builder.add(sink, source)
        self._builder.topology_builder.copartitioning.add(self._foreign.upstream.sources | {source.name})
        return source

    def _answer(self, subscriptions: GraphNode) -> list[GraphNode]:
        name = self._named("-subscription-store", "SUBSCRIPTION-STATE-STORE-")
        store = StoreBuilder(
            name,
            StoreKind.TIMESTAMPED_KEY_VALUE,
            Serdes.bytes(),
            self._subscription_serde,
            asks=DslKeyValueParams(name, DslStoreFormat.TIMESTAMPED),
            logs_headers=True,
        )
        name = self._named("-subscription-receive", "SUBSCRIPTION-PROCESSOR-")
        receive = ProcessorGraphNode(
            name, ProcessorParameters(SubscriptionReceiveProcessorSupplier(store, self._schema), name)
        )
        self._builder.add(subscriptions, receive)
        getter = self._foreign.value_getter_supplier()
        name = self._named("-subscription-join-foreign", "SUBSCRIPTION-PROCESSOR-")
        parameters = ProcessorParameters(SubscriptionJoinProcessorSupplier(getter), name)
        subscription_join = ProcessorToStateConnectorNode(name, parameters, getter.store_names())
        self._builder.add(receive, subscription_join)
        name = self._named("-foreign-join-subscription", "SUBSCRIPTION-PROCESSOR-")
        foreign_join = VersionedSemanticsNode(
            name, ProcessorParameters(ForeignTableJoinProcessorSupplier(store, self._schema), name)
        )
        self._builder.add(self._foreign.upstream.node, foreign_join)
        return [subscription_join, foreign_join]

    def _through(self, answering: list[GraphNode], topic: str) -> GraphNode:
        key_serde = self._table.upstream.key_serde
        partitioner = _by_answer if self._joined.partitioner is None else _by_key(self._joined.partitioner)
        sink = StreamSinkNode(
            self._named("-subscription-response-sink", "", "KTABLE-SINK-"),
            topic,
            Produced(key_serde, self._response_serde, partitioner),
        )
        for node in answering:
            self._builder.add(node, sink)
        source = StreamSourceNode(
            self._named("-subscription-response-source", "", "KTABLE-SOURCE-"),
            (topic,),
            Consumed(key_serde, self._response_serde),
        )
        self._builder.add(sink, source)
        return source

    def _resolve(self, source: GraphNode, joiner: Any, materialized: Materialized[Any, Any]) -> KTable[Any, Any]:
        upstream = self._table.upstream
        sources = upstream.sources | {source.name}
        self._builder.topology_builder.copartitioning.add(sources)
        getter = self._table.value_getter_supplier()
        name = self._named("-subscription-response-resolver", "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-")
        supplier = ResponseJoinProcessorSupplier(getter, upstream.value_serde, self._hash_topic, joiner, self._left)
        resolve = ProcessorToStateConnectorNode(name, ProcessorParameters(supplier, name), getter.store_names())
        self._builder.add(source, resolve)
        result = self._named("-result", "OUTPUT-")
        internal = materialized_internal(materialized, self._builder, f"{_FK}OUTPUT-")
        internal.key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
        table = table_source(internal)
        node = ProcessorGraphNode(result, ProcessorParameters(table, result))
        node.output_versioned = internal.is_versioned
        self._builder.add(resolve, node)
        after = upstream.after(node, result, sources=sources, value_serde=internal.value_serde)
        return type(self._table)(after, table, internal.store_name)


def _by_answer(topic: str, key: Any, answer: Any, partitions: int) -> int | None:
    """Send an answer to the partition that asked."""
    partition: int | None = answer.primary_partition
    return partition


def _by_key(partitioner: Any) -> Any:
    """Return a partitioner that sees the key only, and may name one partition."""
    if partitioner is None:
        return None

    def partition(topic: str, key: Any, value: Any, partitions: int) -> Any:
        chosen = partitioner(topic, key, None, partitions)
        if chosen is None or isinstance(chosen, int):
            return chosen
        if len(chosen) != 1:
            raise ValueError(
                "The partitions returned by StreamPartitioner#partitions method when used for FK join should be a "
                "singleton set"
            )
        return chosen

    return partition
