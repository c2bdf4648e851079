"""What is given to options, suppliers, windows and topologies is of the right kind, or an error at once, by its name.

Else it would be an AttributeError of a task, on another machine. Classes, methods and parameters are found by
themselves: a new public class of the room has to be tried somewhere.
"""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import barnabas.streams as room
from barnabas.errors import KafkaError
from barnabas.streams import (
    BufferConfig,
    JoinWindows,
    Materialized,
    Printed,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StoreBuilder,
    Stores,
    StreamJoined,
    StreamsError,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from tests.unit.streams.dsl.test_arguments import RIGHT as STEPS

WRONG: tuple[Any, ...] = (
    1.5, -(2**70), 2**70, math.nan, "x\ud800", b"b", object(), [object()], {"x": object()}, ..., 3 + 2j, Serdes.string,
)  # fmt: skip
TEXT = Serdes.string()


def store() -> StoreBuilder:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), TEXT, TEXT)


#: Classes whose methods are tried here, and an object to call those on that are not static.
TRIED: dict[str, Callable[[], Any]] = {
    "Branched": lambda: room.Branched.as_("n"), "BufferConfig": BufferConfig.unbounded,
    "Consumed": lambda: room.Consumed.as_("n"), "Grouped": lambda: room.Grouped.as_("n"),
    "JoinWindows": lambda: JoinWindows.of_time_difference(5), "Joined": lambda: room.Joined.as_("n"),
    "Materialized": lambda: Materialized.as_("s"), "Named": lambda: room.Named.as_("n"),
    "Printed": Printed.to_sys_out, "Produced": lambda: room.Produced.as_("n"),
    "Repartitioned": lambda: room.Repartitioned.as_("n"), "SessionWindows": lambda: SessionWindows.of_inactivity_gap(5),
    "SlidingWindows": lambda: SlidingWindows.of_time_difference(5), "StoreBuilder": store, "Stores": Stores,
    "StreamJoined": lambda: StreamJoined.as_("s"),
    "Suppressed": lambda: Suppressed.until_window_closes(BufferConfig.unbounded()),
    "TableJoined": lambda: room.TableJoined.as_("n"), "TaskId": lambda: room.TaskId(0, 0),
    "TimeWindows": lambda: TimeWindows.of_size(5_000_000), "UnlimitedWindows": UnlimitedWindows.of,
}  # fmt: skip
#: Steps of the DSL have their own test, and so have these.
ELSEWHERE = {
    *STEPS, "BranchedKStream", "GlobalKTable", "Topology", "KafkaStreams", "StreamsConfig", "Serdes", "Serde",
    "TopologyTestDriver", "TestInputTopic", "TestOutputTopic",
}  # fmt: skip
#: What the engine gives to users, and what users write and the engine calls; values that no method of theirs takes.
GIVEN_OR_WRITTEN = {
    "AggregationWithHeaders", "BuiltInDslStoreSuppliers", "BytesMap", "Cancellable", "ContextualFixedKeyProcessor",
    "ContextualProcessor", "DefaultProductionExceptionHandler", "DslKeyValueParams", "DslSessionParams",
    "DslStoreSuppliers", "DslWindowParams",
    "ErrorHandlerContext", "FixedKeyProcessor", "FixedKeyProcessorContext", "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler", "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler", "ProcessingContext", "Processor",
    "ProcessorContext", "ProcessorWrapper", "Record", "RecordMetadata", "Response", "SessionBytes", "SessionWindow",
    "Sensor", "SessionWindowedSerde", "StateRestoreListener", "StateStore", "StoreSupplier", "StoreView",
    "StreamsMetrics", "TestRecord",
    "TimeWindow", "TimeWindowedSerde", "TopologyDescription", "UnlimitedWindow", "ValueAndTimestamp",
    "ValueTimestampHeaders", "VersionedRecord", "Window", "WindowBytes", "Windowed", "Windows",
}  # fmt: skip
#: For the engine, or a question that any object may be asked about.
LEFT_OUT = {
    ("Suppressed", "time_of"), ("Suppressed", "with_window_grace"), ("TimeWindows", "windows_for"),
    ("UnlimitedWindows", "windows_for"), ("StoreBuilder", "is_compatible_with"),
}  # fmt: skip
#: Right values, and which of the wrong ones are right for a parameter after all.
GIVEN: dict[str, Any] = {
    "chain": print, "supplier": Stores.in_memory_key_value_store("s"), "config": {}, "mapper": lambda key, value: key,
    "make": object, "path": "p", "label": "l", "byte_limit": 5, "record_limit": 5, "text": "0_1", "start": 5,
    "buffer_config": BufferConfig.unbounded(), "number_of_partitions": 5, "persistent": True,
}  # fmt: skip
CALLABLE = {
    "chain", "partitioner", "other_partitioner", "timestamp_extractor", "make",
}  # fmt: skip
ANY_TEXT = {"label", "path", "store_name"}
#: A store that has no topic may have any name.
ANY_STORE_NAME = {"Stores", "StoreBuilder"}


