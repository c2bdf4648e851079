"""Names of operators, topics and stores: the user's where given, else Kafka's counter."""

from __future__ import annotations

import re

import pytest

from barnabas.streams import Consumed, Grouped, Materialized, Named, Serdes, StreamsBuilder, TopologyError

TEXT = Consumed.with_(Serdes.string(), Serdes.string())


def names(builder: StreamsBuilder) -> list[str]:
    return re.findall(r"(?:Source|Processor|Sink): (\S+)", str(builder.build().describe()))


def test_a_step_takes_the_next_number() -> None:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).filter(lambda key, value: True).map_values(str.upper).to("out")

    assert names(builder) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-FILTER-0000000001",
        "KSTREAM-MAPVALUES-0000000002",
        "KSTREAM-SINK-0000000003",
    ]


def test_naming_a_step_renames_no_other() -> None:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).filter(lambda key, value: True, name="mine").map_values(str.upper).to("out")

    assert names(builder) == [
        "KSTREAM-SOURCE-0000000000",
        "mine",
        "KSTREAM-MAPVALUES-0000000002",
        "KSTREAM-SINK-0000000003",
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a*", "x" * 250])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    with pytest.raises(TopologyError):
        Named.as_(name)
    with pytest.raises(TopologyError):
        StreamsBuilder().stream("in", name=name)


def test_a_repartition_topic_is_named_by_the_group() -> None:
    builder = StreamsBuilder()
    by_value = builder.stream("in", TEXT).group_by(lambda key, value: value, Grouped.as_("by-value"))
    by_value.count(store="counts")

    described = str(builder.build().describe())

    assert "Sink: by-value-repartition-sink (topic: by-value-repartition)" in described
    assert "Source: by-value-repartition-source (topics: [by-value-repartition])" in described


def test_forgotten_names_are_an_error_where_they_must_be_given() -> None:
    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    builder.stream("in", TEXT).group_by_key().count()

    with pytest.raises(TopologyError, match=r"Following state store\(s\) has not been named: KSTREAM-AGGREGATE-STATE"):
        builder.build()


def test_given_names_are_no_error_there() -> None:
    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    builder.stream("in", TEXT).group_by_key().count(Materialized.as_("counts"))

    assert "counts" in str(builder.build().describe())
