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
from barnabas.streams.spark.batch_commits import BatchCommits
from tests.spark.test_kafka_streams import LONGEST, committed, send, settings, word_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[[int], str]
WITHIN, WITHOUT = {"repartition.within.batch": True}, {"repartition.within.batch": False}
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
        self._spark, self._servers, self._name, self.checkpoint = spark, servers, name, checkpoint
        self._topology = topology
        self.batches: list[list[dict[str, Any]]] = []

    def streams(self, config: dict[str, Any]) -> KafkaStreams:
        """Return the application as it is started next."""
        return KafkaStreams(
            self._topology(), {**settings(self._servers, self._name, self.checkpoint), **config},
            spark=self._spark, checkpoint_location=self.checkpoint,
        )  # fmt: skip

    def run(self, target: str, total: int, config: dict[str, Any]) -> dict[bytes, list[bytes]]:
        """Run until so many records are in the target; returns all of them by key, in their order."""
        with self.streams(config) as streams:
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

    def waiting(self) -> dict[Any, int]:
        """Return how many committed records of repartition topics lie behind what the group has committed."""
        isolated = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        places = [(topic, number) for topic in self.repartition_topics() for number in range(PARTITIONS)]
        if not places:
            return {}
        with (
            AdminClient(bootstrap_servers=self._servers) as admin,
            Consumer(bootstrap_servers=self._servers, **isolated) as reader,
        ):
            reader.assign(places)
            read = {each: at.offset for each, at in admin.list_consumer_group_offsets(self._name, places).items()}
            ends, found = reader.end_offsets(places), dict.fromkeys(places, 0)
            for each, at in read.items():
                reader.seek(each, at)
            while any(reader.position(each) < end for each, end in ends.items()):
                for record in reader.poll(timeout=0.2):
                    found[record.topic, record.partition] += 1
        return found

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
    for config in (WITHOUT, WITHIN, WITHIN, WITHOUT, WITHIN):
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


@pytest.mark.parametrize("place", ["its checkpoint", pytest.param("another checkpoint", marks=pytest.mark.slow)])
@pytest.mark.parametrize("config", [WITHIN, pytest.param(WITHOUT, marks=pytest.mark.slow)], ids=["within", "without"])
def test_what_lies_half_way_is_read_at_the_next_start_though_no_input_comes(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str,
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], place: str,
) -> None:  # fmt: skip
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    name = f"half-{source}"
    application = Restarted(spark, servers, name, checkpoint, lambda: word_count(source, target))
    send(servers, source, "a b c d e f")
    application.run(target, 6, WITHOUT)
    send(servers, source, "a b", "c a")
    with monkeypatch.context() as patch:
        patch.setattr(BatchCommits, "_commit", pausing(BatchCommits._commit))
        streams = application.streams(WITHOUT).start()
        deadline = time.monotonic() + LONGEST
        while sum(application.waiting().values()) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)  # the group gets what can be told of this
        streams.close()
    assert len(committed(servers, target, PARTITIONS)) == 6
    assert sum(application.waiting().values()) == 4, "who takes over begins before them"

    if place == "another checkpoint":
        application.checkpoint = f"{checkpoint}-2"

    assert application.run(target, 10, config) == told("abcdefabca")
    assert sum(application.waiting().values()) == 0


def pausing(commit: Any) -> Any:
    """Return what commits a batch, and then lets no other one begin."""

    def commits(self: BatchCommits, planned: Any, batch: int) -> None:
        commit(self, planned, batch)
        self.goes_on.clear()

    return commits


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