class Argument(NamedTuple):
    """One parameter of one method."""

    kind: str
    method: str
    parameter: str


def public_classes() -> dict[str, type]:
    return {name: found for name in room.__all__ if inspect.isclass(found := getattr(room, name))}


def arguments() -> Iterator[Argument]:
    for kind in TRIED:
        found = getattr(room, kind)
        for method in dir(found):
            taken = inspect.getattr_static(found, method)
            is_method = isinstance(taken, staticmethod | classmethod) or inspect.isfunction(taken)
            if not method.startswith("_") and is_method and (kind, method) not in LEFT_OUT:
                parameters = list(inspect.signature(getattr(TRIED[kind](), method)).parameters)
                yield from (Argument(kind, method, parameter) for parameter in parameters)


def right(parameter: str) -> Any:
    return GIVEN.get(parameter, TEXT if "serde" in parameter else "n" if "name" in parameter else 5)


def is_right_after_all(argument: Argument, value: Any) -> bool:
    parameter = argument.parameter
    if isinstance(value, str):
        return parameter in ANY_TEXT or (argument.kind in ANY_STORE_NAME and parameter == "name")
    if callable(value):
        return parameter in CALLABLE
    return parameter == "units" and value == 1.5


def call(argument: Argument, value: Any) -> None:
    method = getattr(TRIED[argument.kind](), argument.method)
    keywords = {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name == argument.parameter:
            is_keywords = parameter.kind is inspect.Parameter.VAR_KEYWORD
            keywords["minutes" if is_keywords else parameter.name] = value
        elif parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            keywords[parameter.name] = right(parameter.name)
    method(**keywords)


ARGUMENTS = list(arguments())


@pytest.mark.parametrize("argument", ARGUMENTS, ids=[".".join(each) for each in ARGUMENTS])
def test_a_value_of_another_kind_is_refused_by_name(argument: Argument) -> None:
    words = {argument.parameter.split("_")[0], argument.method, "store", "duration", "name", "function", "minutes"}
    for value in WRONG:
        if is_right_after_all(argument, value):
            call(argument, value)
            continue
        with pytest.raises((TypeError, ValueError, KafkaError)) as caught:
            call(argument, value)
        said = str(caught.value).lower()
        assert any(word.lower() in said for word in words) or said.startswith("task id"), (value, said)


def test_every_public_class_of_the_room_is_tried_somewhere() -> None:
    known = {*TRIED, *ELSEWHERE, *GIVEN_OR_WRITTEN}
    new = {
        name for name, found in public_classes().items()
        if name not in known and not issubclass(found, StreamsError | enum.Enum) and has_methods(found)
    }  # fmt: skip

    assert new == set(), "try them above, or say why not"
    assert known <= public_classes().keys()


def has_methods(found: type) -> bool:
    return any(not name.startswith("_") for name, _ in inspect.getmembers(found, inspect.isroutine))


def test_a_serde_that_was_not_made_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"value_serde is a Serde, such as Serdes.string\(\) makes"):
        room.Consumed.with_(Serdes.string(), Serdes.string)


