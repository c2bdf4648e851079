"""`Broker`: one or several for the life of a `with` block, in child processes, or one in a thread of this process."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import TYPE_CHECKING, Any

from barnabas.broker.child_process import START_TIMEOUT, STOP_TIMEOUT
from barnabas.broker.local_cluster import ControlledBy, LocalCluster, consecutive
from barnabas.broker.node_process import NodeProcess
from barnabas.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    import threading
    from types import TracebackType

    from barnabas.broker.runner import BrokerRunner

#: What differs from Kafka's defaults: a first rebalance need not wait for members that are started by hand.
DEFAULTS = {"group.initial.rebalance.delay.ms": 0}


class Broker:
    """A running broker on a free port of this machine.

    Its data lies in `data_dir`, or in a temporary directory that is removed with it. `settings` are Kafka's broker
    settings with `_` for `.` (`num_partitions=6`), or a dict with the dots as `config`; of the defaults only
    group.initial.rebalance.delay.ms differs (0, so that a group's first member need not wait). By default it is a child
    process, which dies with this one; `in_process=True` runs it in a thread. It is started by the constructor and can
    be used as a context manager.

    With `brokers=3` it is a cluster: brokers 1, 2 and 3 and controller 100 (with `controllers=3` 101 and 102 too), each
    a child process. Topics have as many replicas as there are brokers, three at most; `kill(1)`, `stop(1)`, `start(1)`
    and `restart(1)` are for one node, without a number for all. With `zookeeper=True` its metadata are in a ZooKeeper
    of its own, which is node 200 (it needs Java, and Maven once); with `zookeeper="zk1:2181/flights"` in one that runs.

    Attributes: `bootstrap_servers` ("127.0.0.1:port", with commas of several), `data_dir`, `pid` (of the child; None in
    process and of several).

    Raises `KafkaError` when it cannot start; the message says why.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str = "127.0.0.1:0",
        in_process: bool = False,
        brokers: int = 1,
        controllers: int = 1,
        zookeeper: bool | str = False,
        config: dict[str, Any] | None = None,
        **settings: Any,
    ):
        self.in_process = in_process
        given = {name.replace("_", "."): value for name, value in {**(config or {}), **settings}.items()}
        self._settings = {**DEFAULTS, **given}
        self._temporary = data_dir is None
        self.data_dir = _temporary_directory() if data_dir is None else os.path.abspath(os.fspath(data_dir))
        self._listen = listen
        self._home: NodeProcess | _Thread | LocalCluster | None = None
        self._cluster: LocalCluster | None = None
        if brokers > 1 or zookeeper:
            if in_process:
                raise ConfigError(f"brokers={brokers}: in one process there is one broker, alone; leave in_process out")
            texts = {name: _text(value) for name, value in self._settings.items()}
            connect = zookeeper if isinstance(zookeeper, str) else ""
            controlled_by = ControlledBy(controllers, connect if zookeeper else None)
            self._cluster = LocalCluster(
                self.data_dir, consecutive(listen, brokers), texts, controlled_by=controlled_by
            )
        try:
            self.start()
        except BaseException:
            self._remove_data()
            raise
        atexit.register(_close_forgotten, weakref.ref(self))

    def start(self, node_id: int | None = None) -> None:
        """Start again after `stop` or `kill`, on the same port and the same data."""
        if self._cluster is not None:
            self._cluster.start(node_id)
            self._home = self._cluster
            return
        self._check_alone(node_id)
        if self._home is not None:
            raise IllegalStateError("the broker is running")
        if self._temporary and not os.path.isdir(self.data_dir):
            os.makedirs(self.data_dir)
        begin = _Thread if self.in_process else _start_child
        self._home = begin(self.data_dir, self._listen, self._settings)
        self._listen = self._home.address

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: host and port, of each broker."""
        return self._listen if self._cluster is None else self._cluster.bootstrap_servers

    @property
    def port(self) -> int:
        """The port that clients connect to; of several brokers the first one's."""
        return int(self.bootstrap_servers.partition(",")[0].rpartition(":")[2])

    @property
    def pid(self) -> int | None:
        """The child's process id; None in process, and when the broker is not running."""
        return self._home.pid if isinstance(self._home, NodeProcess) else None

    def pid_of(self, node_id: int) -> int | None:
        """Return the process id of a broker or controller among several; None when it is not running."""
        return None if self._cluster is None else self._cluster.pid(node_id)

    def log_text(self) -> str:
        """Return what the children wrote to their standard errors since they were started; empty in process."""
        return "" if self._home is None or isinstance(self._home, _Thread) else self._home.log_text()

    def stop(self, node_id: int | None = None) -> None:
        """End the broker cleanly; its data stays until `close`. Stopping twice is harmless."""
        if self._cluster is not None:
            self._cluster.stop(node_id)
            return
        self._check_alone(node_id)
        home, self._home = self._home, None
        if home is not None:
            home.stop()

    def kill(self, node_id: int | None = None) -> None:
        """End the child with SIGKILL, as a crash would. Raises IllegalStateError in process."""
        if self._cluster is not None:
            self._cluster.kill(node_id)
            return
        self._check_alone(node_id)
        if not isinstance(self._home, NodeProcess):
            raise IllegalStateError("only a running broker in a child process can be killed")
        home, self._home = self._home, None
        home.kill()

    def restart(self, node_id: int | None = None) -> None:
        """Stop (if it is running) and start again, on the same port and the same data."""
        self.stop(node_id)
        self.start(node_id)

    def _check_alone(self, node_id: int | None) -> None:
        if node_id is not None:
            raise IllegalStateError(f"there is one broker, and no node {node_id} to choose: leave the number out")

    def close(self) -> None:
        """Stop, and remove the data unless a `data_dir` was given."""
        if self._temporary and isinstance(self._home, NodeProcess | LocalCluster):
            # The data will not be read again: what a clean end would flush and sync goes with it.
            self.kill()
        self.stop()
        self._home = None
        self._remove_data()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "running" if self._home is not None else "stopped"
        return f"<Broker {self.bootstrap_servers} {state}, data in {self.data_dir}>"

    def _remove_data(self) -> None:
        if self._temporary:
            import shutil

            shutil.rmtree(self.data_dir, ignore_errors=True)


