"""Mistakes are errors where they are made: when a step is taken, or when the topology is built, with the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from barnabas.streams import (
    Consumed,
    Joined,
    JoinWindows,
    Materialized,
    Named,
    Processor,
    Repartitioned,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
)

TEXT = Consumed.with_(Serdes.string(), Serdes.string())
JOIN = JoinWindows.of_time_difference(seconds=5)


def two(key: Any, value: Any) -> Any:
    return value


def stream() -> Any:
    return StreamsBuilder().stream("in", TEXT)


def table() -> Any:
    return StreamsBuilder().table("in", TEXT)


#: Steps that take a function, with one of the wrong number of arguments.
WRONG_FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("filter", lambda wrong: stream().filter(wrong)),
    ("filter_not", lambda wrong: stream().filter_not(wrong)),
    ("map", lambda wrong: stream().map(wrong)),
    ("flat_map", lambda wrong: stream().flat_map(wrong)),
    ("map_values", lambda wrong: stream().map_values(wrong)),
    ("flat_map_values", lambda wrong: stream().flat_map_values(wrong)),
    ("select_key", lambda wrong: stream().select_key(wrong)),
    ("peek", lambda wrong: stream().peek(wrong)),
    ("foreach", lambda wrong: stream().foreach(wrong)),
    ("group_by", lambda wrong: stream().group_by(wrong)),
    ("branch", lambda wrong: stream().split().branch(wrong)),
    ("reduce", lambda wrong: stream().group_by_key().reduce(wrong)),
    ("aggregate", lambda wrong: stream().group_by_key().aggregate(int, wrong)),
    ("aggregate", lambda wrong: stream().group_by_key().aggregate(wrong, two)),
    ("cogroup", lambda wrong: stream().group_by_key().cogroup(wrong)),
    ("filter", lambda wrong: table().filter(wrong)),
    ("map_values", lambda wrong: table().map_values(wrong)),
    ("group_by", lambda wrong: table().group_by(wrong)),
    ("join", lambda wrong: table().join(table(), wrong)),
    ("left_join", lambda wrong: stream().left_join(table(), wrong)),
    ("join", lambda wrong: stream().join(stream(), wrong, JOIN)),
]


@pytest.mark.parametrize(("step", "take"), WRONG_FUNCTIONS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_function_of_other_arguments_is_refused_and_the_step_named(step: str, take: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=f"^{step} needs a function of"):
        take(lambda first, second, third, fourth, fifth: None)


@pytest.mark.parametrize(("step", "take"), WRONG_FUNCTIONS, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("wrong", [7, "upper"])
def test_what_is_no_function_is_refused(step: str, take: Callable[[Any], Any], wrong: object) -> None:
    with pytest.raises(TypeError, match=step):
        take(wrong)


def test_none_for_a_function_has_kafkas_words_and_a_note() -> None:
    with pytest.raises(TypeError, match=r"^predicate cannot be null") as failed:
        stream().filter(None)

    assert failed.value.__notes__ == ["filter needs a function of (key, value)"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TimeWindows.of_size(0), "larger than zero"),
        (lambda: TimeWindows.of_size(10).advance_by(11), "less than window duration which is 10 ms"),
        (lambda: TimeWindows.of_size(10).with_grace(-1), "Grace period must not be negative"),
        (lambda: SessionWindows.of_inactivity_gap(-1), "Gap time cannot be negative"),
        (lambda: JoinWindows.of_time_difference(-1), "must not be negative"),
        (lambda: Materialized.as_("store").with_retention(-1), "Retention must not be negative"),
        (lambda: Stores.in_memory_window_store("store", 5, 20), r"Got size=\[PT0.02S\], retention=\[PT0.005S\]"),
    ],
)
def test_impossible_times_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeWindows.of_size("5 minutes"),  # type: ignore[arg-type]
        lambda: TimeWindows.of_size(True),
        lambda: TimeWindows.of_size(),
        lambda: TimeWindows.of_size(timedelta(minutes=5), minutes=5),
        lambda: TimeWindows.of_size(fortnights=1),
    ],
)
def test_what_is_no_duration_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="size"):
        make()


def test_options_of_other_methods_and_options_given_twice_are_refused() -> None:
    with pytest.raises(TypeError, match="count takes Named, Materialized as options"):
        stream().group_by_key().count(Joined.as_("join"))
    with pytest.raises(TypeError, match="given two Named"):
        stream().group_by_key().count(Named.as_("a"), Named.as_("b"))
    with pytest.raises(TypeError, match="given the store twice"):
        stream().group_by_key().count(Materialized.as_("a"), store="b")
    with pytest.raises(TypeError, match="given twice"):
        stream().filter(two, Named.as_("a"), name="b")


def test_an_error_of_build_names_the_step_and_the_users_line() -> None:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).filter(two, name="twice").filter(two, name="twice")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]

    with pytest.raises(TopologyError, match=r"^Invalid topology: Processor twice is already added") as failed:
        builder.build()

    assert failed.value.__notes__ == [f"twice was made at {__file__}:{line}"]


def test_topics_that_must_be_partitioned_alike_and_are_not_are_refused() -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", TEXT).repartition(Repartitioned.as_("l").with_number_of_partitions(2))
    right = builder.stream("right", TEXT).repartition(Repartitioned.as_("r").with_number_of_partitions(3))
    left.join(right, lambda first, second: first, JOIN)

    with pytest.raises(TopologyError, match="do not have the same number of partitions"):
        builder.build()


def test_a_processor_in_place_of_its_class_is_refused() -> None:
    processor: Any = Processor()

    with pytest.raises(TypeError, match="supplier must be callable"):
        stream().process(processor)
    with pytest.raises(ValueError, match="generates single reference"):
        Topology().add_source("source", "in").add_processor("one", lambda: processor, "source")


def test_suppress_until_windows_close_needs_windows_before_it() -> None:
    with pytest.raises(TopologyError, match=r"only defined for windowed computations. Got \[root->KTABLE-SOURCE"):
        table().suppress(Suppressed.until_window_closes())


def test_a_record_that_fails_names_the_step_and_the_users_line() -> None:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).map_values(lambda value: int(value), name="parse")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]

    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        with pytest.raises(StreamsError, match=r"Exception caught in process. taskId=0_0, processor=parse") as failed:
            topic.pipe_input("seven", "key", timestamp=0)

    assert failed.value.__notes__ == [f"parse was made at {__file__}:{line}"]