def test_a_branch_takes_its_name_once() -> None:
    split = room.StreamsBuilder().stream("in").split()
    with pytest.raises(TypeError, match="name is given twice"):
        split.branch(lambda key, value: True, room.Branched.as_("a"), name="b")
    with pytest.raises(TypeError, match="takes Branched"):
        split.branch(lambda key, value: True, 7)  # type: ignore[arg-type]
    assert split.no_default_branch() == {}


# --- topologies, node by node


class Passing(room.Processor[Any, Any]):
    """Does nothing."""

    def process(self, record: Any) -> None: ...


def topology() -> room.Topology:
    return room.Topology().add_source("source", "in").add_processor("step", Passing, "source")


#: Right values of the parameters of `Topology`; what is optional is given only when it is the one that is wrong.
NODES: dict[str, Any] = {
    "name": "new", "topics": "other", "supplier": Passing, "parent_names": "source", "topic": "out",
    "processor_names": "step", "state_store_names": "s", "source_name": "new source", "processor_name": "new step",
    "state_update_supplier": Passing,
}  # fmt: skip
STEPS_OF_TOPOLOGY = [
    Argument("Topology", method, parameter)
    for method, function in inspect.getmembers(room.Topology, inspect.isfunction)
    if not method.startswith("_")
    for parameter in list(inspect.signature(function).parameters)[1:]
]


def add(argument: Argument, value: Any) -> None:
    made = topology()
    if argument.method == "connect_processor_and_state_stores":
        made.add_state_store(store())
    method = getattr(made, argument.method)
    places: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        given = store() if name == "store_builder" else NODES.get(name)
        given = value if name == argument.parameter else given
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            places.append(given)
        elif name == argument.parameter:
            keywords[name] = given
    method(*places, **keywords)


@pytest.mark.parametrize("argument", STEPS_OF_TOPOLOGY, ids=[".".join(each) for each in STEPS_OF_TOPOLOGY])
def test_a_node_of_a_topology_takes_nothing_of_another_kind(argument: Argument) -> None:
    words = {
        argument.parameter.split("_")[0],
        argument.parameter.split("_")[-1],
        "name",
        "store",
        "parent",
        "supplier",
        "topic",
    }
    for value in WRONG:
        if isinstance(value, str) or (callable(value) and "name" not in argument.parameter):
            continue  # any name, and for functions any callable
        with pytest.raises((TypeError, KafkaError)) as caught:
            add(argument, value)
        said = str(caught.value).lower()
        assert any(word in said for word in words), (value, said)


@pytest.mark.parametrize("wrong", [7, b"in", ["in", 7], 1.5], ids=repr)
def test_a_stream_is_read_of_topics(wrong: Any) -> None:
    with pytest.raises(TypeError, match="topics"):
        room.StreamsBuilder().stream(wrong)


@pytest.mark.parametrize("wrong", [1.5, "now", None, True], ids=repr)
def test_times_of_a_test_are_points_in_time(wrong: Any) -> None:
    builder = room.StreamsBuilder()
    read, written = room.Consumed.with_(TEXT, TEXT), room.Produced.with_(TEXT, TEXT)
    builder.stream("in", read).to("out", written)
    with room.TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(TypeError, match="start_timestamp is a datetime or milliseconds"):
            driver.create_input_topic("in", TEXT, TEXT, 1.5)  # type: ignore[arg-type]
        topic = driver.create_input_topic("in", TEXT, TEXT)
        if wrong is not None:
            with pytest.raises(TypeError, match="timestamp is a datetime or milliseconds"):
                topic.pipe_input("a", timestamp=wrong)
        topic.pipe_input("a", timestamp=7)
