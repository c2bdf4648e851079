"""Java clients of former releases on three brokers: `compatibility_test_new_broker_test` and its like, retold.

The oldest is 2.1, as of Apache Kafka 4 (KIP-896). The brokers are three of ours under a controller of ours, and two of
ours with one of Apache Kafka 3.9 under ZooKeeper. Minutes, so they are asked for (`-m slow`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from tests.contract.waiting import eventually
from tests.peers import apache_kafka, zookeeper
from tests.peers.apache_kafka import run_tool
from tests.peers.maven import Jars
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.zookeeper import ZooKeeperCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("old-java-clients")]

AnyCluster = MixedCluster | ZooKeeperCluster
SOON = {"reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500}
RECORDS = 600
#: Release, compression, and whose time a record has: the former ones have a bound of their own for each protocol.
RELEASES = [
    ("2.1.1", "zstd", "CreateTime"),
    ("2.2.2", "snappy", "CreateTime"),
    ("2.4.1", "lz4", "LogAppendTime"),
    ("2.8.2", "gzip", "CreateTime"),
    ("3.3.2", "none", "LogAppendTime"),
    ("3.9.1", "zstd", "CreateTime"),
]
#: Up to here they know their brokers by this option.
_BROKER_LIST_UNTIL = "2.8.2"
#: From here on a consumer may be a static member; 2.4 asks for it.
_STATIC_FROM = "2.3"


def class_path(release: str) -> str:
    """The jars of a release's verifiable clients; fetched on the first call."""
    found = Jars(f"kafka-tools-{release}", (("org.apache.kafka", "kafka-tools", release),))
    if missing := found.why_not():
        pytest.skip(missing)
    return f"{found.fetch()}/*"


def command(release: str, kind: str, servers: str, topic: str, *options: str) -> list[str]:
    brokers = "--broker-list" if release <= _BROKER_LIST_UNTIL else "--bootstrap-server"
    name = f"org.apache.kafka.tools.Verifiable{kind}"
    java = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path(release), name)
    return [*java, brokers, servers, "--topic", topic, *options]


def values(printed: str, event: str) -> list[str]:
    """What was sent, or read, as a release's client prints it."""
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [one["value"] for one in found if one["name"] == event]


def run(*arguments: Any) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def read_by(release: str, servers: str, topic: str, count: int, group: str) -> list[str]:
    """What a release's consumer reads, as one of the group that goes on where the group has committed."""
    options = ["--group-id", group, "--max-messages", str(count), "--verbose", "--reset-policy", "earliest"]
    if release >= _STATIC_FROM:
        options += ["--group-instance-id", "reader"]
    return sorted(values(run(release, "Consumer", servers, topic, *options), "record_data"))


@pytest.fixture(scope="module", params=["ours", "mixed-zookeeper"])
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    missing = zookeeper.why_not() if request.param == "mixed-zookeeper" else apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    ours = MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1) if request.param == "ours" else None
    with ours or ZooKeeperCluster(1, 2) as running:
        yield running


def create(cluster: AnyCluster, topic: str, **configs: str) -> None:
    named = {"min.insync.replicas": "2", **{name.replace("_", "."): value for name, value in configs.items()}}
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin:
        admin.create_topics([NewTopic(topic, 3, 3, configs=named)])
        eventually(lambda: is_whole(admin, topic))


def is_whole(admin: AdminClient, topic: str) -> bool:
    found = admin.describe_topics([topic], raise_errors=False)
    return topic in found and all(len(part.in_sync_replicas) == 3 for part in found[topic].partitions)


def settings_file(folder: Path, **settings: str) -> str:
    path = folder / "client.properties"
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    return str(path)


@pytest.mark.parametrize(("release", "compression", "timestamps"), RELEASES, ids=[one[0] for one in RELEASES])
def test_a_former_release_writes_and_reads_and_so_do_we(
    cluster: AnyCluster, tmp_path: Path, release: str, compression: str, timestamps: str
) -> None:
    topic, servers = f"of-{release}", cluster.bootstrap_servers
    create(cluster, topic, message_timestamp_type=timestamps)
    config = settings_file(tmp_path, compression_type=compression)
    count = ("--max-messages", str(RECORDS))
    printed = run(release, "Producer", servers, topic, *count, "--acks", "-1", "--producer.config", config)
    sent = sorted(values(printed, "producer_send_success"))
    assert sent == sorted(map(str, range(RECORDS)))

    assert read_by(release, servers, topic, RECORDS, release) == sent
    reading = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "group.id": f"ours-{release}", **SOON}
    found: list[bytes | None] = []
    with Consumer(topic, reading) as consumer:
        eventually(lambda: found.extend(one.value for one in consumer.poll(0.2)) or len(found) >= RECORDS)
    assert sorted(str(value, "ascii") for value in found if value is not None) == sent

    with Producer({"bootstrap.servers": servers, "compression.type": compression, **SOON}) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"ours %d" % number)
    assert read_by(release, servers, topic, RECORDS, release) == sorted(f"ours {number}" for number in range(RECORDS))


@pytest.mark.parametrize("release", ["2.1.1", "2.8.2"])
def test_a_former_release_rides_through_the_end_of_each_broker(
    cluster: AnyCluster, tmp_path: Path, release: str
) -> None:
    topic, servers = f"bounced-{release}", cluster.bootstrap_servers
    create(cluster, topic)
    config = settings_file(tmp_path, enable_idempotence="true", retries="2147483647")
    options = ("--throughput", "100", "--acks", "-1", "--producer.config", config)
    with (
        AdminClient({"bootstrap.servers": servers, **SOON}) as admin,
        subprocess.Popen(
            command(release, "Producer", servers, topic, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as producer,
    ):
        assert producer.stdout is not None
        printed = producer.stdout.readline()
        for number, broker in cluster.brokers.items():
            broker.stop(kill=number % 2 == 0)
            broker.start()
            eventually(lambda: is_whole(admin, topic), 90)
        producer.terminate()
        printed += producer.communicate(timeout=60)[0]
    sent = values(printed, "producer_send_success")
    assert len(sent) > 100
    assert not values(printed, "producer_send_error")
    assert read_by(release, servers, topic, len(sent), topic) == sorted(sent)


def test_apache_kafkas_own_program_finds_what_a_cluster_can_do(cluster: AnyCluster) -> None:
    """`client_compatibility_features_test`: ClientCompatibilityTest of the newest release."""
    create(cluster, "features")
    can = (
        "create-topics", "offsets-for-times", "describe-acls", "describe-configs", "idempotent-producer",
    )  # fmt: skip
    options = [part for name in can for part in (f"--{name}-supported", "true")]
    options += ["--cluster-id-supported", "true", "--expect-record-too-large-exception", "false"]
    server = ("--bootstrap-server", cluster.bootstrap_servers, "--num-cluster-nodes", "3", "--topic", "features")
    done = run_tool("org.apache.kafka.tools.ClientCompatibilityTest", *server, *options, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
