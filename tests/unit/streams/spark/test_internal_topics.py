"""How many partitions tasks and internal topics have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from barnabas.errors import KafkaTimeoutError
from barnabas.streams import (
    Consumed,
    JoinWindows,
    MissingSourceTopicError,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    TimeWindows,
)
from barnabas.streams.config import StreamsConfig
from barnabas.streams.errors import StreamsError, TopologyError
from barnabas.streams.spark.internal_topics import TopicCounts, await_internal_topics, check_global_topics, counted
from barnabas.streams.spark.query_plan import planned

CONFIG = {"application.id": "app", "bootstrap.servers": "localhost:9092"}
TEXT = Consumed.with_(Serdes.string(), Serdes.string())


def counts(builder: StreamsBuilder, **existing: int) -> TopicCounts:
    plan = planned(builder.build(), StreamsConfig(CONFIG))
    return counted(plan.infos, plan.copartitioned, existing)


def word_count(builder: StreamsBuilder) -> Any:
    words = builder.stream("lines", TEXT).group_by(lambda key, value: value)
    words.count(store="words").to_stream().to("counts")


def test_a_repartition_topic_has_as_many_partitions_as_what_its_writers_read() -> None:
    builder = StreamsBuilder()
    word_count(builder)

    found = counts(builder, lines=5)

    (name,) = set(found.partitions) - {"lines"}
    assert (name.startswith("app-"), name.endswith("-repartition")) == (True, True)
    assert found.partitions[name] == 5
    assert found.tasks == {0: 5, 1: 5}


def test_the_number_that_the_user_gave_wins() -> None:
    builder = StreamsBuilder()
    builder.stream("lines", TEXT).repartition(Repartitioned(number_of_partitions=7)).to("out")

    assert counts(builder, lines=5).tasks == {0: 5, 1: 7}


def test_a_repartition_topic_goes_together_with_the_topic_that_it_is_joined_with() -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", TEXT).select_key(lambda key, value: value)
    left.join(
        builder.stream("right", TEXT), lambda one, other: one + other, JoinWindows.of_time_difference_with_no_grace(5)
    ).to("out")

    assert counts(builder, left=2, right=6).tasks == {0: 2, 1: 6}


def test_topics_that_are_joined_and_not_copartitioned_are_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("left", TEXT).join(builder.table("right", TEXT), lambda one, other: one).to("out")

    with pytest.raises(TopologyError, match=r"Topics not co-partitioned: \[\{left=2, right=3\}\]"):
        counts(builder, left=2, right=3)


def test_a_topic_that_is_missing_is_named() -> None:
    builder = StreamsBuilder()
    word_count(builder)

    with pytest.raises(MissingSourceTopicError, match="lines"):
        counts(builder)


def test_a_changelog_keeps_at_most_what_a_setting_can_say() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(1000, 2**63 - 2000)
    builder.stream("lines", TEXT).group_by_key().windowed_by(windows).count()

    (info,) = planned(builder.build(), StreamsConfig(CONFIG)).infos.values()

    (changelog,) = info.state_changelog_topics.values()
    assert changelog.config["retention.ms"] == str(2**63 - 1)


class Cluster:
    """Tells of topics only some looks after they were made."""

    def __init__(self, appears_after: int, *topics: str) -> None:
        self.appears_after, self.topics, self.looks = appears_after, topics, 0
        self.slept: list[float] = []

    def ask(self, topics: Iterable[str]) -> dict[str, int]:
        self.looks += 1
        return {topic: 5 for topic in topics if topic in self.topics and self.looks > self.appears_after}


def awaited(cluster: Cluster) -> None:
    builder = StreamsBuilder()
    word_count(builder)
    plan = planned(builder.build(), StreamsConfig(CONFIG))
    found = counted(plan.infos, plan.copartitioned, {"lines": 5})
    await_internal_topics(cluster.ask, plan.infos, found, 3.0, cluster.slept.append)


def test_internal_topics_are_waited_for_until_the_brokers_tell_of_them() -> None:
    cluster = Cluster(4, "app-words-repartition", "app-words-changelog")

    awaited(cluster)

    assert (cluster.looks, sum(cluster.slept)) == (5, pytest.approx(0.4))


@pytest.mark.parametrize("made", ["app-words-repartition", "app-words-changelog"])
def test_an_internal_topic_that_never_appears_is_named_when_the_time_is_over(made: str) -> None:
    cluster = Cluster(0, made)
    (missing,) = {"app-words-repartition", "app-words-changelog"} - {made}

    with pytest.raises(KafkaTimeoutError, match=f"Could not create topics within 3 seconds: {missing}. "):
        awaited(cluster)

    assert sum(cluster.slept) == pytest.approx(3.0)


def test_a_topic_of_a_global_store_that_is_missing_is_named() -> None:
    check_global_topics({"there"}, {"there": 1})

    with pytest.raises(StreamsError, match="no partitions available for topic rates when initializing global stores"):
        check_global_topics({"there", "rates"}, {"there": 1})
