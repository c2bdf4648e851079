"""Java's Kafka Streams with `group.protocol=streams` through TLS and a login, with the rights that ACLs give it.

On our broker and on Apache Kafka: without the right to create topics the group waits for its internal topics, with it
the words are counted exactly once, though a process is killed; the group is no business of who has no right to it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from barnabas.admin import AclBinding, AclOperation, PatternType, ResourceType
from barnabas.errors import GroupAuthorizationError
from tests.peers import foreign_programs
from tests.peers.apache_kafka import ApacheKafka, free_port
from tests.peers.secure_kafka import Certificates
from tests.support.secured_broker import secured_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

WORDS = ["all", "streams", "lead"]
LINES, PARTITIONS = 50, 2
USERS = {"alice": "secret-of-alice", "mallory": "secret-of-mallory"}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: What an application needs beside the right to create its internal topics; all names begin with its id.
RIGHTS = {
    ResourceType.GROUP: (AclOperation.READ,),
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
}


class Secured(NamedTuple):
    """`inner` is for those who may do everything, `outer` wants TLS and a login."""

    inner: str
    outer: str
    certificates: Certificates

    def login(self, user: str) -> dict[str, str]:
        """Kafka's settings for a client."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_PLAIN} username="{user}" password="{USERS[user]}";',
        }


def settings_of(certificates: Certificates) -> dict[str, str]:
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTER:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.outer.plain.sasl.jaas.config": f"{_PLAIN} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.streams.min.session.timeout.ms": "1000",
        "group.streams.session.timeout.ms": "6000",
        "group.streams.min.heartbeat.interval.ms": "100",
        "group.streams.heartbeat.interval.ms": "500",
    }


@contextmanager
def ours(folder: Path) -> Iterator[Secured]:
    certificates = Certificates.make(folder)
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1,OUTER://localhost:0",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
    }
    with secured_broker(folder / "broker", {**settings_of(certificates), **listeners}) as broker:
        yield Secured(broker.servers["PLAINTEXT"], broker.servers["OUTER"], certificates)
        assert "please report this" not in broker.log


@contextmanager
def apache(folder: Path) -> Iterator[Secured]:
    certificates, port = Certificates.make(folder), free_port()
    kafka = ApacheKafka(settings_of(certificates), heap="512m")
    inner, outer = f"PLAINTEXT://127.0.0.1:{kafka.port}", f"OUTER://localhost:{port}"
    kafka.settings["listeners"] = f"{inner},CONTROLLER://127.0.0.1:{kafka.controller_port},{outer}"
    kafka.settings["advertised.listeners"] = f"{inner},{outer}"
    with kafka:
        yield Secured(kafka.bootstrap_servers, f"localhost:{port}", certificates)


@pytest.fixture(params=[ours, apache], ids=["barnabas", "apache"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    with request.param(tmp_path) as running:
        yield running


@pytest.fixture
def admin(secured: Secured) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=secured.inner) as client:
        client.create_topics([NewTopic(f"wc-{name}", PARTITIONS, 1) for name in ("lines", "counts", "names", "joined")])
        yield client


@pytest.fixture
def start(secured: Secured, tmp_path: Path) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    class_path = foreign_programs.streams_class_path()
    started: list[subprocess.Popen[str]] = []

    def begin(number: int) -> subprocess.Popen[str]:
        settings = {**secured.login("alice"), "state.dir": str(tmp_path / str(number))}
        command = [
            "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path,
            "StreamsGroupApp", secured.outer, "wc", *(f"{name}={value}" for name, value in settings.items()),
        ]  # fmt: skip
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def allow(admin: AdminClient, resource: ResourceType, *operations: AclOperation) -> None:
    admin.create_acls(
        AclBinding(resource, "wc", "User:alice", operation, pattern_type=PatternType.PREFIXED)
        for operation in operations
    )


def send_lines(secured: Secured) -> None:
    with Producer(bootstrap_servers=secured.inner) as producer:
        for number in range(LINES):
            producer.send("wc-lines", value=" ".join(WORDS).encode(), key=str(number).encode())


def committed(secured: Secured) -> dict[str, list[str]]:
    """The counts that readers of committed records see, in order for each word."""
    partitions = [TopicPartition("wc-counts", number) for number in range(PARTITIONS)]
    found: dict[str, list[str]] = {}
    with Consumer(bootstrap_servers=secured.inner, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in consumer.poll(timeout=0.5):
                found.setdefault(record.key.decode(), []).append(record.value.decode())
    return found


def wait_for(what: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.5)


def counted_to(secured: Secured, number: int) -> bool:
    counts = [str(count) for count in range(1, number + 1)]
    return committed(secured) == dict.fromkeys(WORDS, counts)


def test_an_application_does_what_its_rights_allow(
    secured: Secured, admin: AdminClient, start: Callable[[int], subprocess.Popen[str]]
) -> None:
    for resource, operations in RIGHTS.items():
        allow(admin, resource, *operations)
    send_lines(secured)
    first = start(1)
    wait_for(lambda: "wc" in admin.list_groups() and admin.describe_streams_groups(["wc"])["wc"].state == "NotReady")
    time.sleep(3)
    assert not [name for name in admin.list_topics() if name.startswith("wc-") and "-counts-" in name]

    allow(admin, ResourceType.TOPIC, AclOperation.CREATE)
    wait_for(lambda: counted_to(secured, LINES))
    start(2)
    wait_for(lambda: len(admin.describe_streams_groups(["wc"])["wc"].members) == 4)
    first.kill()
    send_lines(secured)
    wait_for(lambda: counted_to(secured, 2 * LINES))

    with (
        AdminClient({"bootstrap.servers": secured.outer, **ours_of(secured, "mallory")}) as stranger,
        pytest.raises(GroupAuthorizationError),
    ):
        stranger.describe_streams_groups(["wc"])


def ours_of(secured: Secured, user: str) -> dict[str, str]:
    """The login as our clients are told it."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.certificates.authority),
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }
