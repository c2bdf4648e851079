"""A cluster of Apache Kafka's brokers and ours, under controllers of Apache Kafka's and ours (KRaft)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.testing.fault_proxy import FaultProxy
from tests.peers.apache_kafka import ApacheKafka, free_port
from tests.support.node_folders import make_folder, remove_folder

#: Three copies of everything, one may be missing; a dead broker is given up after 3 s, not 9.
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
}
FIRST_CONTROLLER = 100


CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMQ"
_COMMAND = (sys.executable, "-m", "barnabas.cli.main")


class BarnabasBroker:
    """One of our nodes, as a process, with the methods of `ApacheKafka`; a controller is formatted at first."""

    def __init__(self, format_options: Sequence[str] = ()) -> None:
        self._format_options = format_options
        self.port = free_port()
        self.folder = make_folder("barnabas-member-")
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        #: Where it is reached, and what its command begins with (see `namespaces`).
        self.host, self.prefix = "127.0.0.1", tuple[str, ...]()
        self.settings: dict[str, str] = {}
        self._began = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._process is not None

    @property
    def log(self) -> str:
        """What it wrote, on both of its streams, in all of its lives."""
        return (self.folder / "barnabas.log").read_text(encoding="utf-8", errors="replace")

    @property
    def data(self) -> Path:
        """The directory with its logs."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The broker's process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Run, and return when clients are sent there."""
        self.launch()
        return self.wait_until_open()

    def launch(self) -> None:
        """Run."""
        properties = self.folder / "server.properties"
        own = {"listeners": f"PLAINTEXT://{self.host}:{self.port}", "log.dirs": str(self.data)}
        lines = [f"{name}={value}\n" for name, value in {**own, **self.settings}.items()]
        properties.write_text("".join(lines), encoding="utf-8")
        if "controller" in self.settings.get("process.roles", "") and not self.data.exists():
            subprocess.run(
                [*_COMMAND, "format", "-t", CLUSTER_ID, "-c", str(properties), *self._format_options], check=True
            )
        with (self.folder / "barnabas.log").open("ab") as log:
            self._began = log.tell()
            command = [*self.prefix, *_COMMAND, "up", "--config", str(properties)]
            # On a machine of its own nobody else is there.
            command += ["--allow-remote"] if self.prefix else []
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_until_open(self) -> Self:
        """Return when it says that it listens."""
        deadline = time.monotonic() + 60
        while b"listening on" not in (self.folder / "barnabas.log").read_bytes()[self._began :]:
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"barnabas did not start: {self.log[-3000:]}")
            time.sleep(0.02)
        return self

    def stop(self, *, kill: bool = False) -> None:
        """End the process, by SIGKILL when asked, and keep the data."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(120)
            self._process = None

    def pause(self) -> None:
        """Stop the process in the middle of what it does."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a paused process go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


class Replacements:
    """Brokers of ours in the place of brokers of Apache Kafka: with their id, their address and their data."""

    def __init__(self, theirs: Mapping[int, ApacheKafka]) -> None:
        self._theirs = theirs
        self._made: list[BarnabasBroker] = []
        self._in_place: dict[int, BarnabasBroker] = {}

    def replace(self, number: int, settings: Mapping[str, str] | None = None) -> BarnabasBroker:
        """Stop a broker of theirs, and run one of ours in its place, with these settings more."""
        theirs, ours = self._theirs[number], BarnabasBroker()
        theirs.stop()
        ours.port, ours.bootstrap_servers = theirs.port, theirs.bootstrap_servers
        ours.settings.update({**theirs.settings, **(settings or {}), "log.dirs": str(theirs.folder / "data")})
        self._made.append(ours)
        self._in_place[number] = ours
        return ours.start()

    def end(self, number: int) -> None:
        """Stop our broker."""
        self._in_place.pop(number).stop()

    def give_back(self, number: int) -> None:
        """Stop our broker, and run theirs again."""
        self.end(number)
        self._theirs[number].start()

    def close(self, *, failed: bool) -> None:
        """Kill what still runs, and remove what it wrote for itself."""
        for ours in self._made:
            ours.stop(kill=True)
            remove_folder(ours.folder, failed=failed)


