"""A wrapper of processors sees all of a topology, and what it returns takes their place (KIP-1112)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.errors import ConfigError
from barnabas.streams import (
    Consumed,
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    ProcessorWrapper,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
    TopologyTestDriver,
)

TEXT = Consumed.with_(Serdes.string(), Serdes.string())
APPLICATION = {"application.id": "wrapped", "default.key.serde": "string", "default.value.serde": "string"}


class Counting(ProcessorWrapper):
    """Counts the records of each processor."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.fixed: list[str] = []
        self.configs: list[Mapping[str, Any]] = []

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.configs.append(configs)

    def wrap_processor_supplier(self, processor_name: str, processor_supplier: Any) -> Any:
        self.seen[processor_name] = 0
        return lambda: Counted(self.seen, processor_name, processor_supplier())

    def wrap_fixed_key_processor_supplier(self, processor_name: str, processor_supplier: Any) -> Any:
        self.fixed.append(processor_name)
        return processor_supplier


class Counted:
    """A processor in another one's place."""

    def __init__(self, seen: dict[str, int], name: str, inner: Any) -> None:
        self._seen, self._name, self._inner = seen, name, inner

    def init(self, context: Any) -> None:
        self._inner.init(context)

    def process(self, record: Record[Any, Any]) -> None:
        self._seen[self._name] += 1
        self._inner.process(record)

    def close(self) -> None:
        self._inner.close()


class Shout(ContextualFixedKeyProcessor[str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(record.value.upper()))


class Numbered(ContextualProcessor[str, str]):
    """Brings a store of its own."""

    @staticmethod
    def stores() -> list[Any]:
        return [Stores.key_value_store_builder(Stores.in_memory_key_value_store("n"), Serdes.string(), Serdes.long())]

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("n")
        store.put(record.key, (store.get(record.key) or 0) + 1)
        self.context.forward(record.with_value(str(store.get(record.key))))


def driven(topology: Topology, *values: str) -> list[tuple[str, str]]:
    with TopologyTestDriver(topology, APPLICATION) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for value in values:
            topic.pipe_input(value, "k", timestamp=0)
        return driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_key_values_to_list()


def test_processors_of_the_dsl_and_of_users_are_wrapped_and_do_what_they_did() -> None:
    wrapper = Counting()
    config = {"processor.wrapper.class": wrapper, "mine": 1}
    builder = StreamsBuilder(config)
    stream = builder.stream("in", TEXT).filter(lambda key, value: value != "no", name="keep")
    stream = stream.process_values(Shout, name="shout").process(Numbered, name="number")
    joined = stream.join(builder.table("table", TEXT, name="table"), lambda one, other: one, name="join")
    stream.group_by_key().reduce(lambda one, other: one + other, name="sum").to_stream(name="back").to("out")
    joined.to("joined")

    found = driven(builder.build(), "a", "no", "b")

    assert found == [("k", "1"), ("k", "12")]
    assert wrapper.configs == [config]
    assert wrapper.fixed == ["shout"]
    named = {name: count for name, count in wrapper.seen.items() if not name.startswith("K")}
    assert named == {
        "keep": 3,
        "number": 2,
        "table": 0,
        "join-repartition-filter": 2,
        "join": 2,
        "sum": 2,
        "back": 2,
    }
    assert len(wrapper.seen) == len(named) + 1, "the filter before the sum"


def test_processors_of_a_topology_that_is_built_by_hand_are_wrapped() -> None:
    wrapper = Counting()
    topology = Topology({"processor.wrapper.class": wrapper})
    topology.add_source("s", "in").add_processor("p", Numbered, "s").add_sink("t", "out", "p")

    assert driven(topology, "a", "b") == [("k", "1"), ("k", "2")]
    assert wrapper.seen == {"p": 2}


@pytest.mark.parametrize("given", [Counting, f"{__name__}:Counting"])
def test_a_wrapper_may_be_named_as_other_classes_are(given: Any) -> None:
    topology = Topology({"processor.wrapper.class": given})
    assert isinstance(topology.builder.wrapper, Counting)


@pytest.mark.parametrize("given", ["com.example.Wrapper", int, 5])
def test_what_is_no_wrapper_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"processor\.wrapper\.class"):
        StreamsBuilder({"processor.wrapper.class": given})


def test_a_wrapper_that_comes_too_late_is_an_error_and_not_passed_over() -> None:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).to("out")

    with pytest.raises(TopologyError, match=r"StreamsBuilder\(config\)"):
        TopologyTestDriver(builder.build(), {**APPLICATION, "processor.wrapper.class": Counting})


def test_a_wrapper_must_return_a_supplier() -> None:
    class Forgetful(ProcessorWrapper):
        def wrap_processor_supplier(self, processor_name: str, processor_supplier: Any) -> Any:
            pass

    builder = StreamsBuilder({"processor.wrapper.class": Forgetful})
    builder.stream("in", TEXT).filter(lambda key, value: True, name="keep").to("out")
    with pytest.raises(TypeError, match="None for keep"):
        builder.build()
