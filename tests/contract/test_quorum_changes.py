"""A quorum of ours whose voters come and go (KIP-853), by the commands that an operator types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.node_process import NodeProcess
from barnabas.cli.main import main
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import free_port, run_tool

_CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMQ"


class _Controller:
    """One controller: its file, its directory and its process."""

    def __init__(self, folder: Path, node_id: int, port: int, servers: str, voters: str | None = None) -> None:
        self.id, self.port = node_id, port
        self.data = folder / f"controller-{node_id}"
        self.file = folder / f"controller-{node_id}.properties"
        settings = {
            "process.roles": "controller",
            "node.id": node_id,
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": self.data,
        }
        if voters is not None:
            del settings["controller.quorum.bootstrap.servers"]
            settings["controller.quorum.voters"] = voters
        self.file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def format(self, *options: str) -> None:
        assert main(["format", "-c", str(self.file), "-t", _CLUSTER_ID, *options]) == 0

    def start(self) -> NodeProcess:
        process = NodeProcess(["--config", str(self.file)])
        process.wait_until_ready()
        return process

    @property
    def directory_id(self) -> str:
        lines = (self.data / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))


def _ours(action: str, servers: str, node: _Controller) -> int:
    endpoint = ["--endpoint", f"CONTROLLER://127.0.0.1:{node.port}"] if action == "add-controller" else []
    of_node = ["--id", str(node.id), "--directory-id", node.directory_id]
    return main(["cluster", action, *of_node, *endpoint, "-X", f"bootstrap.controllers={servers}"])


def _kafkas(action: str, servers: str, node: _Controller) -> int:
    """It reads who joins, and where that listens, from the file and the directory of the node."""
    tool = ("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-controller", servers)
    if action == "add-controller":
        return run_tool(*tool, "--command-config", str(node.file), action).returncode
    of_node = ("--controller-id", str(node.id), "--controller-directory-id", node.directory_id)
    return run_tool(*tool, action, *of_node).returncode


_NEEDS_JAVA = (
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not())),
)


@pytest.mark.parametrize("tool", [_ours, pytest.param(_kafkas, marks=_NEEDS_JAVA)])
def test_a_controller_joins_votes_leads_and_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: Callable[[str, str, _Controller], int]
) -> None:
    ports = [free_port(), free_port()]
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    first, second = (_Controller(tmp_path, 100 + number, port, servers) for number, port in enumerate(ports))
    first.format("--standalone")
    second.format("--no-initial-controllers")
    where = ["-X", f"bootstrap.controllers={servers}"]

    def quorum() -> dict[str, list[int]]:
        capsys.readouterr()
        assert main(["cluster", "quorum", "-o", "json", *where]) == 0
        found: dict[str, list[int]] = {}
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        for row in rows:
            found.setdefault(row["role"], []).append(row["node"])
        return found

    processes = [first.start()]
    try:
        eventually(lambda: quorum() == {"leader": [100]})
        processes.append(second.start())
        eventually(lambda: quorum() == {"leader": [100], "observer": [101]})
        # On a loaded machine it may be refused at first: it has not fetched all of the log then.
        eventually(lambda: tool("add-controller", servers, second) == 0)
        assert quorum() == {"leader": [100], "voter": [101]}
        # The one that led is taken out, and leads no more.
        assert tool("remove-controller", servers, first) == 0
        eventually(lambda: quorum().get("leader") == [101], 30)
        processes.pop(0).stop()
        assert quorum()["leader"] == [101]
        assert tool("remove-controller", servers, first) == 1
    finally:
        for process in processes:
            process.kill()


def test_a_quorum_with_a_fixed_list_of_voters_becomes_one_that_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = [free_port(), free_port()]
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    first = _Controller(tmp_path, 100, ports[0], servers, voters=f"100@127.0.0.1:{ports[0]}")
    second = _Controller(tmp_path, 101, ports[1], servers)
    first.format()
    second.format("--no-initial-controllers")
    where = ["-X", f"bootstrap.controllers={servers}"]
    of_second = ["--id", "101", "--directory-id", second.directory_id]
    add = ["cluster", "add-controller", *of_second, "--endpoint", f"CONTROLLER://127.0.0.1:{second.port}", *where]
    processes = [first.start(), second.start()]
    try:
        eventually(lambda: main(["cluster", "quorum", *where]) == 0)
        assert main(add) == 1
        assert "kraft.version" in capsys.readouterr().err
        assert main(["feature", "set", "kraft.version=1", "--dry-run", *where]) == 0
        assert main(["feature", "set", "kraft.version=1", *where]) == 0
        assert main(["feature", "set", "kraft.version=0", "--downgrade", *where]) == 1
        eventually(lambda: main(add) == 0)
        # The file still names the first voter alone: what the log says counts.
        processes.pop(0).stop()
        processes.append(first.start())

        def voters() -> set[int]:
            capsys.readouterr()
            if main(["cluster", "quorum", "-o", "json", *where]) != 0:
                return set()
            found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
            return {row["node"] for row in found if row["role"] in ("leader", "voter")}

        eventually(lambda: voters() == {100, 101})
    finally:
        for process in processes:
            process.kill()
