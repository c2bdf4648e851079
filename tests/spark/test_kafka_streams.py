"""`KafkaStreams` on a running Spark."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from barnabas.errors import IllegalStateError, KafkaTimeoutError
from barnabas.metrics import MetricGroup
from barnabas.streams import (
    ContextualProcessor,
    KafkaStreams,
    MissingSourceTopicError,
    PunctuationType,
    Record,
    RecordingLevel,
    Serdes,
    State,
    StateRestoreListener,
    StreamsBuilder,
    StreamsError,
    Topology,
)
from barnabas.streams.spark import internal_topics, local_checkpoint
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[[int], str]
LONGEST = 1.5 * PATIENCE


def send(servers: str, topic: str, *values: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value.encode(), key=b"%d" % number, timestamp_ms=1000 + number)


def committed(servers: str, topic: str, partitions: int) -> list[Any]:
    wanted = [(topic, number) for number in range(partitions)]
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.assign(wanted)
        ends, found = consumer.end_offsets(wanted), []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(timeout=0.5)
        return found


def logs_of(streams: KafkaStreams) -> str:
    """Return the name of the class that writes the logs of the query."""
    execution: Any = streams.query._jsq.streamingQuery()
    return str(execution.offsetLog().fileManager().getClass().getName())


class Restored(StateRestoreListener):
    """Which restorations have ended: the store and how many records."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, int]] = []

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self.ended.append((store_name, total_restored))


def consumed(groups: list[MetricGroup], topic: str) -> float:
    return sum(each.values["records-consumed-total"] for each in groups
               if each.group == "stream-topic-metrics" and each.tags["topic-name"] == topic
               and "records-consumed-total" in each.values)  # fmt: skip


def entries(groups: list[MetricGroup], store: str) -> float:
    return sum(each.values["estimate-num-keys"] for each in groups if each.tags.get("lmdb-state-id") == store)


def word_count(source: str, target: str) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream(source, key=Serdes.string(), value=Serdes.string())
    words = lines.flat_map_values(lambda line: line.split()).group_by(lambda key, word: word)
    words.count(store="words").to_stream().map_values(str).to(target)
    return builder.build()


def settings(servers: str, name: str, folder: str | Path) -> dict[str, Any]:
    return {
        "application.id": name, "state.dir": str(Path(folder).parent / "state"),
        "bootstrap.servers": servers, "default.key.serde": "string",
        "default.value.serde": "string", "statestore.cache.max.bytes": 0, "repartition.purge.interval.ms": 0,
    }  # fmt: skip


