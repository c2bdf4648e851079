"""What the scenes of Spark's driver, of streams tasks and of markers show, on events that the code itself tells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from barnabas import anatomy
from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.events import Event
from barnabas.anatomy.film import subjects
from barnabas.anatomy.picture import Picture
from barnabas.anatomy.recorder import Recorder
from barnabas.anatomy.scenes import SCENES
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once.commit_protocol import Task
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState
from barnabas.spark.ranges import OffsetRange
from barnabas.streams.spark.task_events import TaskTeller
from barnabas.streams.spark.task_manager import Request, TaskHome
from barnabas.streams.spark.task_measures import RestoreEvent
from tests.unit.anatomy.test_scenes import boxes, play
from tests.unit.spark.test_kafka_fetcher import PARTITION, Consumer, encoded, fetcher_of
from tests.unit.spark.test_stream_offsets import ScriptedCluster, reader_of
from tests.unit.streams.spark.test_task_manager import RECORDS, home, merged_rows

__all__ = ["home"]


@contextlib.contextmanager
def recorded() -> Iterator[Recorder]:
    recorder = Recorder()
    anatomy.start(recorder)
    try:
        yield recorder
    finally:
        anatomy.stop()


class Cluster(ScriptedCluster):
    """One whose partition begins at 0."""

    def earliest(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)


def at(told: list[tuple[float, Event]], kind: type[Event]) -> list[int]:
    return [number for number, (_, event) in enumerate(told) if isinstance(event, kind)]


def shown(told: list[tuple[float, Event]], scene: str, subject: str) -> Picture:
    playing = SCENES[scene](subject)
    for _, event in told:
        playing.apply(event)
    return playing.picture()


def test_the_driver_plans_a_task_reads_and_the_checkpoint_says_what_is_done() -> None:
    driver = reader_of(Cluster(10), **{"kafka.group.id": "query"})
    name = str(PARTITION.topic)
    with recorded() as recorder:
        planned = driver.ranges({name: {"0": 0}}, {name: {"0": 10}})
        fetcher = fetcher_of(Consumer([encoded(0, 5)], [encoded(5, 5)]), planned[0].start, planned[0].end)
        assert sum(batch.num_rows for batch in fetcher.run_fetch_loop()) == 10
        driver.commit({name: {"0": 10}})
    told = recorder.events()

    assert subjects(told)["query"] == ["query"]
    label = f"{name}-0"
    began, decoded, ended = (at(told, kind) for kind in (e.RangeBegun, e.RowsDecoded, e.MicroBatchEnded))
    before, half, read, done = (
        shown(told[: number + 1], "query", "query") for number in (0, decoded[0], decoded[-1], ended[0])
    )
    assert began[0] < decoded[0]
    assert boxes(before, "planned", query="query") == [(label, "open")]
    assert boxes(before, "query_tasks") == []
    assert boxes(half, "planned") == [(label, "moving")]
    assert boxes(read, "planned") == [(label, "good")]
    assert [kind for _, kind in boxes(read, "query_tasks")] == ["good"]
    assert boxes(read, "query_batches") == [("#1", "moving")]
    assert boxes(done, "query_batches") == [("#1", "good")]
    assert boxes(done, "checkpointed") == [(label, "good")]


def test_a_task_that_reads_something_else_is_none_of_the_querys() -> None:
    planned = e.MicroBatchPlanned("q", 1, "t", 0, 10, 20)
    scene = SCENES["query"]("q")
    assert scene.apply(planned)
    for other in (e.RangeBegun(1, "t", 1, 10, 20), e.RangeBegun(1, "t", 0, 0, 20), e.RowsDecoded(1, "t", 0, 5, 15)):
        assert not scene.apply(other)
    assert scene.apply(e.RangeBegun(1, "t", 0, 10, 20))
    assert not scene.apply(e.RowsDecoded(2, "t", 0, 5, 15))
    assert not scene.apply(planned._replace(query="another"))


def test_a_micro_batch_that_is_planned_anew_forgets_the_ranges_of_the_one_before() -> None:
    first = (e.MicroBatchPlanned("q", 1, "t", 0, 0, 5), e.MicroBatchPlanned("q", 1, "t", 1, 0, 5))
    found = play("query", "q", *first, e.MicroBatchPlanned("q", 2, "t", 0, 5, 9))
    assert boxes(found, "planned") == [("t-0", "open")]
    assert boxes(found, "query_batches") == [("#2", "moving"), ("#1", "moving")]
    assert found.lanes[-1].boxes[0].facts == {"partitions": 1, "offsets": 4}
    assert found.lanes[-1].boxes[1].facts == {"partitions": 2, "offsets": 10}


def test_a_streams_task_goes_through_the_steps_of_a_batch_and_counts_what_passes(home: TaskHome) -> None:
    ranges = tuple(OffsetRange(TopicPartition(topic, 0), 0, end) for topic, end in (("a", 3), ("b", 4)))
    request = Request(Task("q", "r", 0, 0), PlannedTask("0_0", 0, ranges, 100, ()), {})
    with recorded() as recorder, contextlib.closing(home.attempt(request, [merged_rows(*RECORDS)])) as attempt:
        assert sum(batch.num_rows for batch in attempt.rows) == len(RECORDS)
    told = recorder.events()

    assert subjects(told)["streams"] == ["app 0_0"]
    found = shown(told, "streams", "app 0_0")
    assert boxes(found, "streams_steps", batch=0) == [
        ("read decision", "done"), ("restore", "done"), ("keep", "done"), ("compute", "done"), ("computed", "good"),
    ]  # fmt: skip
    sources = next(one for one in found.lanes if one.title == "streams_sources").boxes
    assert {box.facts["topic"]: box.facts["records"] for box in sources} == {"a": 3, "b": 4}
    (sink,) = next(one for one in found.lanes if one.title == "streams_sinks").boxes
    assert (sink.facts["topic"], sink.facts["records"]) == ("out", 7)
    assert found.lanes[-1].boxes[0].facts == {"consumed": 7, "produced": 7}
    assert found.lanes[0].boxes[-1].facts == {"stream_time": 26}


def test_a_batch_that_was_decided_before_is_shown_as_over(home: TaskHome, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = Decision(0, "r", COMPLETE, (), states=(TaskState("0_0", "{}", {}),))
    monkeypatch.setattr(home, "decision", lambda query, least: decided)
    request = Request(Task("q", "r", 0, 0), PlannedTask("0_0", 0, (), 100, ()), {})
    with recorded() as recorder, contextlib.closing(home.attempt(request, [])) as attempt:
        assert [*attempt.rows] == []

    found = shown(recorder.events(), "streams", "app 0_0")
    assert boxes(found, "streams_steps") == [("read decision", "done"), ("decided", "split")]
    assert boxes(found, "streams_batches") == [("#0", "split")]


def test_an_attempt_that_is_repeated_counts_anew() -> None:
    counted = e.StreamsTaskCounted("app", "0_0", "consumed", "source", "t", 5, 50)
    step = e.StreamsTaskStep("app", "0_0", 3, "read_decision", -1)
    found = play("streams", "app 0_0", step, counted, step)
    assert boxes(found, "streams_sources") == []
    assert boxes(found, "streams_steps") == [("read decision", "moving")]


def test_a_store_fills_while_its_changelog_is_read() -> None:
    heard: list[RestoreEvent] = []
    with recorded() as recorder:
        tell = TaskTeller("app", "0_0").restoring(heard.append)
        for what, start, end in (("start", 0, 40), ("batch", 0, 10), ("batch", 10, 30)):
            tell(RestoreEvent(what, "log", 0, "counts", start, end, 10))
        half = recorder.events()
        tell(RestoreEvent("end", "log", 0, "counts", 0, 40, 40))

    assert len(heard) == 4
    (box,) = next(one for one in shown(half, "streams", "app 0_0").lanes if one.title == "streams_stores").boxes
    assert (box.label, box.kind, box.fill) == ("counts", "moving", 0.75)
    assert boxes(shown(recorder.events(), "streams", "app 0_0"), "streams_stores") == [("counts", "good")]


def state(name: str, *partitions: str) -> Event:
    return e.TransactionState("id", name, 7, 0, len(partitions), ",".join(partitions))


def test_a_transactions_partitions_wait_for_their_markers_one_by_one() -> None:
    ongoing, ending = state("Ongoing", "t-0", "t-1"), state("PrepareCommit", "t-0", "t-1")
    assert boxes(play("transactions", "id", ongoing), "markers") == [("t-0", "open"), ("t-1", "open")]

    marked = play("transactions", "id", ongoing, ending, e.MarkerWritten("t", 1, 7, 0, "commit", 12))
    assert boxes(marked, "markers") == [("t-0", "waiting"), ("t-1", "good")]
    assert marked.lanes[1].boxes[1].facts["offset"] == 12

    scene = SCENES["transactions"]("id")
    for event in (ongoing, ending):
        assert scene.apply(event)
    assert not scene.apply(e.MarkerWritten("t", 1, 8, 0, "commit", 12))


def test_the_next_transaction_begins_without_the_markers_of_the_one_before() -> None:
    told = [state("Ongoing", "t-0"), state("PrepareAbort", "t-0"), e.MarkerWritten("t", 0, 7, 0, "abort", 3)]
    assert boxes(play("transactions", "id", *told), "markers") == [("t-0", "split")]
    again = play("transactions", "id", *told, state("CompleteAbort"), state("Ongoing", "t-5"))
    assert boxes(again, "markers") == [("t-5", "open")]


def test_a_log_shows_the_ends_of_transactions_in_it() -> None:
    found = play("log", "t-0", e.MarkerWritten("t", 0, 7, 0, "commit", 3), e.MarkerWritten("t", 0, 7, 0, "abort", 9))
    assert boxes(found, "log_markers") == [("abort 9", "split"), ("commit 3", "good")]


def test_a_log_shows_aborted_ranges_as_long_as_it_has_them() -> None:
    told: list[Event] = [
        e.LogMoved("t", 0, 0, 20, 20, 20, 0, 900), e.MarkerWritten("t", 0, 7, 0, "abort", 15, 12),
        e.MarkerWritten("t", 0, 8, 0, "abort", 9, 3), e.MarkerWritten("t", 0, 9, 0, "commit", 19, 16),
        e.MarkerWritten("t", 0, 5, 0, "abort", 20),
    ]  # fmt: skip
    found = play("log", "t-0", *told)
    assert boxes(found, "log_aborted") == [("3 to 8", "bad"), ("12 to 14", "bad")]
    later = play("log", "t-0", *told, e.SegmentsDeleted("t", 0, 10, 1, "retention.ms"))
    assert boxes(later, "log_aborted") == [("12 to 14", "bad")]


def test_a_producer_shows_what_becomes_of_a_record_before_it_is_appended() -> None:
    opened = e.BatchOpened("p", 1, "t", 0)
    found = play("producer", "p", opened, e.SerializersChosen("p", "StringSerializer", "", ""))
    assert [lane.title for lane in found.lanes][:3] == ["serializers", "partitioner", "deque"]
    assert boxes(found, "serializers") == [("key", "done"), ("value", "split")]
    assert boxes(found, "partitioner") == [("murmur2(key) % partitions", "done")]
    own = play("producer", "p", opened, e.SerializersChosen("p", "", "", "ByCity"))
    assert boxes(own, "partitioner") == [("ByCity", "done")]


def test_an_open_batch_fills_between_two_events_and_the_memory_with_it() -> None:
    opened = e.BatchOpened("p", 1, "t", 0)
    told = (opened, e.BatchFilled("p", 1, 5, 400, 1600), e.MemoryUsed("p", 96, 128, 0))
    found = play("producer", "p", *told)
    (box,) = next(one for one in found.lanes if one.title == "deque").boxes
    assert (box.fill, box.facts["records"]) == (0.25, 5)
    (memory,) = next(one for one in found.lanes if one.title == "memory").boxes
    assert (memory.fill, memory.kind) == (0.25, "done")
    assert boxes(play("producer", "p", *told, e.MemoryUsed("p", 0, 128, 2)), "memory") == [("buffer.memory", "bad")]
    assert not SCENES["producer"]("p").apply(e.MemoryUsed("q", 0, 128, 2))


def test_what_processes_number_for_themselves_stays_apart_in_one_film(tmp_path: Path) -> None:
    told: list[tuple[float, Event]] = [
        (1.0, e.BatchOpened("p", 1, "t", 0)), (1.1, e.BatchFilled("p", 1, 5, 400, 1600)),
        (2.0, e.RangeBegun(1, "t", 0, 0, 9)), (2.5, e.RowsDecoded(1, "t", 0, 9, 9)),
        (3.0, e.StreamsTaskStep("app", "0_0", 1, "compute", -1)),
    ]  # fmt: skip
    found = recording.merged([recording.Recording("a", told), recording.Recording("b", told)])

    assert len(subjects(found.events)["spark"]) == 2
    producer = shown(found.events, "producer", "p")
    assert [box.fill for box in producer.lanes[0].boxes] == [0.25, 0.25]
    # A batch of an application is the same one in all processes.
    assert {event.batch for _, event in found.events if isinstance(event, e.StreamsTaskStep)} == {1}
