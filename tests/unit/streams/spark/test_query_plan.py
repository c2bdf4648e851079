"""A topology as options of source and sink."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from barnabas.streams import Consumed, ContextualProcessor, PunctuationType, Record, Serdes, StreamsBuilder
from barnabas.streams.config import WITHOUT_EFFECT, StreamsConfig
from barnabas.streams.errors import MissingSourceTopicError, TopologyError
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark.internal_topics import counted
from barnabas.streams.spark.pattern_topics import PatternTopics

CONFIG = {
    "application.id": "app", "default.key.serde": "string", "default.value.serde": "string",
    "bootstrap.servers": "localhost:9092", "security.protocol": "PLAINTEXT",
    "consumer.max.poll.records": 7, "producer.linger.ms": 3, "isolation.level": "read_uncommitted", "acks": "1",
}  # fmt: skip
TEXT = Consumed.with_(Serdes.string(), Serdes.string())


class Ticker(ContextualProcessor[Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(250, PunctuationType.WALL_CLOCK_TIME, lambda now: None)

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def made(builder: StreamsBuilder) -> plan.Plan:
    return plan.planned(builder.build(), StreamsConfig(CONFIG))


def test_topics_of_a_subtopology_are_one_group_and_global_ones_are_shared() -> None:
    builder = StreamsBuilder()
    names = builder.global_table("names", TEXT)
    joined = builder.stream("b", TEXT).join(builder.table("a", TEXT), lambda one, other: one + other)
    joined.join(names, lambda key, value: key, lambda one, other: one).to("out")
    builder.stream("c", TEXT).process(Ticker).to("out")

    found = plan.co_partitions(made(builder))

    groups = sorted((group.topics, group.clock_ms) for group in found.groups.values())
    assert groups == [(("a", "b"), None), (("c",), 250)]
    assert found.shared == ("names",)


def test_settings_of_clients_go_where_kafka_has_them_and_exactly_once_is_not_given_up() -> None:
    builder = StreamsBuilder()
    builder.stream("a", TEXT).to("out")

    source, sink = plan.source_options(made(builder)), plan.sink_options(CONFIG)

    assert source["kafka.isolation.level"] == "read_committed"
    assert (source["kafka.group.id"], source["startingOffsets"]) == ("app", "group")
    assert source["kafka.max.poll.records"] == "7"
    assert sink["kafka.linger.ms"] == "3"
    assert (sink["kafka.security.protocol"], "kafka.acks" in sink) == ("PLAINTEXT", False)


@pytest.mark.parametrize("name", ["auto.offset.reset", "consumer.auto.offset.reset", "main.consumer.group.id"])
def test_what_the_application_itself_decides_does_not_reach_the_clients(name: str) -> None:
    builder = StreamsBuilder()
    builder.stream("a", TEXT).to("out")
    found = plan.planned(builder.build(), StreamsConfig({**CONFIG, name: "latest"}))

    source = plan.source_options(found)

    assert source["kafka.group.id"] == "app"
    assert not any("auto.offset.reset" in option for option in source)


class Topics:
    """A cluster with these topics."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def list_topics(self) -> list[str]:
        return [*self._names]


def on(builder: StreamsBuilder, *topics: str) -> plan.Plan:
    return plan.planned_on(Topics(*topics), builder.build(), StreamsConfig(CONFIG))


def test_a_pattern_reads_the_topics_that_match_but_not_the_application_s_own_nor_a_global_table_s() -> None:
    builder = StreamsBuilder()
    builder.global_table("app-b", TEXT)
    counts = builder.stream(re.compile("app-.*"), TEXT).group_by(lambda key, value: value).count(store="words")
    counts.to_stream().to("out")
    own = ["app-words-changelog", "app-words-repartition"]

    first = on(builder, "app-a", "app-b", *own, "other")
    second = on(builder, "app-a", "app-b", "app-c", *own)

    assert first.sources == {"app-a", "app-words-repartition"}
    assert second.sources == first.sources | {"app-c"}
    assert plan.source_options(second)["subscribe"] == "app-a,app-b,app-c,app-words-repartition"
    assert counted(second.infos, second.copartitioned, {"app-a": 2, "app-c": 5}).tasks == {1: 5, 2: 5}


