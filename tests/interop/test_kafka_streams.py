"""Kafka Streams against our broker: exactly once, though the application and the broker are killed.

The application is tests/interop/java-streams: what it writes for each word must be 1, 2, 3, ... and nothing else.
"""

from __future__ import annotations

import select
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from tests.peers import apache_kafka, foreign_programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORDS = ["all", "streams", "lead", "to", "kafka"]
PARTITIONS = 2
ROUND = 400


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
    }
    with Broker(config=settings) as running:
        yield running


class Application:
    """A process of the application."""

    def __init__(self, class_path: str, broker: Broker, *settings: str):
        self._process = subprocess.Popen(
            [
                "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path,
                "WordCount", broker.bootstrap_servers, "wc", "consumer.session.timeout.ms=6000",
                "consumer.heartbeat.interval.ms=500", "producer.transaction.timeout.ms=4000", *settings,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_until_it_runs(self) -> None:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], 60)
        assert readable, "the application does not run after a minute"
        assert self._process.stdout.readline() == "running\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def start(broker: Broker) -> Iterator[Callable[..., Application]]:
    class_path = foreign_programs.streams_class_path()
    started: list[Application] = []

    def begin(*settings: str) -> Application:
        started.append(Application(class_path, broker, *settings))
        return started[-1]

    yield begin
    for application in started:
        application.kill()


def send_lines(broker: Broker, first: int, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(first, first + count):
            line = " ".join(WORDS[: number % len(WORDS) + 1])
            producer.send("wc-lines", value=f"{number} {line}".encode(), key=str(number).encode())


def expected_counts(lines: int) -> Counter[str]:
    words = [word for number in range(lines) for word in WORDS[: number % len(WORDS) + 1]]
    return Counter(words + [str(number) for number in range(lines)])


def committed(broker: Broker, topic: str) -> list[tuple[str, str]]:
    """Key and value of everything that readers of committed records see, in order for each key."""
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        found = []
        deadline = time.monotonic() + 20
        while any(consumer.position(p) < ends[p] for p in partitions) and time.monotonic() < deadline:
            found += [(r.key.decode(), r.value.decode()) for r in consumer.poll(timeout=0.5)]
        return found


def wait_for(broker: Broker, lines: int, seconds: float = 60) -> None:
    """Until the counts of so many lines are committed."""
    wanted = sum(expected_counts(lines).values())
    deadline = time.monotonic() + seconds
    while (found := len(committed(broker, "wc-counts"))) < wanted:
        assert time.monotonic() < deadline, f"{found} of {wanted} counts are there"
        time.sleep(0.5)


def test_words_are_counted_exactly_once_though_application_and_broker_are_killed(
    broker: Broker, start: Callable[..., Application]
) -> None:
    jars = {jar.name for jar in apache_kafka.STREAMS_JARS.fetch().glob("kafka-*.jar")}
    assert jars == {f"kafka-{part}-{apache_kafka.VERSION}.jar" for part in ("streams", "clients")}
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"wc-{name}", PARTITIONS) for name in ("lines", "capitals", "counts")])
    send_lines(broker, 0, ROUND)
    application = start()
    application.wait_until_it_runs()
    wait_for(broker, ROUND // 4)
    application.kill()
    send_lines(broker, ROUND, ROUND)
    application = start()
    wait_for(broker, ROUND + ROUND // 4)
    broker.kill()
    broker.start()
    send_lines(broker, 2 * ROUND, ROUND)
    wait_for(broker, 3 * ROUND)
    application.stop()

    counts: dict[str, list[int]] = {}
    for word, count in committed(broker, "wc-counts"):
        counts.setdefault(word, []).append(int(count))
    assert counts == {word: list(range(1, total + 1)) for word, total in expected_counts(3 * ROUND).items()}
    capitals = Counter(value for _, value in committed(broker, "wc-capitals"))
    assert len(capitals) == 3 * ROUND
    assert set(capitals.values()) == {1}
    assert all(value == value.upper() for value in capitals)
