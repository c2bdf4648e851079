"""Records that the brokers refuse, on a running Spark: `production.exception.handler` decides what follows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.streams import KafkaStreams, Serdes, State, StreamsBuilder, Topology
from barnabas.streams.engine.exception_handlers import Response, dead_letter_queue_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = 240.0
RECORDS = 300
BIG = {7, 150, 299}


class LeaveOut:
    """Leaves out what cannot be sent, and keeps what it came from in the dead-letter queue."""

    def __init__(self, queue: str) -> None:
        self.queue = queue

    def handle_error(self, context: Any, record: Any, error: Exception) -> Response:
        return Response.resume(dead_letter_queue_records(self.queue, context, error))


def topology(source: str, target: str, counts: str) -> Topology:
    builder = StreamsBuilder()
    text = {"key": Serdes.string(), "value": Serdes.string()}
    lines = builder.stream(source, **text)
    lines.map_values(lambda value: value.upper() * (500 if value.startswith("big") else 1)).to(target, **text)
    lines.group_by_key().count(store="lines").to_stream().to(counts, key=Serdes.string(), value=Serdes.long())
    return builder.build()


def committed(servers: str, topic: str) -> list[Any]:
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.assign([(topic, 0)])
        (end,), found = consumer.end_offsets([(topic, 0)]).values(), list[Any]()
        while consumer.position((topic, 0)) < end:
            found += consumer.poll(timeout=0.5)
        return found


@pytest.fixture
def topics(servers: str, new_topic: Callable[[int], str]) -> dict[str, str]:
    """A source with records, some of which become too large for the target; where the others go."""
    names = {name: new_topic(1) for name in ("source", "counts", "dead")}
    target = f"small-{names['source']}"
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(target, 1, configs={"max.message.bytes": "1000"})])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(RECORDS):
            value = b"%s %d" % (b"big" if number in BIG else b"small", number)
            producer.send(names["source"], value, key=b"%d" % (number % 5), timestamp_ms=1000 + number)
    return {**names, "target": target}


def application(spark: Any, servers: str, topics: dict[str, str], folder: str, **settings: Any) -> KafkaStreams:
    config = {
        "application.id": f"refused-{topics['source']}", "bootstrap.servers": servers,
        "state.dir": str(Path(folder).parent / "state"), "statestore.cache.max.bytes": 0, **settings,
    }  # fmt: skip
    steps = topology(topics["source"], topics["target"], topics["counts"])
    return KafkaStreams(steps, config, spark=spark, checkpoint_location=folder)


def test_what_the_brokers_refuse_is_dropped_and_told_and_all_else_is_there_once(
    spark: SparkSession, servers: str, topics: dict[str, str], checkpoint: str
) -> None:
    handler = {"production.exception.handler": LeaveOut(topics["dead"])}

    with application(spark, servers, topics, checkpoint, **handler) as streams:
        deadline = time.monotonic() + LONGEST
        while len(committed(servers, topics["counts"])) < RECORDS and time.monotonic() < deadline:
            assert streams.exception is None
            time.sleep(0.3)
        dropped = [
            group.values["dropped-records-total"]
            for group in streams.metric_groups()
            if group.group == "stream-task-metrics"
        ]

    wanted = [b"SMALL %d" % number for number in range(RECORDS) if number not in BIG]
    assert [record.value for record in committed(servers, topics["target"])] == wanted
    letters = committed(servers, topics["dead"])
    assert [letter.value for letter in letters] == [b"big %d" % number for number in sorted(BIG)]
    headers = [dict(letter.headers) for letter in letters]
    assert [int(each["__streams.errors.offset"]) for each in headers] == sorted(BIG)
    assert {each["__streams.errors.exception"] for each in headers} == {b"barnabas.errors.RecordTooLargeError"}
    counted = Counter(record.key for record in committed(servers, topics["counts"]))
    assert counted == {b"%d" % key: RECORDS // 5 for key in range(5)}
    assert dropped == [len(BIG)]


@pytest.mark.slow
def test_a_handler_that_fails_ends_the_application_in_error(
    spark: SparkSession, servers: str, topics: dict[str, str], checkpoint: str
) -> None:
    streams = application(spark, servers, topics, checkpoint).start()

    assert streams.wait_for(State.ERROR, timeout=LONGEST)
    assert f"Error encountered sending record to topic {topics['target']} for task 0_0" in str(streams.exception)
    assert "Exception handler choose to FAIL" in str(streams.exception)
    assert streams.close()
    assert committed(servers, topics["target"]) == committed(servers, topics["counts"]) == []