class MixedCluster:
    """Brokers 1, 2, ... of Apache Kafka, then ours, in racks rack-1, rack-2, ...; a context manager.

    `inner` names a listener that every broker has beside PLAINTEXT, for the other brokers; what it is secured by is in
    `settings`. With `can_be_cut` the way of all others to a broker leads through one of `proxies`. `format_options` go
    to the tool that formats the controllers' storage. Controllers are 100, 101, ...: first those of Apache Kafka's,
    then `our_controllers`.
    """

    #: Of each of Apache Kafka's brokers; one with thousands of partitions needs more.
    broker_heap = "256m"

    def __init__(
        self,
        theirs: int = 2,
        ours: int = 1,
        controllers: int = 1,
        settings: Mapping[str, str] | None = None,
        *,
        inner: str | None = None,
        can_be_cut: bool = False,
        format_options: Sequence[str] = (),
        our_controllers: int = 0,
    ) -> None:
        last = FIRST_CONTROLLER + controllers
        java = range(FIRST_CONTROLLER, last)
        self.controllers: dict[int, ApacheKafka | BarnabasBroker] = {
            **{number: ApacheKafka(heap="192m", format_options=format_options) for number in java},
            **{number: BarnabasBroker(format_options) for number in range(last, last + our_controllers)},
        }
        self.theirs = {number: ApacheKafka(heap=self.broker_heap) for number in range(1, theirs + 1)}
        self.ours = {number: BarnabasBroker() for number in range(theirs + 1, theirs + ours + 1)}
        self.proxies: dict[int, FaultProxy] = {}
        self.replacements = Replacements(self.theirs)
        self.brokers: dict[int, ApacheKafka | BarnabasBroker] = {**self.theirs, **self.ours}
        for node in self.controllers.values():
            # The port that is waited for; a controller has no other.
            node.port = node.controller_port if isinstance(node, ApacheKafka) else node.port
        voters = ",".join(f"{number}@localhost:{node.port}" for number, node in self.controllers.items())
        common = {**_SETTINGS, **(settings or {}), "controller.quorum.voters": voters}
        for number, node in self.controllers.items():
            listener = f"CONTROLLER://localhost:{node.port}"
            own = {"process.roles": "controller", "node.id": str(number), "listeners": listener}
            node.settings.update({**common, **own})
        for number, broker in self.brokers.items():
            own = {"process.roles": "broker", "node.id": str(number), "broker.rack": f"rack-{number}"}
            listeners = f"PLAINTEXT://127.0.0.1:{broker.port}"
            if inner is not None:
                port = free_port()
                own["inter.broker.listener.name"] = inner
                if can_be_cut:
                    self.proxies[number] = FaultProxy(f"localhost:{port}", host="localhost")
                    own["advertised.listeners"] = f"{listeners},{inner}://{self.proxies[number].address}"
                listeners += f",{inner}://localhost:{port}"
            broker.settings.update({**common, **own, "listeners": listeners})

    @property
    def bootstrap_servers(self) -> str:
        """All brokers' addresses, whether they run or not."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> Self:
        nodes = [*self.controllers.values(), *self.theirs.values()]
        with ExitStack() as stack:
            stack.push(self)
            with ThreadPoolExecutor(len(nodes)) as threads:
                list(threads.map(lambda node: node.start(), nodes))
            for broker in self.ours.values():
                broker.start()
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        self.replacements.close(failed=kind is not None)
        for node in [*self.brokers.values(), *self.controllers.values()]:
            node.stop(kill=True)
            remove_folder(node.folder, failed=kind is not None)

    def data_of(self, number: int) -> Path:
        """The directory with a broker's logs."""
        return self.brokers[number].folder / "data"
