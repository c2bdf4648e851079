"""Machines that die without a word, each in a network namespace: what the system tells of them, and what brokers do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, Producer
from barnabas.broker.kraft.port_probe import PortState, probe_port
from barnabas.broker.network.lifeline_connections import LifelineConnections
from barnabas.broker.silent_machines import Silence
from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, Life
from tests.peers import namespaces, zookeeper
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.namespaces import Machines

pytestmark = pytest.mark.skipif(namespaces.why_not() is not None, reason=str(namespaces.why_not()))

SESSION = 6.0
_SERVER = "import socket, time; held = socket.create_server(('', {port})); print(flush=True); time.sleep(600)"
_CLIENT = {
    "request.timeout.ms": 1000,
    "socket.connection.setup.timeout.ms": 1000,
    "socket.connection.setup.timeout.max.ms": 1000,
    "retry.backoff.max.ms": 100,
}


class Server:
    """A process on a machine of its own that listens and does no more."""

    port = 9092
    host, bootstrap_servers = "", ""
    prefix: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    @contextmanager
    def running(self) -> Iterator[int]:
        """Run it, and give its id when it listens."""
        command = [*self.prefix, sys.executable, "-c", _SERVER.format(port=self.port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                yield process.pid
            finally:
                process.kill()


@pytest.fixture
def server() -> Iterator[tuple[Machines, Server, int]]:
    with Machines() as machines:
        found = Server()
        machines.place([found])
        with found.running() as pid:
            yield machines, found, pid


def test_a_port_of_a_machine_that_is_gone_is_silent_and_one_of_a_paused_process_is_open(
    server: tuple[Machines, Server, int],
) -> None:
    machines, found, pid = server
    os.kill(pid, signal.SIGSTOP)
    assert asyncio.run(probe_port(found.host, found.port, 0.5)) == PortState(is_open=True, is_refused=False)
    assert asyncio.run(probe_port(found.host, 9, 0.5)) == PortState(is_open=False, is_refused=True)
    machines.cut(found)
    silent = PortState(is_open=False, is_refused=False, is_silent=True)
    assert asyncio.run(probe_port(found.host, found.port, 0.5)) == silent


def test_a_connection_to_a_machine_that_is_gone_is_given_up_and_one_to_a_paused_process_is_not(
    server: tuple[Machines, Server, int],
) -> None:
    machines, found, pid = server
    told: list[tuple[str, float]] = []

    class Lines:
        silence = Silence(longest=1.5, patience=0.5)
        connect: Any = None
        drop: Any = None

        def __getattr__(self, name: str) -> Any:
            return lambda attempt, now, **kinds: told.append((name, time.monotonic()))

    async def play() -> float:
        lines = Lines()
        connections = LifelineConnections(lines, lambda: None)  # type: ignore[arg-type]
        lines.connect(Attempt(Life(1, 1, found.host, found.port), 1))
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(4)
        assert [name for name, _ in told] == ["opened"]
        machines.cut(found)
        began = time.monotonic()
        while len(told) < 2:
            await asyncio.sleep(0.05)
        connections.close()
        return told[1][1] - began

    took = asyncio.run(asyncio.wait_for(play(), 60))
    assert told[1][0] == "silent"
    assert took >= 0.4, "the last sign of life was a second ago at most"


class TornError(Exception):
    """The run ends here."""


@pytest.mark.parametrize("is_after", [False, True])
def test_a_run_that_is_torn_at_any_command_leaves_no_machine_behind(
    is_after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, left, is_torn = namespaces._ip, 0, True

    def torn(*arguments: str) -> None:
        nonlocal left, is_torn
        left -= 1
        is_torn = left <= 0
        if left > 0 or is_after:
            make(*arguments)
        if is_torn:
            raise TornError

    monkeypatch.setattr(namespaces, "_ip", torn)
    commands = 0
    while is_torn:
        commands += 1
        left = commands
        with suppress(TornError), Machines() as machines:
            machines.place([Server(), Server()])
        assert namespaces.left_by(os.getpid()) == ([], [])
    assert commands > 10


_RUN = """
import subprocess, sys, time
from benchmarks._failover import end_in_order_when_told
from tests.contract.test_silent_machines import Server
from tests.peers.namespaces import Machines

