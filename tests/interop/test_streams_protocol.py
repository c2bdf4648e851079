"""Kafka Streams with `group.protocol=streams` (KIP-1071) against our broker, and Kafka's tool for its groups.

The application is StreamsGroupApp of tests/interop/java-streams: it counts words, repartitions, and joins with a table.
What it writes for each word must be 1, 2, 3, ... and nothing else, though its processes and the broker are killed.
"""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from tests.interop.test_kafkas_own_tools import run, table
from tests.peers import foreign_programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
__all__ = ["run"]

WORDS = ["all", "streams", "lead"]
PARTITIONS = 4
ROUND = 100
INTERNAL = ("wc-counts-repartition", "wc-again-repartition", "wc-counts-changelog")


SETTINGS: dict[str, object] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.heartbeat.interval.ms": 200,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.initial.rebalance.delay.ms": 500,
    "group.streams.assignment.interval.ms": 200,
    "group.streams.num.standby.replicas": 1,
}


@pytest.fixture(params=[1])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(brokers=request.param, config=SETTINGS) as running:
        yield running
        assert "please report this" not in running.log_text()


class Application:
    """A process of the application; `number` is the port that it says it can be asked at."""

    def __init__(self, class_path: str, broker: Broker, number: int, directory: Path) -> None:
        self._process = subprocess.Popen(
            [
                "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path,
                "StreamsGroupApp", broker.bootstrap_servers, "wc", f"application.server=localhost:{number}",
                f"state.dir={directory}", "producer.transaction.timeout.ms=4000",
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.line(60) == "running"

    def line(self, seconds: float) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], seconds)
        assert readable, "the application says nothing"
        return self._process.stdout.readline().strip()

    def known_endpoints(self) -> str:
        """What this process knows of the others."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.line(10)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def start(broker: Broker, tmp_path: Path) -> Iterator[Callable[[int], Application]]:
    class_path = foreign_programs.streams_class_path()
    started: list[Application] = []

    def begin(number: int) -> Application:
        started.append(Application(class_path, broker, number, tmp_path / str(number)))
        return started[-1]

    yield begin
    for application in started:
        application.kill()


@pytest.fixture
def admin(broker: Broker) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as client:
        names = ("lines", "counts", "names", "joined")
        replicas = min(3, len(client.describe_cluster().nodes))
        client.create_topics([NewTopic(f"wc-{name}", PARTITIONS, replicas) for name in names])
        yield client


def send(broker: Broker, lines: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(lines):
            producer.send("wc-lines", value=" ".join(WORDS).encode(), key=str(number).encode())


def committed(broker: Broker, topic: str) -> dict[str, list[str]]:
    """What readers of committed records see, in order for each key."""
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        found: dict[str, list[str]] = {}
        deadline = time.monotonic() + 20
        while any(consumer.position(p) < ends[p] for p in partitions) and time.monotonic() < deadline:
            for record in consumer.poll(timeout=0.5):
                found.setdefault(record.key.decode(), []).append(record.value.decode())
        return found


def wait_for(what: Callable[[], object], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.5)


def counted(broker: Broker, topic: str) -> int:
    return sum(map(len, committed(broker, topic).values()))


def group_of(admin: AdminClient) -> Any:
    return admin.describe_streams_groups(["wc"])["wc"]


def is_whole(admin: AdminClient, processes: int) -> bool:
    group = group_of(admin)
    active = [task for member in group.members for task in member.assignment.active]
    copies = [task for member in group.members for task in member.assignment.standby]
    is_copied = processes == 1 or len(copies) == 2 * PARTITIONS
    return group.state == "Stable" and len(set(active)) == len(active) == 3 * PARTITIONS and is_copied


def test_words_are_counted_exactly_once_though_members_and_broker_are_killed(
    broker: Broker, admin: AdminClient, start: Callable[[int], Application]
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for word in WORDS:
            producer.send("wc-names", key=word.encode(), value=word.upper().encode())
    send(broker, ROUND)
    first = start(1001)
    second = start(1002)
    wait_for(lambda: is_whole(admin, 2))
    processes = {member.process_id for member in group_of(admin).members}
    assert (len(processes), len(group_of(admin).members)) == (2, 4)
    for member in group_of(admin).members:
        others = [one for one in group_of(admin).members if one.process_id == member.process_id]
        held = [task for one in others for task in (*one.assignment.active, *one.assignment.standby)]
        assert len(held) == len(set(held)), "no process has a task twice"
    wait_for(lambda: "port=1001" in first.known_endpoints() and "port=1002" in first.known_endpoints())
    assert all(len(admin.describe_topics([name])[name].partitions) == PARTITIONS for name in INTERNAL)

    first.kill()
    send(broker, ROUND)
    wait_for(lambda: counted(broker, "wc-counts") >= ROUND * len(WORDS) + 50)
    start(1003)
    wait_for(lambda: is_whole(admin, 2))
    broker.kill()
    broker.start()
    send(broker, ROUND)
    wait_for(lambda: counted(broker, "wc-joined") >= 3 * ROUND * len(WORDS))
    second.stop()
    wait_for(lambda: is_whole(admin, 1))

    numbers = [str(number) for number in range(1, 3 * ROUND + 1)]
    assert committed(broker, "wc-counts") == dict.fromkeys(WORDS, numbers)
    joined = committed(broker, "wc-joined")
    assert {word: [text.split("=")[1] for text in texts] for word, texts in joined.items()} == dict.fromkeys(
        WORDS, numbers
    )
    assert {text.split("=")[0] for text in joined["all"][-ROUND:]} == {"ALL"}


def test_kafkas_tool_lists_describes_resets_and_deletes(
    broker: Broker, admin: AdminClient, start: Callable[[int], Application], run: Callable[..., str]
) -> None:
    def tool(*arguments: str) -> str:
        return run("streams.StreamsGroupCommand", *arguments)

    send(broker, 10)
    application = start(1001)
    wait_for(lambda: counted(broker, "wc-counts") == 10 * len(WORDS) and is_whole(admin, 1))

    assert [row["GROUP"] for row in table(tool("--list", "--state"), "GROUP")] == ["wc"]
    assert "Stable" in tool("--describe", "--group", "wc", "--state")
    members = tool("--describe", "--group", "wc", "--members", "--verbose")
    assert members.count("streams") >= 2
    assert "ACTIVE: 0:[" in members.replace(" ", "").replace("ACTIVE:", "ACTIVE: ") or "0:[" in members
    offsets = table(tool("--describe", "--group", "wc", "--offsets"), "GROUP")
    assert sum(int(row["OFFSET-LAG"]) for row in offsets if row["TOPIC"] == "wc-lines") == 0
    application.stop()
    wait_for(lambda: group_of(admin).state == "Empty")

    moved = tool("--reset-offsets", "--group", "wc", "--input-topic", "wc-lines", "--to-earliest", "--execute")
    assert {row["NEW-OFFSET"] for row in table(moved, "GROUP") if row["TOPIC"] == "wc-lines"} == {"0"}
    offsets = admin.list_streams_group_offsets({"wc": None})["wc"]
    assert {offsets[TopicPartition("wc-lines", number)].offset for number in range(PARTITIONS)} <= {0}
    tool("--delete-offsets", "--group", "wc", "--input-topic", "wc-lines")
    assert not [p for p in admin.list_streams_group_offsets({"wc": None})["wc"] if p.topic == "wc-lines"]
    tool("--delete", "--group", "wc")
    assert "wc" not in admin.list_groups()


@pytest.mark.parametrize("broker", [3], indirect=True)
def test_the_application_goes_on_without_the_broker_that_coordinates_it(
    broker: Broker, admin: AdminClient, start: Callable[[int], Application]
) -> None:
    send(broker, ROUND)
    start(1001)
    second = start(1002)
    wait_for(lambda: counted(broker, "wc-joined") >= ROUND * len(WORDS))
    killed = group_of(admin).coordinator.id
    broker.kill(killed)
    send(broker, ROUND)
    wait_for(lambda: counted(broker, "wc-joined") >= 2 * ROUND * len(WORDS))
    assert group_of(admin).coordinator.id != killed
    broker.start(killed)
    second.kill()
    send(broker, ROUND)
    wait_for(lambda: counted(broker, "wc-joined") >= 3 * ROUND * len(WORDS))
    numbers = [str(number) for number in range(1, 3 * ROUND + 1)]
    assert committed(broker, "wc-counts") == dict.fromkeys(WORDS, numbers)