def _close_forgotten(reference: weakref.ref[Broker]) -> None:
    broker = reference()
    if broker is not None:
        broker.close()


def _start_child(data_dir: str, listen: str, settings: dict[str, Any]) -> NodeProcess:
    options = ["--listen", listen, "--data", data_dir]
    for name, value in settings.items():
        options += ["--set", f"{name}={_text(value)}"]
    child = NodeProcess(options)
    child.wait_until_ready()
    return child


class _Thread:
    """A broker on an event loop in a thread of this process."""

    def __init__(self, data_dir: str, listen: str, settings: dict[str, Any]):
        import threading

        from barnabas.broker.config import BrokerConfig, join_address, parse_address

        listeners = f"PLAINTEXT://{join_address(*parse_address(listen))}"
        self._config = BrokerConfig({**settings, "listeners": listeners, "log.dirs": data_dir})
        self._data_dir = data_dir
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._runner: BrokerRunner | None = None
        self.address = listen
        self._thread: threading.Thread = threading.Thread(target=self._run, name="barnabas-broker", daemon=True)
        self._thread.start()
        self._ready.wait(START_TIMEOUT)
        if self._problem is not None:
            self._thread.join()
            raise self._problem

    def _run(self) -> None:
        from barnabas.broker.config import Listener
        from barnabas.broker.runner import BrokerRunner

        def on_ready(bound: list[Listener]) -> None:
            self.address = bound[0].address
            self._ready.set()

        try:
            self._runner = BrokerRunner(self._config, self._data_dir, on_ready, signals=False)
            self._runner.run()
        except BaseException as problem:
            if self._ready.is_set():
                import logging

                place = f"the broker at {self.address}, in a thread of this process"
                logging.getLogger("barnabas.broker").exception("%s, has ended by a fault", place)
            self._problem = problem
        finally:
            self._ready.set()

    def stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()
        self._thread.join(STOP_TIMEOUT)


def _temporary_directory() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="barnabas-")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)
