"""`barnabas topic reassign` with directories in its plan, on a broker that has two: ours, and Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas import AdminClient, Broker, Consumer, Producer, TopicPartition
from barnabas.admin import ConfigResource, ReplicaLogDirInfo, TopicPartitionReplica
from barnabas.cli.main import main
from tests.contract.waiting import create_once, eventually
from tests.peers import apache_kafka

pytestmark = [pytest.mark.timeout(180)]

TOPIC, RECORDS = "flights", 20
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Disks(NamedTuple):
    """A broker, its id, and its two directories."""

    bootstrap_servers: str
    broker_id: int
    first: str
    second: str

    def places(self, admin: AdminClient) -> dict[int, ReplicaLogDirInfo]:
        replicas = [TopicPartitionReplica(TOPIC, number, self.broker_id) for number in (0, 1)]
        return {replica.partition: place for replica, place in admin.describe_replica_log_dirs(replicas).items()}

    def is_throttled(self, admin: AdminClient) -> bool:
        broker = ConfigResource.broker(self.broker_id)
        found = admin.describe_configs([broker])[broker].get(RATE)
        return found is not None and found.value == "1000"


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def disks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    folder = tmp_path_factory.mktemp("disks")
    first, second = f"{folder}/one", f"{folder}/two"
    if request.param == "barnabas":
        with Broker(data_dir=f"{first},{second}") as broker:
            yield Disks(broker.bootstrap_servers, _only_broker(broker.bootstrap_servers), first, second)
        return
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with apache_kafka.ApacheKafka({"log.dirs": f"{first},{second}"}) as kafka:
        yield Disks(kafka.bootstrap_servers, _only_broker(kafka.bootstrap_servers), first, second)


def _only_broker(bootstrap_servers: str) -> int:
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        return admin.describe_cluster().nodes[0].id


def test_logs_are_moved_throttled_cancelled_and_moved_back(
    disks: Disks, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def reassign(action: str, *arguments: str, code: int | None = 0) -> tuple[str, str]:
        capsys.readouterr()
        said = main(["topic", "reassign", action, *arguments, "-b", disks.bootstrap_servers])
        found = capsys.readouterr()
        assert code in (said, None), found
        return found.out, found.err

    def states(*arguments: str, code: int | None = 0) -> list[str]:
        out, _ = reassign("status", "--file", str(plan), "-o", "json", *arguments, code=code)
        return [row["state"] for row in json.loads(out)]

    settings = {"bootstrap.servers": disks.bootstrap_servers}
    plan, way_back = tmp_path / "plan.json", tmp_path / "way-back.json"
    with AdminClient(settings) as admin, Producer(settings) as producer:
        create_once(admin, TOPIC, 2, 1)
        for number in range(RECORDS):
            producer.send(TOPIC, bytes(100_000), partition=number % 2).result(30)
        before = disks.places(admin)
        here = before[0].current_log_dir
        there = disks.second if here == disks.first else disks.first
        entries = [
            {"topic": TOPIC, "partition": 0, "replicas": [disks.broker_id], "log_dirs": [there]},
            {"topic": TOPIC, "partition": 1, "replicas": [disks.broker_id], "log_dirs": ["any"]},
        ]
        plan.write_text(json.dumps({"version": 1, "partitions": entries}))
        assert states(code=1) == ["elsewhere", "done"]

        # Slow enough to be looked at, and to be cancelled.
        throttled = ("execute", "--file", str(plan), "--replica-alter-log-dirs-throttle")
        out, err = reassign(*throttled, "1000")
        way_back.write_text(out)
        assert json.loads(out)["partitions"][0]["log_dirs"] == [here]
        assert "the copies are throttled" in err
        eventually(lambda: disks.is_throttled(admin))
        assert states() == ["moving", "done"]
        assert disks.is_throttled(admin)
        out, err = reassign("cancel", "--file", str(plan), "-o", "json")
        assert [(row["partition"], row["state"]) for row in json.loads(out)] == [(0, "cancelled")]
        assert "the throttle is removed" in err
        eventually(lambda: disks.places(admin) == before)
        eventually(lambda: not disks.is_throttled(admin))
        assert "none of them is being moved" in reassign("cancel", "--file", str(plan))[1]

        reassign(*throttled, "100000000")
        producer.send(TOPIC, b"meanwhile", partition=0).result(30)
        # Apache Kafka tells of no copy for a moment, when it takes the place of the other.
        eventually(lambda: states(code=None) == ["done", "done"])
        assert disks.places(admin)[0] == ReplicaLogDirInfo(there, 0)
        assert disks.places(admin)[1] == before[1]

        reassign("execute", "--file", str(way_back))
        eventually(lambda: disks.places(admin)[0].current_log_dir == here)
    _check_records(disks)


def _check_records(disks: Disks) -> None:
    found: list[bytes | None] = []
    with Consumer(bootstrap_servers=disks.bootstrap_servers) as consumer:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        eventually(lambda: found.extend(record.value for record in consumer.poll(0.2)) or len(found) > RECORDS // 2)
    assert found == [*[bytes(100_000)] * (RECORDS // 2), b"meanwhile"]


def test_a_directory_that_the_broker_does_not_have_is_refused(
    disks: Disks, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with AdminClient(bootstrap_servers=disks.bootstrap_servers) as admin:
        create_once(admin, TOPIC, 2, 1)
    plan = tmp_path / "plan.json"
    entry = {"topic": TOPIC, "partition": 0, "replicas": [disks.broker_id], "log_dirs": [str(tmp_path)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    assert main(["topic", "reassign", "execute", "--file", str(plan), "-b", disks.bootstrap_servers]) == 1
    said = f"flights-0-{disks.broker_id}: The broker has no such log directory. (asked for {tmp_path})"
    assert said in capsys.readouterr().err
