"""A real ZooKeeper, and brokers of Apache Kafka 3.9 and ours whose metadata lie there: fetched through Maven once."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.peers import jvm
from tests.peers.apache_kafka import ApacheKafka, free_port
from tests.peers.maven import Jars
from tests.peers.mixed_cluster import BarnabasBroker, Replacements
from tests.peers.secure_kafka import Certificates
from tests.support.node_folders import make_folder, remove_folder

VERSION = "3.9.1"
#: ZooKeeper 3.8 comes along.
JARS = Jars(
    f"apache-kafka-{VERSION}",
    (
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
)
#: Three copies of everything, one may be missing; a dead broker is given up after 3 s, not 18.
_SETTINGS = {
    "inter.broker.protocol.version": "3.9",
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "30000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


CHROOT = "/several/flights"


def why_not() -> str | None:
    """Why such a cluster cannot be had here; None when it can."""
    if shutil.which("java") is None:
        return "Java is missing (apt-get install openjdk-17-jre-headless)"
    if find_spec("kazoo") is None:
        return "kazoo is missing (pip install 'barnabas[zookeeper]')"
    return JARS.why_not()


def class_path() -> str:
    """The jars of Apache Kafka 3.9 and ZooKeeper; fetches them on the first call, which takes half a minute.

    Of two bindings of slf4j that come along, only the simple one is taken.
    """
    jars = sorted(JARS.fetch().glob("*.jar"))
    return ":".join(str(jar) for jar in jars if "reload4j" not in jar.name)


class ZooKeeper:
    """One server, with its data in a temporary directory; a context manager. Ticks of 0.2 s allow sessions of 0.4 s."""

    def __init__(self, certificates: Certificates | None = None, users: Mapping[str, str] | None = None) -> None:
        """With `certificates` there is a port for TLS, with `users` (name: password) clients may log in by SASL."""
        self.port = free_port()
        self.secure_port = free_port() if certificates is not None else 0
        self._certificates = certificates
        self.users = dict(users or {})
        self.folder = make_folder("zookeeper-")
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's process."""
        if self._process is None:
            raise RuntimeError("ZooKeeper is not running")
        return self._process.pid

    def start(self) -> Self:
        """Run, and return when the port answers."""
        settings: dict[str, object] = {
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "tickTime": 200,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "maxSessionTimeout": 60000,
        }

        if self._certificates is not None:
            settings |= {
                "secureClientPort": self.secure_port,
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": self._certificates.broker,
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": self._certificates.authority,
                "ssl.trustStore.type": "PEM",
                "ssl.clientAuth": "none",
            }
        options = []
        if self.users:
            settings["authProvider.1"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
            module = "org.apache.zookeeper.server.auth.DigestLoginModule"
            (self.folder / "jaas.conf").write_text(f"Server {{ {module} required {users}; }};", encoding="utf-8")
            options = [f"-Djava.security.auth.login.config={self.folder / 'jaas.conf'}"]
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self.folder / "zoo.cfg").write_text("".join(lines), encoding="utf-8")
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = jvm.java("-Xmx128m", *options, "-cp", class_path(), main, str(self.folder / "zoo.cfg"))
        with (self.folder / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self.folder / "zookeeper.log").read_text(encoding="utf-8", errors="replace")
                    raise RuntimeError(f"ZooKeeper did not open port {self.port}: {text[-2000:]}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """End the process by SIGKILL, and keep the data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        remove_folder(self.folder, failed=kind is not None)


class ZooKeeperCluster:
    """Brokers 1, 2, ... of Apache Kafka 3.9, then ours, in racks rack-1, rack-2, ...; a context manager."""

    def __init__(
        self,
        theirs: int = 2,
        ours: int = 1,
        settings: Mapping[str, str] | None = None,
        *,
        login: tuple[str, str] | None = None,
    ) -> None:
        """All brokers show ZooKeeper `login`, user and password, where it is given."""
        self.zookeeper = ZooKeeper()
        self._shown: dict[str, str] = {}
        connect = f"{self.zookeeper.servers}{CHROOT}"
        jars = class_path()
        self.theirs = {
            number: ApacheKafka(heap="256m", class_path=jars, zookeeper=connect) for number in range(1, theirs + 1)
        }
        self.ours = {number: BarnabasBroker() for number in range(theirs + 1, theirs + ours + 1)}
        self.replacements = Replacements(self.theirs)
        self.brokers: dict[int, ApacheKafka | BarnabasBroker] = {**self.theirs, **self.ours}
        for number, broker in self.brokers.items():
            own = {"broker.id": str(number), "broker.rack": f"rack-{number}", "zookeeper.connect": connect}
            listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{broker.port}"}
            broker.settings.update({**_SETTINGS, **(settings or {}), **own, **listeners})
        if login is not None:
            self.log_in(login)

    def log_in(self, login: tuple[str, str]) -> dict[str, str]:
        """From their next start on ZooKeeper knows a user and password, and all brokers show them.

        Returns the system properties with which Java's tools log in.
        """
        module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
        text = f'{module} username="{login[0]}" password="{login[1]}";'
        path = self.zookeeper.folder / "client-jaas.conf"
        path.write_text(f"Client {{ {text} }};", encoding="utf-8")
        self.zookeeper.users = dict([login])
        self._shown = {"zookeeper.sasl.jaas.config": text}
        system = {"java.security.auth.login.config": str(path)}
        for java in self.theirs.values():
            java.system.update(system)
        for broker in self.ours.values():
            broker.settings.update(self._shown)
        return system

    @property
    def bootstrap_servers(self) -> str:
        """All brokers' addresses, whether they run or not."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.push(self)
            self.zookeeper.start()
            with ThreadPoolExecutor(len(self.brokers)) as threads:
                list(threads.map(lambda broker: broker.start(), self.theirs.values()))
                list(threads.map(lambda broker: broker.start(), self.ours.values()))
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.replacements.close(failed=kind is not None)
        for node in self.brokers.values():
            node.stop(kill=True)
            remove_folder(node.folder, failed=kind is not None)
        self.zookeeper.__exit__(kind, error, trace)

    @property
    def controller(self) -> int | None:
        """Who is controller, by ZooKeeper; None while there is none."""
        from kazoo.exceptions import NoNodeError

        with self._client() as client:
            try:
                return int(json.loads(client.get(f"{CHROOT}/controller")[0])["brokerid"])
            except NoNodeError:
                return None

    def hand_over_to(self, *wanted: int) -> int:
        """Depose controllers until one of these brokers is it; returns which.

        That waits until no topic is being deleted: a controller of Apache Kafka 3.9 that is deposed in the middle of a
        change keeps half a batch of requests, and fails at every change when it is controller again ("state change
        requests batch is not empty", ZkReplicaStateMachine).
        """
        self._wait_for_deletions()
        deadline, stopped = time.monotonic() + 60, list[int]()
        while True:
            found = self.controller
            if found in wanted:
                return found
            assert time.monotonic() < deadline, f"broker {found} is still controller, none of {wanted}"
            if found is not None and set(wanted) & self.ours.keys():
                with self._client() as client, suppress(Exception):  # it may be gone by itself
                    client.delete(f"{CHROOT}/controller")
            elif found is not None:
                # Ours are quicker: they would be elected again.
                self.brokers[found].stop()
                stopped.append(found)
            for number in stopped if self.controller in wanted else ():
                self.brokers[number].start()
            time.sleep(0.2)

    def wait_until_gone(self, number: int) -> None:
        """Wait until the session of a killed broker has ended: Apache Kafka ends at its start while the znode is there.

        A controller of ours has moved its partitions long before that (NodeExistsException, KafkaZkClient).
        """
        deadline = time.monotonic() + 30
        with self._client() as client:
            while client.exists(f"{CHROOT}/brokers/ids/{number}") is not None:
                assert time.monotonic() < deadline, f"broker {number} is still registered"
                time.sleep(0.1)

    def _wait_for_deletions(self) -> None:
        deadline = time.monotonic() + 30
        with self._client() as client:
            while client.get_children(f"{CHROOT}/admin/delete_topics") and time.monotonic() < deadline:
                time.sleep(0.1)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        from kazoo.client import KazooClient

        client = KazooClient(hosts=self.zookeeper.servers)
        client.start(30)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    @contextmanager
    def replaced_by_ours(self, number: int) -> Iterator[BarnabasBroker]:
        """Run a broker of ours in the place of one of theirs, on its address and its data."""
        yield self.replacements.replace(number, self._shown)
        self.replacements.end(number)

    def data_of(self, number: int) -> Path:
        """The directory with a broker's logs."""
        return self.brokers[number].folder / "data"