end_in_order_when_told()
with Machines() as machines:
    server = Server()
    machines.place([server])
    with server.running() as pid:
        print(pid, flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda by: by.name)
def test_what_a_run_that_was_ended_has_made_is_removed_by_itself_or_by_the_next(by: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _RUN], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        server = int(run.stdout.readline())
        run.send_signal(by)
        run.wait(60)
    if by == signal.SIGKILL:
        made, _ = namespaces.left_by(run.pid)
        assert len(made) == 1
        with Machines():
            pass
    assert namespaces.left_by(run.pid) == ([], [])
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{server}/exe") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{server}/exe"), "what ran there has ended, too"


def test_what_a_run_has_made_that_goes_on_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", _RUN], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        with Machines():
            pass
        assert len(namespaces.left_by(run.pid)[0]) == 1
        run.terminate()


def _die(machines: Machines, cluster: Any, number: int) -> None:
    machines.cut(cluster.brokers[number])
    cluster.brokers[number].stop(kill=True)


def _play(machines: Machines, cluster: Any, number: int, replicas: list[int]) -> float:
    """Have a broker's machine die; returns how long it takes until a record is acknowledged by the others."""
    client = {"bootstrap.servers": cluster.bootstrap_servers, **_CLIENT}
    with AdminClient(client) as admin, Producer({**client, "acks": "all"}) as producer:
        admin.create_topics([NewTopic("flights", replica_assignments={0: replicas})], timeout=60)
        while len(admin.describe_topics(["flights"])["flights"].partitions[0].in_sync_replicas) < 3:
            time.sleep(0.2)
        producer.send("flights", b"before").result(60)
        time.sleep(2)
        began = time.monotonic()
        _die(machines, cluster, number)
        producer.send("flights", b"after").result(120)
        return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_machine_that_dies_under_a_quorum_is_given_up_before_its_session_ends(who: str) -> None:
    settings = {"broker.session.timeout.ms": str(int(SESSION * 1000)), "broker.heartbeat.interval.ms": "2000"}
    cluster = MixedCluster(0, 3, 0, settings={**settings, "replica.lag.time.max.ms": "30000"}, our_controllers=1)
    with Machines() as machines:
        machines.place([*cluster.controllers.values(), *cluster.brokers.values()])
        with cluster:
            took = _play(machines, cluster, 1, [1, 2, 3] if who == "leader" else [2, 1, 3])
            (controller,) = cluster.controllers.values()
            assert "broker 1 of epoch" in controller.log  # type: ignore[union-attr]
            assert "is silent" in controller.log  # type: ignore[union-attr]
    assert took < SESSION


@pytest.mark.slow
@pytest.mark.skipif(zookeeper.why_not() is not None, reason=str(zookeeper.why_not()))
@pytest.mark.parametrize("who", ["leader", "follower", "controller"])
def test_a_machine_that_dies_under_zookeeper_is_given_up_before_its_session_ends(who: str) -> None:
    settings = {"zookeeper.session.timeout.ms": str(int(SESSION * 1000)), "replica.lag.time.max.ms": "30000"}
    cluster = zookeeper.ZooKeeperCluster(0, 3, settings)
    with Machines() as machines:
        machines.place(cluster.brokers.values(), outside=[cluster.zookeeper.port])
        with cluster:
            controller = cluster.controller
            assert controller is not None
            first, second = (number for number in cluster.brokers if number != controller)
            dying = controller if who == "controller" else first
            replicas = [second, first, controller] if who == "follower" else [dying, second]
            took = _play(machines, cluster, dying, [*replicas, *(cluster.brokers.keys() - set(replicas))])
            logs = "".join(cluster.brokers[one].log for one in cluster.brokers if one != dying)  # type: ignore[union-attr]
            assert f"broker {dying} is silent" in logs
    assert took < SESSION
