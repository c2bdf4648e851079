"""Every method of the DSL refuses what it does not take, whatever it is: nothing that a user gives is passed over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from barnabas.streams import (
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    StreamsError,
    TimeWindows,
    Topology,
    TopologyError,
)

TEXT = Consumed.with_(Serdes.string(), Serdes.string())


def add(key: Any, value: Any, total: Any) -> Any:
    return total


def two(first: Any, second: Any) -> Any:
    return first


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def stream(builder: StreamsBuilder | None = None) -> KStream[Any, Any]:
    return (builder or StreamsBuilder()).stream("in", TEXT)


def grouped() -> Any:
    return stream().group_by_key()


def cogrouped() -> Any:
    return grouped().cogroup(add)


def table() -> Any:
    return StreamsBuilder().table("in", TEXT)


def beside(kind: str) -> tuple[Any, Any]:
    """A stream, and another of the same builder, or a table or a global one."""
    builder = StreamsBuilder()
    others: dict[str, Any] = {"stream": builder.stream, "table": builder.table, "global": builder.global_table}
    return stream(builder), others[kind]("other", TEXT)


def two_tables() -> tuple[Any, Any]:
    builder = StreamsBuilder()
    return builder.table("in", TEXT), builder.table("other", TEXT)


TIME, SESSION = TimeWindows.of_size(5), SessionWindows.of_inactivity_gap(5)
JOIN = JoinWindows.of_time_difference(5)

#: What makes an object, and how each of its methods is called rightly; further arguments are put behind.
RIGHT: dict[str, tuple[Callable[[], Any], dict[str, tuple[Any, ...]]]] = {
    "KStream": (
        stream,
        {
            "filter": (two,), "filter_not": (two,), "map": (pair,), "map_values": (two,), "flat_map": (pair,),
            "flat_map_values": (two,), "select_key": (two,), "peek": (two,), "foreach": (two,), "print": (),
            "group_by": (two,), "group_by_key": (), "to": ("out",), "to_table": (), "repartition": (), "split": (),
            "process": (object,), "process_values": (object,),
        },
    ),
    "KTable": (
        table,
        {
            "filter": (two,), "filter_not": (two,), "map_values": (two,), "to_stream": (), "group_by": (pair,),
        },
    ),
    "KGroupedStream": (grouped, {"count": (), "reduce": (two,), "aggregate": (int, add), "cogroup": (add,)}),
    "KGroupedTable": (
        lambda: table().group_by(pair), {"count": (), "reduce": (two, two), "aggregate": (int, add, add)},
    ),
    "TimeWindowedKStream": (
        lambda: grouped().windowed_by(TIME), {"count": (), "reduce": (two,), "aggregate": (int, add)},
    ),
    "SessionWindowedKStream": (
        lambda: grouped().windowed_by(SESSION), {"count": (), "reduce": (two,), "aggregate": (int, add, add)},
    ),
    "CogroupedKStream": (cogrouped, {"aggregate": (int,), "cogroup": (grouped(), add)}),
    "TimeWindowedCogroupedKStream": (lambda: cogrouped().windowed_by(TIME), {"aggregate": (int,)}),
    "SessionWindowedCogroupedKStream": (lambda: cogrouped().windowed_by(SESSION), {"aggregate": (int, add)}),
    "StreamsBuilder": (
        StreamsBuilder, {"stream": ("in",), "table": ("in",), "global_table": ("in",)},
    ),
}  # fmt: skip
METHODS = [(kind, method) for kind, (_, methods) in RIGHT.items() for method in methods]


def _join(kind: str, step: str, rest: tuple[Any, ...], *more: Any, **named: Any) -> Any:
    first, other = two_tables() if kind == "tables" else beside(kind)
    return getattr(first, step)(other, *rest, *more, **named)


#: Joins need an object beside them.
JOINS: list[tuple[str, Callable[..., Any]]] = [
    (f"{step} of a {kind}", partial(_join, kind, step, rest))
    for kind, rest in (("stream", (two, JOIN)), ("table", (two,)), ("global", (two, two)), ("tables", (two,)))
    for step in ("join", "left_join", "outer_join")
    if (kind, step) not in (("table", "outer_join"), ("global", "outer_join"))
]


def call(kind: str, method: str, *more: Any, **named: Any) -> Any:
    make, methods = RIGHT[kind]
    return getattr(make(), method)(*methods[method], *more, **named)


ALL: list[tuple[str, Callable[..., Any]]] = [
    (f"{kind}.{method}", partial(call, kind, method)) for kind, method in METHODS
]
ALL += JOINS


@pytest.mark.parametrize(("step", "take"), ALL, ids=[name for name, _ in ALL])
def test_a_keyword_that_there_is_not_is_refused(step: str, take: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="no_such_keyword"):
        take(no_such_keyword=1)


@pytest.mark.parametrize(("step", "take"), ALL, ids=[name for name, _ in ALL])
@pytest.mark.parametrize("wrong", [7, ["a"]], ids=lambda value: type(value).__name__)
def test_what_is_no_option_is_refused_when_the_step_is_taken(
    step: str, take: Callable[..., Any], wrong: object
) -> None:
    with pytest.raises((TypeError, ValueError, StreamsError, TopologyError)):
        take(wrong)


@pytest.mark.parametrize(("step", "take"), ALL, ids=[name for name, _ in ALL])
def test_a_name_that_no_topic_can_have_is_kafkas_error(step: str, take: Callable[..., Any]) -> None:
    with pytest.raises((TopologyError, TypeError), match="name"):  # TypeError: a step that has none
        take(name="not a name")


def test_every_public_method_is_called_here() -> None:
    left = {}
    for kind, (make, methods) in RIGHT.items():
        public = {name for name, _ in inspect.getmembers(make(), callable) if not name.startswith("_")}
        left[kind] = sorted(public - methods.keys() - ELSEWHERE)

    assert {kind: names for kind, names in left.items() if names} == {}


#: Tested with others, or no steps: joins above, `merge`, windows and `suppress` in test_mistakes.
ELSEWHERE = {
    "join", "left_join", "outer_join", "merge", "windowed_by", "emit_strategy", "suppress", "transform_values",
    "queryable_store_name", "enable_sending_old_values", "value_getter_supplier", "build", "add_state_store",
    "add_global_store", "describe",
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: stream().merge(table()),
        lambda: stream().merge(None),  # type: ignore[arg-type]
        lambda: grouped().windowed_by(JOIN),
        lambda: grouped().windowed_by(None),
        lambda: grouped().windowed_by(TIME).emit_strategy("closed"),
        lambda: table().suppress("soon"),
        lambda: table().transform_values(7),
        lambda: cogrouped().cogroup(stream(), add),
        lambda: StreamsBuilder().add_state_store("store"),  # type: ignore[arg-type]
        lambda: Topology().add_state_store("store"),  # type: ignore[arg-type]
        lambda: stream().join(table().to_stream, two),
        lambda: stream().group_by_key().count(Materialized.as_(7)),  # type: ignore[arg-type]
    ],
)
def test_what_is_of_another_kind_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises((TypeError, TopologyError)):
        wrong()
