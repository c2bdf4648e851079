"""Which repartition topics a batch goes through at once, and what each task reads there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once.commit_protocol import Task, TaskReport
from barnabas.spark.exactly_once.decision import COMPLETE, DECIDED, LOST, REWRITE, Decision, TaskState, TaskTransaction
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.transaction_rows import WrittenRange
from barnabas.streams import Serdes, StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark.batch_stages import BatchOfRun, PlannedBatch, Remains, Request, StagedBatch, Work
from barnabas.streams.spark.internal_topics import counted
from barnabas.streams.spark.read_positions import positions_of
from barnabas.streams.spark.repartition_levels import Levels, levels_of

CONFIG = {
    "application.id": "app", "bootstrap.servers": "nowhere:1", "default.key.serde": "string",
    "default.value.serde": "string",
}  # fmt: skip


def levels(builder: StreamsBuilder, **partitions: int) -> Levels:
    planned = plan.planned(builder.build(), StreamsConfig(CONFIG))
    counts = counted(planned.infos, planned.copartitioned, partitions)
    return levels_of(planned.infos, counts.tasks, counts.partitions)


def test_a_sub_topology_comes_after_all_that_write_what_it_reads() -> None:
    builder = StreamsBuilder()
    words = builder.stream("lines").group_by(lambda key, value: value).count(store="words").to_stream().map_values(str)
    others = builder.stream("others").select_key(lambda key, value: value)
    counts = words.group_by(lambda key, value: value).count(store="counts").to_stream().map_values(str)
    counts.merge(others).group_by_key().count(store="last").to_stream().to("out", value=Serdes.long())

    found = levels(builder, lines=2, others=3)

    written = {topic: (writer, reader) for writer, topic, reader in edges(builder)}
    assert found.inner == written.keys()
    assert len(found.inner) == 3
    assert all(found.stage_of(writer) < found.stage_of(reader) for writer, reader in written.values())
    assert sorted(number for stage in found.stages for number in stage) == sorted(found.tasks)
    assert found.partitions["app-last-repartition"] == 3


def edges(builder: StreamsBuilder) -> list[tuple[int, str, int]]:
    infos = plan.planned(builder.build(), StreamsConfig(CONFIG)).infos
    return [
        (writer, topic, reader)
        for writer, one in infos.items()
        for reader, other in infos.items()
        for topic in one.sink_topics & other.repartition_source_topics.keys()
    ]


def test_a_topic_that_closes_a_circle_stays_a_real_topic() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left"), builder.table("right")
    left.join(right, lambda value: value, lambda one, other: one + other).to_stream().to("out")

    found = levels(builder, left=2, right=2)

    (request,) = found.inner
    assert "SUBSCRIPTION-REGISTRATION" in request
    assert any("SUBSCRIPTION-RESPONSE" in topic for topics in found.reads.values() for topic in topics)
    assert len(found.stages) == 2


# What a task reads.

BETWEEN, OTHER = "app-words-repartition", "others"
TWO = Levels(((0,), (1,)), {0: (), 1: (BETWEEN,)}, frozenset([BETWEEN]), {0: 2, 1: 2}, {BETWEEN: 2})
RUN = BatchOfRun("q", "r", 5)
PLACES = [TopicPartition(BETWEEN, number) for number in range(2)]


def state(task: str, ends: dict[str, dict[str, int]], **note: Any) -> TaskState:
    return TaskState(task, json.dumps({"inner": [BETWEEN] if task[0] == "0" else [], **note}), ends)


def transaction(number: int, of: TaskState, producer_id: int = 0) -> TaskTransaction:
    return TaskTransaction(number, f"id-{number}", producer_id or number, 3, 1, {}, of)


def report(number: int, of: TaskState, producer_id: int = 0) -> TaskReport:
    return TaskReport(*RUN, number, transaction(number, of, producer_id))


def planned(*tasks: tuple[str, Sequence[OffsetRange]]) -> PlannedBatch:
    return PlannedBatch(
        77, (), tuple(Work(PlannedTask(name, int(name[-1]), tuple(found), 77, ()), {}) for name, found in tasks)
    )


def ranges(found: Request) -> list[tuple[str, int, int]]:
    return [(each.topic_partition.topic, each.start, each.end) for each in found.planned.ranges]


BEFORE = Decision(
    4, "r", COMPLETE,
    (transaction(0, state("0_0", {BETWEEN: {"0": 9, "1": 4}})), transaction(1, state("0_1", {BETWEEN: {"0": 7}}))),
    states=(state("1_0", {}, positions={BETWEEN: {"0": 6}}),),
)  # fmt: skip
SOURCE = [OffsetRange(TopicPartition("lines", 0), 3, 5)]


def test_a_reader_begins_when_a_report_names_its_partition_and_reads_those_transactions() -> None:
    staged = StagedBatch(TWO, RUN, planned(("0_0", SOURCE)), BEFORE, is_within=True)

    (first,) = staged.tasks(0, [])
    assert (first.planned.name, ranges(first), first.is_within) == ("0_0", [("lines", 3, 5)], True)
    (second,) = staged.tasks(1, [report(0, state("0_0", {BETWEEN: {"0": 15}}), 41)])

    assert (second.planned.name, second.planned.now_ms) == ("1_0", 77)
    assert ranges(second) == [(BETWEEN, 10, 16)], "from behind what was written before, whoever wrote it"
    assert second.written == (WrittenRange(PLACES[0], 10, ((41, 3),)),)
    assert len({each.spark.partition for each in (first, second)}) == 2


def test_a_reader_of_another_topic_notes_where_it_stands_in_those_of_which_nothing_came() -> None:
    both = TWO._replace(reads={0: (), 1: (BETWEEN,)})
    others = [OffsetRange(TopicPartition(OTHER, 0), 1, 2)]

    for is_within in (True, False):
        staged = StagedBatch(both, RUN, planned(("1_0", others)), BEFORE, is_within=is_within)
        (found,) = staged.tasks(staged.stages - 1, [])
        assert ranges(found) == [(BETWEEN, 10, 10), (OTHER, 1, 2)]


def test_what_the_source_planned_of_a_topic_is_read_from_where_the_decision_stands() -> None:
    """As where the option was on before: Spark's offsets know nothing of that."""
    staged = StagedBatch(TWO, RUN, planned(("1_0", [OffsetRange(PLACES[0], 2, 14)])), BEFORE)

    (found,) = staged.tasks(0, [])

    assert ranges(found) == [(BETWEEN, 10, 14)]
    assert (staged.stages, found.is_within, found.written) == (1, False, ())


