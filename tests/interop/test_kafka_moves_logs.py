"""kafka-reassign-partitions brings logs from one directory of a broker of ours to another one (KIP-113)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas import AdminClient, Broker, Producer
from barnabas.admin import ReplicaLogDirInfo, TopicPartitionReplica
from tests.contract.waiting import create_once, eventually
from tests.peers.java_tools import JavaTools

pytestmark = pytest.mark.timeout(300)

TOPIC = "flights"


def test_a_plan_with_directories_is_executed_verified_and_cancelled(java: JavaTools, tmp_path: Path) -> None:
    first, second, plan = f"{tmp_path}/one", f"{tmp_path}/two", tmp_path / "plan.json"

    def reassign(action: str, *options: str) -> str:
        server = ("--bootstrap-server", broker.bootstrap_servers)
        arguments = (f"--{action}", "--reassignment-json-file", str(plan), *options, *server)
        done = java.run("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *arguments)
        assert done.code == 0, done.out[-2000:] + done.err[-2000:]
        return done.out

    def place() -> ReplicaLogDirInfo:
        (found,) = admin.describe_replica_log_dirs([replica]).values()
        return found

    with (
        Broker(data_dir=f"{first},{second}") as broker,
        AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        create_once(admin, TOPIC, 1, 1)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(10):
                producer.send(TOPIC, bytes(100_000))
        replica = TopicPartitionReplica(TOPIC, 0, admin.describe_cluster().nodes[0].id)
        before = place()
        there = second if before.current_log_dir == first else first
        entry = {"topic": TOPIC, "partition": 0, "replicas": [replica.broker_id], "log_dirs": [there]}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))

        assert "is not being moved from log dir" in reassign("verify")
        # Slow enough to be looked at, and to be cancelled.
        assert "Successfully started moving" in reassign("execute", "--replica-alter-log-dirs-throttle", "1000")
        assert "is still in progress" in reassign("verify")
        assert place().future_log_dir == there
        reassign("cancel")
        eventually(lambda: place() == before)
        assert "Successfully started moving" in reassign("execute", "--replica-alter-log-dirs-throttle", "100000000")
        eventually(lambda: "completed successfully" in reassign("verify").partition("Reassignment of replica")[2], 60)
        assert place() == ReplicaLogDirInfo(there, 0)
