"""A real Apache Kafka, as a peer for tests and benchmarks: fetched through Maven once, started on a free port.

Needs Java 17 or later and Maven; `why_not()` says what is missing.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tests.peers import jvm
from tests.peers.maven import Jars
from tests.support.node_folders import make_folder, remove_folder

VERSION = "4.3.1"
JARS = Jars(
    f"apache-kafka-{VERSION}",
    (
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
)
STREAMS_JARS = Jars(f"kafka-streams-{VERSION}", (("org.apache.kafka", "kafka-streams", VERSION),))
#: `kafka-metadata-shell`, and all that it needs.
SHELL_JARS = Jars(f"kafka-shell-{VERSION}", (("org.apache.kafka", "kafka-shell", VERSION),))
#: TopologyTestDriver, and all that it needs.
TEST_DRIVER_JARS = Jars(
    f"kafka-streams-test-utils-{VERSION}", (("org.apache.kafka", "kafka-streams-test-utils", VERSION),)
)


def why_not() -> str | None:
    """Why Apache Kafka cannot be had here; None when it can."""
    if shutil.which("java") is None:
        return "Java is missing (apt-get install openjdk-17-jre-headless)"
    return JARS.why_not()


def classpath() -> str:
    """The jars' class path; fetches them on the first call, which takes about a minute."""
    return f"{JARS.fetch()}/*"


def streams_classpath() -> str:
    """The jars of Kafka Streams and of what they need beside those of `classpath`; fetched like them."""
    return f"{STREAMS_JARS.fetch()}/*"


def test_driver_classpath() -> str:
    """The jars of Kafka's TopologyTestDriver and of all that it needs; fetched like those of `classpath`."""
    return f"{TEST_DRIVER_JARS.fetch()}/*"


def shell_classpath() -> str:
    """The jars of `kafka-metadata-shell`, fetched like those of `classpath`; org.apache.kafka.shell.MetadataShell."""
    return f"{SHELL_JARS.fetch()}/*"


def run_tool(
    main_class: str,
    *arguments: str,
    timeout: float = 60,
    class_path: str | None = None,
    system: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command-line tools by its class, such as org.apache.kafka.tools.TopicCommand."""
    properties = [f"-D{name}={value}" for name, value in (system or {}).items()]
    command = jvm.java("-Xmx512m", *properties, "-cp", class_path or classpath(), main_class, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


class ApacheKafka:
    """One broker and controller in one process, with its data in a temporary directory; a context manager."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "1g",
        system: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
        class_path: str | None = None,
        zookeeper: str | None = None,
    ) -> None:
        """`settings` are added to server.properties; `system` are Java's system properties; `format_options` go to the
        tool that formats the storage; `class_path` has Kafka's jars and more, for plugins. With `zookeeper` (what
        `zookeeper.connect` says) it is a broker in that cluster, and `class_path` has jars of 3.9.
        """
        self.port, self.controller_port = free_port(), free_port()
        self.folder = make_folder("apache-kafka-")
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        #: Where it is reached, and what its command begins with (see `namespaces`).
        self.host, self.prefix = "127.0.0.1", tuple[str, ...]()
        self._heap = heap
        self.system = dict(system or {})
        self._class_path = class_path
        self._zookeeper = zookeeper
        self.settings = dict(settings or {})
        self._format_options = format_options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The broker's process."""
        if self._process is None:
            raise RuntimeError("Apache Kafka is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        """What it wrote, on both of its streams, in all of its lives."""
        return (self.folder / "kafka.log").read_text(encoding="utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._process is not None

    def start(self) -> Self:
        """Run, and return when the port answers (some 4 s)."""
        self.launch()
        self.wait_until_open()
        return self

    def launch(self) -> None:
        """Format the storage on the first start, and run."""
        properties = self.folder / "server.properties"
        is_first = not properties.exists()
        properties.write_text(self._properties(), encoding="utf-8")
        if is_first and self._zookeeper is None:
            options = ("-t", "YmFybmFiYXMtcGVlci0wMQ", "-c", str(properties), *self._format_options)
            self._java("kafka.tools.StorageTool", "format", *options)
        jars = self._class_path or classpath()
        options = [f"-Xmx{self._heap}", *(f"-D{name}={value}" for name, value in self.system.items())]
        command = [*self.prefix, *jvm.java(*options, "-cp", jars, "kafka.Kafka", str(properties))]
        with (self.folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, *, kill: bool = False) -> None:
        """End the process, by SIGKILL when asked, and keep the data."""
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(600)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(kill=True)
        remove_folder(self.folder, failed=kind is not None)

    def _properties(self) -> str:
        if self._zookeeper is not None:
            own = {"zookeeper.connect": self._zookeeper, "log.dirs": str(self.folder / "data")}
            return "".join(f"{name}={value}\n" for name, value in {**own, **self.settings}.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _java(self, *arguments: str) -> None:
        command = jvm.java("-cp", classpath(), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def wait_until_open(self) -> None:
        """Return when the port answers; raises RuntimeError with the end of the log if it does not."""
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                socket.create_connection((self.host, self.port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"Apache Kafka did not open port {self.port}: {self.log[-2000:]}")


def free_port() -> int:
    """A free port, which the system gives to nobody else for a minute; who sets SO_REUSEADDR may listen there.

    It remembers a connection that ended (TIME_WAIT), and so hands the port to no socket that asks for any. Java's and
    asyncio's servers set that option.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = listener.accept()
            accepted.close()  # the side that closes first is the one that waits
    return port