def test_topics_of_a_pattern_are_partitioned_as_what_they_are_joined_with() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), TEXT).join(builder.table("t", TEXT), lambda one, other: one).to("out")
    found = on(builder, "a1", "a2", "t")

    with pytest.raises(TopologyError, match="not co-partitioned"):
        counted(found.infos, found.copartitioned, {"a1": 2, "a2": 3, "t": 2})


def test_a_pattern_that_no_topic_matches_is_an_error_that_names_its_source() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), Consumed(name="mine")).to("out")

    with pytest.raises(MissingSourceTopicError, match="mine"):
        on(builder, "b")


def test_two_patterns_do_not_share_a_topic() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), TEXT).to("out")
    builder.stream(re.compile(".*b"), TEXT).to("out")

    with pytest.raises(TopologyError, match="Topic ab is already matched for another regex pattern"):
        on(builder, "ab", "a", "b")


def test_topics_that_appear_are_told_once_it_is_time_to_look() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), TEXT).group_by_key().count(store="a").to_stream().to("out")
    present, now = on(builder, "a1"), [0.0]
    topics = ["a1", "b"]
    watched = PatternTopics(lambda: Listed(topics), 300.0, lambda: now[0])

    found = []
    for now[0], new in ((299.0, "a2"), (300.0, "app-a-changelog"), (301.0, "a3"), (600.0, "")):
        topics.append(new)
        found.append(watched.have_come(present))
        topics.remove("a2") if now[0] == 299.0 else None

    assert found == [False, False, False, True], "not before it is time; own changelogs are none"


class Listed:
    """A cluster whose topics change."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def list_topics(self) -> list[str]:
        return self._names

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("extractor", "waits"), [(None, False), (lambda record, time: 5, True)])
def test_records_in_an_order_of_the_users_must_be_there_all_at_once(extractor: Any, waits: bool) -> None:
    builder = StreamsBuilder()
    own = Consumed.with_(Serdes.string(), Serdes.string(), timestamp_extractor=extractor)
    builder.stream("b", own).join(builder.table("a", TEXT), lambda one, other: one).to("out")
    cut = made(builder)

    found = plan.application(cut, counted(cut.infos, cut.copartitioned, {"a": 1, "b": 1}), {"out": 3})

    assert (found.must_wait, found.partitions) == (frozenset({0}) if waits else frozenset(), {"a": 1, "b": 1, "out": 3})


def test_what_travels_to_the_tasks_can_be_pickled_lambdas_and_serdes_and_all() -> None:
    builder = StreamsBuilder()
    builder.stream("a", Consumed.with_(Serdes.long(), Serdes.json())).map_values(lambda value: value["x"]).to("out")
    cut = made(builder)

    sent = plan.application(cut, counted(cut.infos, cut.copartitioned, {"a": 1}), {})

    assert cloudpickle.loads(cloudpickle.dumps(sent)).id == "app"
    assert not sent.config.keys() & WITHOUT_EFFECT.keys(), "each task would tell of them again"


def test_a_session_of_spark_connect_is_refused_when_the_application_is_made() -> None:
    from barnabas.streams import KafkaStreams
    from barnabas.streams.errors import StreamsError

    for name in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(name, reason="Spark Connect needs pyspark[connect]")
    from pyspark.sql.connect.session import SparkSession

    remote: Any = object.__new__(SparkSession)  # without a server
    builder = StreamsBuilder()
    builder.stream("a", TEXT).to("out")

    with pytest.raises(StreamsError, match="does not run on Spark Connect"):
        KafkaStreams(builder.build(), CONFIG, spark=remote)