@pytest.mark.shows("S3.111", breaks="barnabas.streams.spark.query_plan:planned")
@pytest.mark.shows("S3.114", breaks="barnabas.streams.spark.internal_topics:create_internal_topics")
def test_words_are_counted_once_each_across_a_restart(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(2), new_topic(2)
    name, states = f"words-{source}", []
    restored = Restored()
    metrics: list[list[MetricGroup]] = []

    def run(total: int) -> dict[bytes, list[bytes]]:
        streams = KafkaStreams(
            word_count(source, target), settings(servers, name, checkpoint), spark=spark, checkpoint_location=checkpoint
        )
        streams.set_state_listener(lambda new, old: states.append(new))
        streams.set_global_state_restore_listener(restored)
        with streams:
            assert logs_of(streams).endswith(local_checkpoint.MANAGER), "no program is started for a file"
            assert spark.conf.get(local_checkpoint.SETTING, None) is None, "other queries are left as they are"
            deadline = time.monotonic() + LONGEST
            while len(records := committed(servers, target, 2)) < total and time.monotonic() < deadline:
                assert streams.exception is None
                time.sleep(0.5)
            assert len(records) == total
            metrics.append(streams.metric_groups())
        found: dict[bytes, list[bytes]] = {}
        for record in records:
            found.setdefault(record.key, []).append(record.value)
        return found

    send(servers, source, "a b a", "b c")
    first = run(5)
    send(servers, source, "a", "c c")
    second = run(8)

    assert first == {b"a": [b"1", b"2"], b"b": [b"1", b"2"], b"c": [b"1"]}
    assert second == {b"a": [b"1", b"2", b"3"], b"b": [b"1", b"2"], b"c": [b"1", b"2", b"3"]}
    once = [State.REBALANCING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    assert [state for state in states if state is not State.RUNNING] == once * 2
    changes = committed(servers, f"{name}-words-changelog", 2)
    assert {change.key: int.from_bytes(change.value, "big") for change in changes} == {b"a": 3, b"b": 2, b"c": 3}
    assert {store for store, _ in restored.ended} == {"words"}, "an empty store ends, too"
    assert consumed(metrics[0], source) == 2, "two lines"
    assert entries(metrics[-1], "words") == 3
    between = f"{name}-words-repartition"
    wanted = [(topic, number) for topic in (source, between) for number in range(2)]
    with AdminClient(bootstrap_servers=servers) as admin, Consumer(bootstrap_servers=servers) as consumer:
        offsets = {tuple(each): at.offset for each, at in admin.list_consumer_group_offsets(name).items()}
        ends, begins = (ask(wanted) for ask in (consumer.end_offsets, consumer.beginning_offsets))
    read = {each: offset for each, offset in offsets.items() if each[0] == source}
    assert read == {tuple(each): end for each, end in ends.items() if each[0] == source}, (
        "all, without waiting for more"
    )
    assert {each[0] for each in offsets} == {source, between}
    assert sum(begin for each, begin in begins.items() if each[0] == between) > 0, "what was read is deleted"


def test_a_topic_that_is_missing_is_an_error_at_the_start(spark: SparkSession, servers: str, checkpoint: str) -> None:
    streams = KafkaStreams(
        word_count("not-there", "out"),
        settings(servers, "nothing", checkpoint),
        spark=spark,
        checkpoint_location=checkpoint,
    )

    with pytest.raises(MissingSourceTopicError, match="not-there"):
        streams.start()

    assert streams.state is State.ERROR
    with pytest.raises(IllegalStateError, match="already started or already stopped"):
        streams.start()
    assert streams.close()
    assert streams.state is State.NOT_RUNNING


def with_global_table(source: str, target: str, rates: str) -> Topology:
    builder = StreamsBuilder()
    table = builder.global_table(rates, key=Serdes.string(), value=Serdes.string())
    lines = builder.stream(source, key=Serdes.string(), value=Serdes.string())
    lines.join(table, lambda key, value: value, lambda one, other: one + other).to(target)
    return builder.build()


@pytest.mark.parametrize("missing", ["words-repartition", "words-changelog", "rates"])
def test_what_another_part_should_have_made_is_named_at_the_start_and_not_waited_for(
    spark: SparkSession,
    servers: str,
    new_topic: NewTopicName,
    checkpoint: str,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = new_topic(1), new_topic(1)
    create = internal_topics.create_internal_topics

    def create_and_lose(admin: AdminClient, *arguments: Any) -> list[str]:
        made = create(admin, *arguments)
        lost = {name for name in made if name.endswith(missing)}
        admin.delete_topics(lost)
        while lost & {*admin.list_topics()}:
            time.sleep(0.1)
        return made

    monkeypatch.setattr(internal_topics, "create_internal_topics", create_and_lose)
    topology = with_global_table(source, target, "rates") if missing == "rates" else word_count(source, target)
    given = {**settings(servers, f"lacks-{source}", checkpoint), "admin.request.timeout.ms": 3000}
    streams = KafkaStreams(topology, given, spark=spark, checkpoint_location=checkpoint)
    began = time.monotonic()

    with pytest.raises(StreamsError if missing == "rates" else KafkaTimeoutError, match=missing):
        streams.start()

    assert time.monotonic() - began < LONGEST
    assert streams.state is State.ERROR
    assert streams.close()


def test_an_error_of_the_users_ends_the_application_and_is_told(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source = new_topic(1)
    builder = StreamsBuilder()
    builder.stream(source, key=Serdes.string(), value=Serdes.string()).map_values(lambda value: int(value)).to("never")
    send(servers, source, "no number")
    streams = KafkaStreams(
        builder.build(), settings(servers, f"fails-{source}", checkpoint), spark=spark, checkpoint_location=checkpoint
    )

    streams.start()

    assert streams.wait_for(State.ERROR, timeout=LONGEST)
    assert f"topic={source}, partition=0, offset=0" in str(streams.exception)
    assert streams.close()


def later() -> Any:
    """Return a processor that schedules a punctuator for each record, which sends it once and is cancelled."""

    class Later(ContextualProcessor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            def punctuate(now: int) -> None:
                self.context.forward(record)
                scheduled.cancel()

            scheduled = self.context.schedule(200, PunctuationType.WALL_CLOCK_TIME, punctuate)

    return Later


@pytest.mark.slow
def test_a_punctuator_that_is_scheduled_by_a_record_needs_no_other_record_to_be_called(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(1), new_topic(1)
    builder = StreamsBuilder()
    builder.stream(source).process(later()).to(target)
    send(servers, source, "a")

    with KafkaStreams(
        builder.build(), settings(servers, f"later-{source}", checkpoint), spark=spark, checkpoint_location=checkpoint
    ) as streams:
        deadline = time.monotonic() + LONGEST
        while not (found := committed(servers, target, 1)) and time.monotonic() < deadline:
            assert streams.exception is None
            time.sleep(0.3)

    assert [record.value for record in found] == [b"a"]


@pytest.mark.slow
def test_topics_that_appear_and_match_a_pattern_are_read_too(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    target = new_topic(2)
    prefix = f"of-{target}"
    builder = StreamsBuilder()
    words = builder.stream(re.compile(f"{prefix}-.*"), key=Serdes.string(), value=Serdes.string())
    words.group_by(lambda key, word: word).count(store="words").to_stream().map_values(str).to(target)
    config = {**settings(servers, f"pattern-{target}", checkpoint), "metadata.max.age.ms": 500}

    def counted(streams: KafkaStreams, total: int) -> dict[bytes, bytes]:
        deadline = time.monotonic() + LONGEST
        while len(records := committed(servers, target, 2)) < total and time.monotonic() < deadline:
            assert streams.exception is None
            time.sleep(0.5)
        return {record.key: record.value for record in records}

    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"{prefix}-a", 2)])
        send(servers, f"{prefix}-a", "x", "y", "x")
        with KafkaStreams(builder.build(), config, spark=spark, checkpoint_location=checkpoint) as streams:
            assert counted(streams, 3) == {b"x": b"2", b"y": b"1"}
            admin.create_topics([NewTopic(f"{prefix}-b", 2)])
            send(servers, f"{prefix}-b", "x", "z")
            assert counted(streams, 5) == {b"x": b"3", b"y": b"1", b"z": b"1"}
            send(servers, f"{prefix}-a", "z")
            assert counted(streams, 6)[b"z"] == b"2", "what was read goes on"
            begun = own_task_processes()
        time.sleep(1.5)  # they look once a second whether they are needed
        assert begun
        assert not own_task_processes(), "they end with the application"


def own_task_processes() -> list[int]:
    """Return the processes of tasks that executors of this process have begun: they name who begun them."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            if b"barnabas.streams.spark.task_processes" in command and os.getpid() in ancestors(int(command[-2])):
                found.append(int(entry))
    return found


def ancestors(process: int) -> set[int]:
    found = set()
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        found.add(process)
    return found


def test_an_application_can_be_paused_counts_for_itself_and_restores_what_was_cleaned_up(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(1), new_topic(1)
    given = {**settings(servers, f"paused-{source}", checkpoint), "metrics.recording.level": "TRACE"}

    class Counting(ContextualProcessor[str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.words = context.metrics.add_rate_total_sensor("word", "all", "count", RecordingLevel.INFO)

        def process(self, record: Record[str, str]) -> None:
            self.words.record()
            self.context.forward(record)

    def application(restored: Restored) -> KafkaStreams:
        builder = StreamsBuilder()
        counted = builder.stream(source, key=Serdes.string(), value=Serdes.string()).process(Counting).group_by_key()
        counted.count(store="counts").to_stream().map_values(str).to(target)
        made = KafkaStreams(builder.build(), given, spark=spark, checkpoint_location=checkpoint)
        made.set_global_state_restore_listener(restored)
        return made

    def wait(streams: KafkaStreams, total: int) -> None:
        deadline = time.monotonic() + LONGEST
        while len(committed(servers, target, 1)) < total and time.monotonic() < deadline:
            assert streams.exception is None
            time.sleep(0.2)

    def told(streams: KafkaStreams, group: str, **tags: str) -> dict[str, float]:
        wanted = {name.replace("_", "-"): value for name, value in tags.items()}
        return next(dict(each.values) for each in streams.metric_groups()
                    if each.group == group and wanted.items() <= each.tags.items())  # fmt: skip

    send(servers, source, "a")
    streams = application(Restored())
    streams.pause()
    with streams:
        time.sleep(5)
        assert streams.is_paused()
        assert committed(servers, target, 1) == []
        streams.resume()
        wait(streams, 1)
        streams.pause()
        send(servers, source, "a", "b")
        time.sleep(3)
        assert len(committed(servers, target, 1)) == 1
        with pytest.raises(IllegalStateError, match="Cannot clean up while running"):
            streams.clean_up()
        streams.resume()
        wait(streams, 3)
        words = told(streams, "stream-word-metrics", word_id="all")
        counts = told(streams, "stream-state-metrics", lmdb_state_id="counts")
        task = told(streams, "stream-task-metrics", task_id="0_0")
    streams.clean_up()
    send(servers, source, "c")
    restored = Restored()
    with application(restored) as again:
        wait(again, 4)

    assert words["count-total"] == 3
    assert (counts["estimate-num-keys"], counts["put-latency-max"] > 0) == (2, True)
    assert counts["record-e2e-latency-max"] > 0
    assert task["process-latency-avg"] > 0
    assert restored.ended == [("counts", 3)], "from the changelog's beginning"
    assert [record.value for record in committed(servers, target, 1)] == [b"1", b"2", b"1", b"3"]
