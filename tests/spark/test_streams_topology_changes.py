"""An application whose topology changes between two runs on Spark: state stays, or the start is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from barnabas import AdminClient
from barnabas.streams import Consumed, KafkaStreams, Serdes, State, StreamsBuilder, Topology
from barnabas.streams.spark.topology_changes import TopologyChangedError
from tests.spark.test_kafka_streams import LONGEST, committed, send, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = Consumed.with_(Serdes.string(), Serdes.string())


def counting(target: str, *counted: tuple[str, str | None], filters: bool = False) -> Topology:
    """Count words of topics, each in a store of a name, or of a generated one."""
    builder = StreamsBuilder()
    for topic, store in counted:
        words = builder.stream(topic, TEXT).filter(lambda key, word: True) if filters else builder.stream(topic, TEXT)
        counts = words.group_by(lambda key, word: word, name=f"by-{topic}").count(store=store)
        counts.to_stream().map_values(telling(topic)).to(target)
    return builder.build()


def telling(topic: str) -> Callable[[int], str]:
    return lambda count: f"{topic} {count}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_state_goes_with_its_store_when_the_topology_changes(
    spark: SparkSession, servers: str, new_topic: Callable[[int], str], checkpoint: str
) -> None:
    one, two, three, target = (new_topic(1) for _ in range(4))
    name = f"changes-{one}"
    config = settings(servers, name, Path(checkpoint))

    def run(topology: Topology, total: int) -> list[str]:
        with KafkaStreams(topology, config, spark=spark, checkpoint_location=checkpoint) as streams:
            deadline = time.monotonic() + LONGEST
            while len(found := committed(servers, target, 1)) < total and time.monotonic() < deadline:
                assert streams.exception is None, streams.exception
                time.sleep(0.3)
        return [f"{record.key.decode()}: {record.value.decode()}" for record in found]

    def refused(topology: Topology, **more: Any) -> str:
        streams = KafkaStreams(topology, {**config, **more}, spark=spark, checkpoint_location=checkpoint)
        with pytest.raises(TopologyChangedError) as error:
            streams.start()
        assert streams.state is State.ERROR
        streams.close()
        return str(error.value)

    send(servers, one, "x", "x")
    send(servers, two, "x")
    first = run(counting(target, (one, "ones"), (two, None)), 3)
    assert sorted(first) == sorted([f"x: {one} 1", f"x: {one} 2", f"x: {two} 1"])

    message = refused(counting(target, (one, "ones"), (two, None), filters=True))
    assert "would begin empty" in message
    with AdminClient(bootstrap_servers=servers) as admin:
        own = {topic for topic in admin.list_topics() if topic.startswith(name)}
    assert len([topic for topic in own if topic.endswith("-changelog")]) == 2, "nothing was made"

    # The store of a generated name is given up, the other one moves to another sub-topology, a topic is new.
    lost = next(each.split(":")[0].strip() for each in message.splitlines() if "would begin empty" in each)
    config["accepted.topology.changes"] = lost
    for topic in (one, two, three):
        send(servers, topic, "x")
    second = run(counting(target, (three, "threes"), (one, "ones"), (two, "twos"), filters=True), 6)
    assert sorted(second[3:]) == sorted([f"x: {one} 3", f"x: {two} 1", f"x: {three} 1"])

    # A topic is not read any more, and the one that is has its old number again.
    del config["accepted.topology.changes"]
    send(servers, one, "x")
    third = run(counting(target, (one, "ones")), 7)
    assert third[6:] == [f"x: {one} 4"]
