"""`repartition.within.batch`: a batch goes through repartition topics at once; each start may switch it on or off."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from barnabas import AdminClient, Consumer
from barnabas.streams import KafkaStreams, Serdes, StreamsBuilder, Topology
from tests.spark.test_kafka_streams import LONGEST, committed, send, settings, word_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[[int], str]
WITHIN = {"repartition.within.batch": True}
PARTITIONS = 2


def two_steps(source: str, target: str) -> Topology:
    """Counts words, and then how many words have which count: two repartition topics, one after the other."""
    builder = StreamsBuilder()
    lines = builder.stream(source, key=Serdes.string(), value=Serdes.string())
    words = lines.flat_map_values(lambda line: line.split()).group_by(lambda key, word: word)
    lengths = words.count(store="words").to_stream().map_values(str).group_by(lambda word, count: count)
    lengths.count(store="counts").to_stream().map_values(str).to(target)
    return builder.build()


class Restarted:
    """An application that is started again and again on one checkpoint."""

    def __init__(self, spark: SparkSession, servers: str, name: str, checkpoint: str, topology: Callable[[], Topology]):
        self._spark, self._servers, self._name, self._checkpoint = spark, servers, name, checkpoint
        self._topology = topology
        self.batches: list[list[dict[str, Any]]] = []

    def run(self, target: str, total: int, config: dict[str, Any]) -> dict[bytes, list[bytes]]:
        """Run until so many records are in the target; returns all of them by key, in their order."""
        streams = KafkaStreams(
            self._topology(), {**settings(self._servers, self._name, self._checkpoint), **config},
            spark=self._spark, checkpoint_location=self._checkpoint,
        )  # fmt: skip
        with streams:
            deadline = time.monotonic() + LONGEST
            while len(records := committed(self._servers, target, PARTITIONS)) < total and time.monotonic() < deadline:
                assert streams.exception is None, streams.exception
                time.sleep(0.3)
            self.batches.append([json.loads(each.json) for each in streams.query.recentProgress])
            self.await_no_lag()
        assert len(records) == total
        found: dict[bytes, list[bytes]] = defaultdict(list)
        for record in records:
            found[record.key].append(record.value)
        return found

    def await_no_lag(self) -> None:
        """Wait until the group has committed all there is, repartition topics too: markers are no lag for ever."""
        deadline = time.monotonic() + LONGEST
        with AdminClient(bootstrap_servers=self._servers) as admin, Consumer(bootstrap_servers=self._servers) as reader:
            while time.monotonic() < deadline:
                offsets = {each: at.offset for each, at in admin.list_consumer_group_offsets(self._name).items()}
                ends = reader.end_offsets(list(offsets))
                if offsets and {*offsets.items()} == {*ends.items()}:
                    return
                time.sleep(0.1)
        raise AssertionError(f"committed {offsets}, of {ends}")

    def repartition_topics(self) -> list[str]:
        with AdminClient(bootstrap_servers=self._servers) as admin:
            return sorted(
                each for each in admin.list_topics() if each.startswith(self._name) and "-repartition" in each
            )


def told(words: Sequence[str]) -> dict[bytes, list[bytes]]:
    """Return what counting these words gives."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for word in words:
        found[word.encode()].append(b"%d" % (len(found[word.encode()]) + 1))
    return found


def test_words_are_counted_once_each_wherever_the_option_is_switched(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    application = Restarted(spark, servers, f"within-{source}", checkpoint, lambda: word_count(source, target))
    words: list[str] = []
    for config in ({}, WITHIN, WITHIN, {}, WITHIN):
        words += ["a", "b", "c", "a"]
        send(servers, source, "a b", "c a")

        found = application.run(target, len(words), config)

        assert found == told(words), config

    (between,) = application.repartition_topics()
    logged = committed(servers, f"within-{source}-words-changelog", PARTITIONS)
    assert {each.key: int.from_bytes(each.value, "big") for each in logged} == {b"a": 10, b"b": 5, b"c": 5}
    with Consumer(bootstrap_servers=servers) as consumer:
        begins = consumer.beginning_offsets([(between, number) for number in range(PARTITIONS)])
    assert sum(begins.values()) > 0, "what was read is deleted"


def test_one_batch_goes_through_all_steps(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    application = Restarted(spark, servers, f"steps-{source}", checkpoint, lambda: two_steps(source, target))
    send(servers, source, "a b", "c a")

    found = application.run(target, 4, WITHIN)

    assert found == {b"1": [b"1", b"2", b"3"], b"2": [b"1"]}
    offsets = [each["sources"][0]["endOffset"] for each in application.batches[0]]
    assert {topic for each in offsets for topic in each} == {source, ""}, "the source plans no repartition topic"
    assert len({json.dumps(each[source]) for each in offsets}) == 1, "one batch had all records"
