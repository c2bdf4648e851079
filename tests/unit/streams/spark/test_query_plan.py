"""A topology as options of source and sink."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from barnabas.streams import Consumed, ContextualProcessor, PunctuationType, Record, Serdes, StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.errors import TopologyError
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark.internal_topics import counted

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


def test_a_pattern_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), TEXT).to("out")

    with pytest.raises(TopologyError, match="name the topics"):
        made(builder)


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
