"""`barnabas up --add-scram` on nodes of a cluster: users are made where a controller's directory is formatted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas import AdminClient
from barnabas.broker.node_process import NodeProcess
from tests.contract.waiting import eventually
from tests.peers.apache_kafka import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ALICE = "SCRAM-SHA-256=[name=alice,password=hunter2]"


class Cluster:
    """The files of a controller and of a broker beside it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        common = f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:{port}\n"
        self.files = {}
        for node, (role, listener) in {100: ("controller", f"CONTROLLER://127.0.0.1:{port}"),
                                       1: ("broker", "PLAINTEXT://127.0.0.1:0")}.items():  # fmt: skip
            self.files[role] = folder / f"{role}.properties"
            own = f"process.roles={role}\nnode.id={node}\nlisteners={listener}\nlog.dirs={folder / role}\n"
            self.files[role].write_text(common + own)

    def node(self, role: str, *options: str) -> NodeProcess:
        return NodeProcess(["--config", str(self.files[role]), *options])


def test_a_controller_makes_them_once_and_its_broker_makes_none(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    running: list[NodeProcess] = []

    def start(role: str, *options: str) -> NodeProcess:
        running.append(cluster.node(role, *options))
        running[-1].wait_until_ready()
        return running[-1]

    try:
        controller = start("controller", "--add-scram", ALICE)
        assert "left aside" not in controller.log_text()
        broker = start("broker")
        with AdminClient(bootstrap_servers=broker.address) as admin:
            eventually(lambda: list(admin.describe_user_scram_credentials()) == ["alice"])

        command = [sys.executable, "-m", "barnabas.cli.main", "up", "--config", str(cluster.files["broker"])]
        refused = subprocess.run(
            [*command, "--data", str(tmp_path / "other"), "--add-scram", ALICE],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert refused.returncode == 1
        assert "`barnabas format --add-scram`" in refused.stderr
        assert "hunter2" not in refused.stderr

        controller.stop()
        again = start("controller", "--add-scram", "SCRAM-SHA-256=[name=eve,password=hunter2]")
        assert "left aside" in again.log_text()
        with AdminClient(bootstrap_servers=broker.address) as admin:
            eventually(lambda: list(admin.describe_user_scram_credentials()) == ["alice"])
    finally:
        for process in running:
            process.kill()