def test_what_was_left_before_the_run_is_read_first_and_once() -> None:
    left = Remains({PLACES[0]: 8, PLACES[1]: 0}, {PLACES[0]: 20, PLACES[1]: 5})
    of = state("0_0", {BETWEEN: {"0": 25}})

    first = StagedBatch(TWO, RUN, planned(), BEFORE, left, is_within=True).tasks(1, [report(0, of, 41)])
    later = StagedBatch(TWO, RUN, planned(), BEFORE, left._replace(are_read=True), is_within=True)

    assert [(each.planned.name, ranges(each)) for each in first] == [("1_0", [(BETWEEN, 10, 26)])], "1_1 has read all"
    assert first[0].written == (WrittenRange(PLACES[0], 20, ((41, 3),)),)
    assert later.tasks(1, []) == []
    assert ranges(later.tasks(1, [report(0, of, 41)])[0]) == [(BETWEEN, 20, 26)]


def test_a_topic_that_was_made_anew_is_an_error_and_not_read_as_empty() -> None:
    staged = StagedBatch(TWO, RUN, planned(("0_0", SOURCE)), BEFORE, is_within=True)

    with pytest.raises(StreamsError, match="deleted and created again"):
        staged.tasks(1, [report(0, state("0_0", {BETWEEN: {"0": 0}}), 41)])


def test_a_task_that_writes_where_others_have_read_already_is_an_error() -> None:
    staged = StagedBatch(TWO, RUN, planned(("0_0", SOURCE)), BEFORE, is_within=True)
    wrong = TaskState("1_0", "{}", {BETWEEN: {"0": 11}})

    staged.check([report(0, state("0_0", {BETWEEN: {"0": 15}}))])
    with pytest.raises(StreamsError, match="sub-topology 1 has written to app-words-repartition-0"):
        staged.check([report(1, wrong)])


LOST_OF_FIVE = BEFORE._replace(
    batch=5, state=REWRITE, lost=(7, 3), states=(*BEFORE.states_after().values(),),
    tasks=(
        transaction(7, state("0_0", {BETWEEN: {"0": 15}}, within=True)),
        transaction(2, state("0_1", {BETWEEN: {"1": 8}}, within=True)),
        transaction(3, state("1_0", {}, within=True, positions={BETWEEN: {"0": 16}}, began={BETWEEN: {"0": 8}})),
        transaction(4, state("1_1", {}, within=True, positions={BETWEEN: {"1": 9}}, began={BETWEEN: {"1": 5}})),
    ),
)  # fmt: skip


@pytest.mark.parametrize("is_within", [True, False], ids=["option on", "option off since"])
def test_only_what_was_lost_is_computed_again_under_its_number_and_reads_what_it_had_read(is_within: bool) -> None:
    staged = StagedBatch(TWO, RUN, planned(("0_0", SOURCE), ("0_1", SOURCE)), LOST_OF_FIVE, is_within=is_within)

    (writer,) = staged.tasks(0, [])
    (reader,) = staged.tasks(1, [report(7, state("0_0", {BETWEEN: {"0": 30, "1": 31}}), 41)])

    assert staged.is_rewritten
    assert (writer.planned.name, writer.spark, writer.is_within) == ("0_0", Task(*RUN, 7), True)
    assert (reader.planned.name, reader.spark, ranges(reader)) == ("1_0", Task(*RUN, 3), [(BETWEEN, 8, 31)])
    assert reader.written == (WrittenRange(PLACES[0], 16, ((41, 3),)),), "what others wrote is committed by now"


@pytest.mark.parametrize("state", [DECIDED, COMPLETE, LOST])
def test_a_batch_that_is_decided_is_finished_without_a_task(state: str) -> None:
    staged = StagedBatch(TWO, RUN, planned(), LOST_OF_FIVE._replace(state=state), is_within=True)

    assert staged.is_decided
    assert staged.decided() == TaskReport(*RUN, -1, None, was_decided=True)


def test_where_a_lost_reader_stands_is_not_told_by_those_who_wrote() -> None:
    """A person may go on with another checkpoint before it is written again."""
    found = positions_of(LOST_OF_FIVE)

    assert found == {PLACES[0]: 10, PLACES[1]: 9}, "0: as before the batch; 1: its reader was not lost"
    assert positions_of(LOST_OF_FIVE._replace(state=COMPLETE, lost=()))[PLACES[0]] == 16
    assert positions_of(None) == {}
