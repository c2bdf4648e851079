"""Which changes of a topology keep its state: a table, and what becomes of the state where they do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("lmdb")

from barnabas.spark.exactly_once.decision import TaskState
from barnabas.streams import (
    Consumed,
    EmitStrategy,
    Grouped,
    Materialized,
    Repartitioned,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)  # fmt: skip
from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark.moved_states import TaskShape, state_of
from barnabas.streams.spark.state_protocol import HeldTask, Restore, TaskBatch, run_task
from barnabas.streams.spark.topology_changes import Remains, TopologyChangedError, compared, refused
from barnabas.streams.spark.topology_shape import TopologyShape, fingerprint, shape_of
from barnabas.streams.topology.processor_api import TaskId
from tests.unit.streams.spark.test_state_directory import Application

CONFIG = {
    "application.id": "app", "bootstrap.servers": "nowhere:1", "default.key.serde": "string",
    "default.value.serde": "string", "statestore.cache.max.bytes": 0,
}  # fmt: skip
TEXT = Consumed.with_(Serdes.string(), Serdes.string())

Making = Callable[[StreamsBuilder], Any]


class AllThere(dict[str, int]):
    """Each topic has records."""

    def get(self, topic: str, default: Any = None) -> int:
        return 5


def shape(make: Making, **config: Any) -> TopologyShape:
    builder = StreamsBuilder()
    make(builder)
    given = {**CONFIG, **{name.replace("_", "."): value for name, value in config.items()}}
    return shape_of(plan.planned(builder.build(given), StreamsConfig(given)))


def count(builder: StreamsBuilder, topic: str = "a", *given: Any, **options: Any) -> Any:
    return builder.stream(topic, TEXT).group_by_key().count(*given, **options)


def counts(*given: tuple[str, dict[str, Any]]) -> Making:
    def make(builder: StreamsBuilder) -> None:
        for topic, options in given:
            count(builder, topic, **options)

    return make


def windows(of: Any, *given: Any) -> Making:
    options = given or (Materialized.as_("w"),)
    return lambda builder: builder.stream("a", TEXT).group_by_key().windowed_by(of).count(*options)


def after_steps(steps: int, **options: Any) -> Making:
    def make(builder: StreamsBuilder) -> None:
        stream = builder.stream("a", TEXT)
        for _ in range(steps):
            stream = stream.filter(lambda key, value: True)
        stream.group_by_key().count(**options)

    return make


def by_word(grouped: Grouped[Any, Any], **options: Any) -> Making:
    return lambda builder: builder.stream("a", TEXT).group_by(lambda key, word: word, grouped).count(**options)


def table(builder: StreamsBuilder) -> Any:
    return builder.table("t", TEXT)


def joined_table(builder: StreamsBuilder) -> None:
    found = table(builder)
    builder.stream("a", TEXT).join(found, lambda one, other: one).to("out")


def counted_beside_a_table(builder: StreamsBuilder) -> None:
    table(builder).to_stream().to("out")
    count(builder, "b", store="B")


def in_memory(builder: StreamsBuilder) -> None:
    count(builder, "a", Materialized.as_("A").with_store_type(persistent=False))


def of_json_keys(builder: StreamsBuilder) -> None:
    builder.stream("a", TEXT).group_by_key(Grouped.with_(Serdes.json(), Serdes.string())).count(store="A")


def through(serde: Any) -> Making:
    options: Any = Repartitioned.with_(Serdes.string(), serde).with_name("mid")
    return lambda builder: builder.stream("a", TEXT).map_values(lambda value: None).repartition(options).to("out")


HOUR, TWO = TimeWindows.of_size(hours=1), TimeWindows.of_size(hours=2)
A, B = ("a", {"store": "A"}), ("b", {"store": "B"})

#: What changes, the topology before and after; what is refused of it, by name, and what the message says.
SAFE: dict[str, tuple[Making, Making]] = {
    "nothing": (count, count),
    "a step before a named store": (after_steps(0, store="A"), after_steps(3, store="A")),
    "a step behind a generated one": (count, lambda builder: count(builder).to_stream().to("out")),
    "a store is new": (counts(A), counts(A, B)),
    "a store is gone": (counts(A, B), counts(A)),
    "another store comes where one goes": (counts(A), counts(B)),
    "sub-topologies change places": (counts(A, B), counts(B, A)),
    "sub-topologies come together": (counted_beside_a_table, joined_table),
    "a table is joined, too": (table, joined_table),
    "a named store has other topics": (counts(A), counts(("c", {"store": "A"}))),
    "more grace": (windows(HOUR), windows(HOUR.with_grace(hours=3))),
    "emitting on close": (
        windows(HOUR),
        lambda builder: builder.stream("a", TEXT).group_by_key().windowed_by(HOUR)
        .emit_strategy(EmitStrategy.on_window_close()).count(store="w"),
    ),
    "kept longer": (windows(HOUR), windows(HOUR, Materialized.as_("w").with_retention(timedelta(days=3)))),
    "in memory": (counts(A), in_memory),
    "a longer gap of sessions": (
        windows(SessionWindows.of_inactivity_gap(minutes=1)), windows(SessionWindows.of_inactivity_gap(minutes=9)),
    ),
    "an operator has another name": (count, lambda builder: count(builder, name="mine")),
    "a pattern matches more": (
        lambda builder: builder.stream(re.compile("a.*"), TEXT).group_by_key().count(store="A"),
        lambda builder: builder.stream(re.compile("a.*"), TEXT).group_by_key().count(store="A"),
    ),
}  # fmt: skip

UNSAFE: dict[str, tuple[Making, Making, str, str]] = {
    "a step before a generated store": (
        after_steps(0), after_steps(1), "KSTREAM-AGGREGATE-STATE-STORE-0000000001",
        "KSTREAM-AGGREGATE-STATE-STORE-0000000002, of the same kind and fed by the same topics, would begin empty",
    ),
    "a store gets a name": (count, counts(A), "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "and A, of the same kind"),
    "a store gets another name": (counts(A), counts(("a", {"store": "A2"})), "A", "and A2, of the same kind"),
    "generated stores change places": (
        counts(("a", {}), ("b", {})), counts(("b", {}), ("a", {})), "KSTREAM-AGGREGATE-STATE-STORE-0000000001",
        "another operator's now: KStreamAggregate of a before, KStreamAggregate of b now",
    ),
    "another operator under a generated name": (
        lambda builder: builder.stream("a", TEXT).group_by_key().aggregate(
            lambda: 0, lambda key, value, so_far: so_far, Materialized.with_(Serdes.string(), Serdes.long())),
        lambda builder: builder.stream("c", TEXT).group_by_key().aggregate(
            lambda: 0, lambda key, value, so_far: so_far, Materialized.with_(Serdes.string(), Serdes.long())),
        "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "another operator's now",
    ),
    "windows of another size": (windows(HOUR), windows(TWO), "w", "holds windows of 3600000 ms, not 7200000"),
    "sliding windows for tumbling ones": (
        windows(HOUR), windows(SlidingWindows.of_time_difference_with_no_grace(timedelta(hours=2))), "w",
        "holds windows of",
    ),
    "windows for sessions": (
        windows(SessionWindows.of_inactivity_gap(minutes=1)), windows(HOUR), "w", "holds entries of a session store",
    ),
    "no windows any more": (windows(HOUR), counts(("a", {"store": "w"})), "w", "holds entries of a window store"),
    "values by another serde": (
        counts(A),
        lambda builder: builder.stream("a", TEXT).group_by_key().aggregate(
            lambda: "", lambda key, value, so_far: so_far,
            Materialized.as_("A").with_value_serde(Serdes.json())),
        "A", r"values by LongSerde\(.*\), not Serde\(JSONDeserializer, JSONSerializer\)",
    ),
    "keys by another serde": (counts(A), of_json_keys, "A", "keys by StringSerde, not Serde"),
    "no changelog any more": (
        counts(A), lambda builder: count(builder, "a", Materialized.as_("A").with_logging_disabled()),
        "A", "has no changelog any more, and would begin empty",
    ),
    "a repartition topic is gone with what waits there": (
        by_word(Grouped.as_("words"), store="A"), counts(A), "app-words-repartition",
        "5 offsets of it are not read yet",
    ),
    "a repartition topic gets another name": (
        by_word(Grouped.as_("words"), store="A"), by_word(Grouped.as_("terms"), store="A"), "app-words-repartition",
        "is not read any more",
    ),
    "what waits there is of another serde": (
        through(Serdes.string()), through(Serdes.json()), "app-mid-repartition", "by StringSerde, StringSerde, not by",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(SAFE))
def test_a_change_that_leaves_each_store_its_changelog_is_safe(what: str) -> None:
    before, after = map(shape, SAFE[what])
    new = {str(store.changelog): 0 for name, store in after.stores.items() if name not in before.stores}
    logged: dict[str, int] = {str(store.changelog): 5 for store in before.stores.values()} | new

    changes = compared(before, after, Remains({}, logged))

    assert refused(changes, ()) == []


@pytest.mark.parametrize("what", sorted(UNSAFE))
def test_a_change_that_would_lose_or_misread_state_is_refused_by_name_and_can_be_accepted(what: str) -> None:
    first, second, name, message = UNSAFE[what]
    before, after = shape(first), shape(second)
    logged = {str(store.changelog): 5 for store in before.stores.values()}

    changes = compared(before, after, Remains(AllThere(), logged))

    (wrong, *others) = (change for change in refused(changes, ()) if change.name == name)
    assert not others
    assert re.search(message, wrong.what)
    assert name in str(TopologyChangedError("app", [wrong]))
    assert name not in {change.name for change in refused(changes, [name])}
    nothing_there = compared(before, after, Remains({}, {}))
    assert refused(nothing_there, ()) == [], "nothing is there to be lost"


def test_a_source_topic_becomes_the_changelog_but_a_changelog_never_comes_from_nothing() -> None:
    plain, optimized = shape(joined_table), shape(joined_table, topology_optimization="all")
    logged = {str(store.changelog): 5 for store in plain.stores.values()}

    assert refused(compared(plain, optimized, Remains({}, logged)), ()) == []
    (back,) = refused(compared(optimized, plain, Remains({}, {})), ())
    assert re.search("its changelog was t, and is app-t-STATE-STORE-.*-changelog now", back.what)


def test_what_an_earlier_topology_has_left_is_not_taken_up_unasked() -> None:
    before, after = shape(counts(B)), shape(counts(A, B))

    (wrong,) = refused(compared(before, after, Remains({}, {"app-A-changelog": 5, "app-B-changelog": 5})), ())

    assert wrong.name == "A"
    assert "app-A-changelog has records of an earlier topology" in wrong.what


def test_a_shape_is_remembered_as_it_is() -> None:
    given = shape(by_word(Grouped.as_("words"), store="A"))

    assert TopologyShape.decode(given.encode()) == given
    assert TopologyShape.decode(b'{"format":2}') is None


def test_a_shape_is_the_same_after_serdes_were_given_their_defaults() -> None:
    builder = StreamsBuilder()
    windows(HOUR)(builder)
    planned = plan.planned(builder.build(), StreamsConfig(CONFIG))
    before = shape_of(planned)

    Task(planned.subtopologies[0], TaskId(0, 0), TaskSettings(StreamsConfig(CONFIG))).close()

    assert shape_of(planned) == before


def noted(make: Making, offset: int, *names: str, partition: int = 0) -> dict[str, TaskState]:
    """What the tasks of a topology have left whose input went to `offset`, and their changelogs to ten times that."""
    builder = StreamsBuilder()
    make(builder)
    found = {}
    for number, topology in plan.planned(builder.build(), StreamsConfig(CONFIG)).subtopologies.items():
        times = [[topic, partition, offset * 1000] for topic in topology.source_by_topic]
        operators = {name: {"time": offset} for name in topology.nodes}
        metadata = {
            "stream_time": offset * 1000, "partition_times": times, "operators": operators, "punctuations": {},
            "stores": {name: {"observed": offset} for name in topology.state_stores},
        }  # fmt: skip
        note = {
            "id": f"{number}-{offset}", "fingerprint": fingerprint(topology), "metadata": json.dumps(metadata),
            "positions": {topic: {str(partition): offset} for topic in topology.source_by_topic},
        }  # fmt: skip
        ends = {topic: {str(partition): offset * 10} for topic in topology.store_to_changelog_topic.values()}
        found[f"{number}_{partition}"] = TaskState(f"{number}_{partition}", json.dumps(note), ends)
    return {name: state for name, state in found.items() if not names or name in names}


def task_shape(make: Making, number: int, partition: int = 0) -> TaskShape:
    builder = StreamsBuilder()
    make(builder)
    topology = plan.planned(builder.build(), StreamsConfig(CONFIG)).subtopologies[number]
    changelogs = frozenset(topology.store_to_changelog_topic.values())
    return TaskShape(partition, fingerprint(topology), frozenset(topology.source_by_topic), changelogs)


def metadata_of(state: TaskState | None) -> dict[str, Any]:
    assert state is not None
    found: dict[str, Any] = json.loads(json.loads(state.note)["metadata"])
    return found


AB, BA = counts(A, B), counts(B, A)


def test_a_sub_topology_with_another_number_goes_on_from_its_own_state() -> None:
    before = {**noted(AB, 7, "0_0"), **noted(AB, 5, "1_0"), **noted(AB, 9, partition=1)}

    found = state_of("0_0", task_shape(BA, 0), before)

    assert found is not None
    assert found.ends == {"app-B-changelog": {"0": 50}}
    assert metadata_of(found) == {
        "stream_time": 5000, "partition_times": [["b", 0, 5000]], "operators": {}, "stores": {"B": {"observed": 5}},
        "punctuations": {},
    }, "generated names may be other operators' now"  # fmt: skip
    assert found.note not in {state.note for state in before.values()}, "what a process holds is not taken for it"


def test_the_newest_of_several_states_counts_and_nothing_of_them_is_forgotten() -> None:
    # 1_0 was B once, is A since, and has not written since the last change; 0_0 is B since.
    old, new = noted(AB, 5, "1_0"), noted(BA, 8, "0_0")
    forth = {"0_0": new["0_0"].after(noted(AB, 7)["0_0"]), "1_0": old["1_0"]}

    again = state_of("1_0", task_shape(AB, 1), forth)
    own = state_of("0_0", task_shape(BA, 0), forth)

    assert again is not None
    assert again.ends == {"app-B-changelog": {"0": 80}}, "its own is of its shape, and of an earlier time"
    assert own == forth["0_0"], "nothing is new to it"
    assert state_of("0_0", task_shape(AB, 0), forth).ends == {"app-A-changelog": {"0": 70}}  # type: ignore[union-attr]


def test_a_task_of_which_no_state_knows_has_none_and_one_without_a_fingerprint_is_its_own() -> None:
    states = noted(AB, 7)
    plain = {name: state._replace(note=json.dumps({"id": "1"})) for name, state in states.items()}

    assert state_of("0_0", task_shape(counts(("c", {"store": "C"})), 0), states) is None
    assert state_of("0_0", task_shape(AB, 0), plain) == plain["0_0"]


def test_the_protocol_restores_a_task_whose_sub_topology_has_another_number() -> None:
    from barnabas.spark.exactly_once.decision import COMPLETE, Decision

    states = noted(AB, 7)
    held = HeldTask()
    held.note = states["0_0"].note
    steps = run_task(TaskBatch("0_0", 6, 0, task_shape(BA, 0)), held)
    next(steps)

    step = steps.send(Decision(5, "r", COMPLETE, (), states=tuple(states.values())))

    assert isinstance(step, Restore)
    assert step.state is not None
    assert step.state.ends == {"app-B-changelog": {"0": 70}}


def test_what_another_topology_has_kept_on_this_disk_is_not_taken_for_the_state(tmp_path: Path) -> None:
    named: list[Application] = []
    for name in ("counts", "others"):
        builder = StreamsBuilder()
        words = builder.stream("in", TEXT).group_by_key()
        words.count(store=name).to_stream().map_values(str).to("out", value=Serdes.string())
        named.append(Application(tmp_path, builder))
    first, second = named
    second.logs = first.logs

    first.batch(held := first.process(), "a", "b")
    first.batch(held, "a")
    held.close()
    second.batch(held := second.process(), "x")
    second.batch(held, "x")
    held.close()
    changelog = first.logs.records["app-counts-changelog"]
    del changelog[1:2]  # compacted since: b was deleted while another one had the state
    first.state = TaskState("0_0", first.state.note, {})  # type: ignore[union-attr]
    first.batch(held := first.process(), "b")

    assert first.sent[-1].value in (b"1", (1).to_bytes(8, "big"))
    held.close()


@pytest.mark.parametrize("what", ["kept longer", "emitting on close", "in memory"])
def test_stores_that_lie_otherwise_on_the_disk_are_restored_from_their_changelog(what: str, tmp_path: Path) -> None:
    before, after = (Application(tmp_path, built(make)) for make in SAFE[what])
    after.logs, before.now_ms = before.logs, 10 * 3_600_000
    before.batch(held := before.process(), "a", "a")
    before.batch(held, "a")
    held.close()
    after.state, after.now_ms = before.state, before.now_ms

    after.compute(process := after.process(), "a")

    logged = [each.value for each in after.sent if each.topic.endswith("-changelog")]
    assert logged == [(4).to_bytes(8, "big")]
    process.close()


def built(make: Making) -> StreamsBuilder:
    builder = StreamsBuilder()

    def reading(topic: Any, *rest: Any) -> Any:
        return StreamsBuilder.stream(builder, "in", *rest)

    builder.stream = reading  # type: ignore[method-assign,assignment]
    make(builder)
    del builder.stream
    return builder
