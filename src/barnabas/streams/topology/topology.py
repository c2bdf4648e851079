"""A topology as users build it node by node, and as the DSL makes it: Kafka's `Topology`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from barnabas.errors import ConfigError
from barnabas.streams.topology.describing import describe
from barnabas.streams.topology.description import TopologyDescription
from barnabas.streams.topology.dsl_store_suppliers import suppliers_of
from barnabas.streams.topology.internal_topology_builder import TopologyBuilder
from barnabas.streams.topology.nodes import SourceNode
from barnabas.streams.topology.processor_api import (
    ProcessorSupplier,
    StreamPartitioner,
    TimestampExtractor,
    TopicNameExtractor,
)
from barnabas.streams.topology.processor_wrapper import wrapper_of
from barnabas.streams.topology.stores import StoreBuilder, check_store_builder

#: Kafka's internal setting for what KAFKA-19668 has mended, off unless it is set.
PROCESS_FIX = "__enable.process.processValue.fix__"
WHY_NO_FIX = "it is off here, as in Kafka without it: a topology that was built with it has other repartition topics"


class Topology:
    """Sources, processors, sinks and stores. Methods return the topology, so that calls can be chained.

    `config` are settings that act while the topology is built, as Kafka's TopologyConfig:
    `ensure.explicit.internal.resource.naming`, `processor.wrapper.class`, `dsl.store.suppliers.class`. A name that is
    taken, an unknown parent, a topic that two sources read: `TopologyError`, with a note that names the line.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        if (config or {}).get(PROCESS_FIX) is not None:
            raise ConfigError(f"Invalid value {config[PROCESS_FIX]} for configuration {PROCESS_FIX}: {WHY_NO_FIX}")  # type: ignore[index]  # it is set
        self.builder = TopologyBuilder()
        flag = (config or {}).get("ensure.explicit.internal.resource.naming", False)
        self.builder.names.must_be_given = flag is True or str(flag).lower() == "true"
        self.builder.wrapper = wrapper_of(config or {})
        self.builder.dsl_store_suppliers = suppliers_of(config or {})

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        timestamp_extractor: TimestampExtractor | None = None,
        auto_offset_reset: Any = None,
    ) -> Topology:
        """Add a node that reads topics, or those that a compiled pattern matches; without deserializers the defaults.

        `auto_offset_reset` is earliest, latest, none, or a timedelta back from now; without it the settings decide.
        """
        first = topics[0] if topics else None
        read: Any = first if isinstance(first, re.Pattern) else topics
        self.builder.add_source(
            name, read, key_deserializer, value_deserializer, timestamp_extractor, auto_offset_reset
        )
        return self

    def add_processor(self, name: str, supplier: ProcessorSupplier, *parent_names: str) -> Topology:
        """Add a node that runs `supplier()` in each task, with the stores that the supplier's `stores()` gives."""
        check_supplier(supplier)
        self.builder.add_processor(name, supplier, parent_names)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parent_names: str,
        key_serializer: Any = None,
        value_serializer: Any = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Topology:
        """Add a node that writes to a topic, or to the one that a function names for each record."""
        self.builder.add_sink(name, topic, (key_serializer, value_serializer), partitioner, parent_names)
        return self

    def add_state_store(self, store_builder: StoreBuilder, *processor_names: str) -> Topology:
        """Add a store and connect it to processors."""
        check_store_builder(store_builder)
        self.builder.add_state_store(store_builder, processor_names)
        return self

    def connect_processor_and_state_stores(self, processor_name: str, *state_store_names: str) -> Topology:
        """Let a processor reach stores that were added."""
        self.builder.connect_processor_and_state_stores(processor_name, state_store_names)
        return self

    def add_global_store(
        self,
        store_builder: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        state_update_supplier: ProcessorSupplier,
        *,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that every task reads, filled by a processor from all partitions of a topic."""
        check_supplier(state_update_supplier)
        check_store_builder(store_builder)
        source = SourceNode(source_name, topics=(topic,), timestamp_extractor=timestamp_extractor)
        source.key_deserializer, source.value_deserializer = key_deserializer, value_deserializer
        self.builder.add_global_store(store_builder, source, processor_name, state_update_supplier, True)
        return self

    def add_read_only_state_store(
        self,
        store_builder: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        state_update_supplier: ProcessorSupplier,
        *,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that is filled by a processor from a topic, which serves as its changelog (KIP-813)."""
        check_supplier(state_update_supplier)
        check_store_builder(store_builder)
        self.builder.add_source(
            source_name, [topic], key_deserializer, value_deserializer, timestamp_extractor, "earliest"
        )
        self.builder.add_processor(processor_name, state_update_supplier, [source_name])
        self.builder.add_state_store(store_builder, [processor_name])
        store_builder.with_logging_disabled()
        self.builder.connect_source_store_and_topic(store_builder.name, topic)
        return self

    def describe(self) -> TopologyDescription:
        """Return what the topology consists of; `str` of it is what Kafka prints."""
        return describe(self.builder)


def check_supplier(supplier: Any) -> None:
    """Raise TypeError or ValueError for what makes no processors, such as a processor in place of its class.

    A supplier must make a new processor at each call: each task needs one of its own.
    """
    if supplier is None:
        raise TypeError("supplier cannot be null")
    if not callable(supplier):
        raise TypeError(
            f"a processor's supplier must be callable without arguments and return a new processor, such as its class; "
            f"{supplier!r} is not callable"
        )
    if not isinstance(supplier, type) and supplier() is supplier():
        raise ValueError(
            f"{supplier!r} generates single reference. The supplier must return a new object at each call: "
            "each task needs a processor of its own"
        )
