"""Wrapping all processors of a topology, those of the DSL among them. Source: Kafka's ProcessorWrapper (KIP-1112)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config.loading import load_attribute
from barnabas.errors import ConfigError
from barnabas.streams.topology.processor_api import FixedKeyProcessorSupplier, ProcessorSupplier

#: Acts while a topology is built: `StreamsBuilder(config)`, `Topology(config)`.
SETTING = "processor.wrapper.class"


class ProcessorWrapper:
    """Is given the supplier of each processor as a topology is built, and returns the one that takes its place.

    The setting `processor.wrapper.class` names a subclass. A supplier is called once for each task. Stores that the
    given one brings are added in any case. Processors of global stores are not wrapped, as in Kafka.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the settings that the topology was made with; called once, first."""

    def wrap_processor_supplier(self, processor_name: str, processor_supplier: ProcessorSupplier) -> ProcessorSupplier:
        """Return what makes the processors of a node."""
        return processor_supplier

    def wrap_fixed_key_processor_supplier(
        self, processor_name: str, processor_supplier: FixedKeyProcessorSupplier
    ) -> FixedKeyProcessorSupplier:
        """Return what makes the processors of a node of `process_values`, which leave keys as they are."""
        return processor_supplier


def wrapper_of(config: Mapping[str, Any]) -> ProcessorWrapper | None:
    """Return the wrapper of these settings: a class, an object or `module:name`. Raises ConfigError for another."""
    given = config.get(SETTING)
    if given is None:
        return None
    found = load_attribute(given, SETTING) if isinstance(given, str) else given
    made = found() if isinstance(found, type) else found
    if not isinstance(made, ProcessorWrapper):
        raise ConfigError(f"Invalid value {given} for configuration {SETTING}: it is no ProcessorWrapper")
    made.configure(config)
    return made
