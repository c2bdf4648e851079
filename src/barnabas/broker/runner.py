"""Runs one broker: sockets, clocks, signals, from start to a clean end."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas import anatomy
from barnabas.broker.config import CONTROLLER, BrokerConfig, Listener, advertised_address, is_loopback
from barnabas.broker.loggers import REQUEST_LOGGER
from barnabas.broker.network.socket_server import SocketServer, bind, raise_descriptor_limit, read_clocks
from barnabas.broker.node import BrokerNode, Disk
from barnabas.broker.operator_log import report, warn
from barnabas.broker.request_log import RequestLog, log_request
from barnabas.broker.storage_threads import StorageThreads
from barnabas.clock import wall_clock_ms
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.kraft.controller_node import ControllerNode
    from barnabas.broker.kraft.controller_server import ControllerServer
    from barnabas.broker.log.unopened_logs import LoadProgress
    from barnabas.broker.membership.membership import Membership
    from barnabas.broker.metadata.metadata_store import MetadataStore
    from barnabas.broker.metrics.broker_metrics import BrokerMetrics
    from barnabas.broker.metrics.controller_metrics import ControllerMetrics
    from barnabas.broker.security.scram_users import Alterations, ScramUsers

METADATA_FILE = "metadata.sqlite"


LEFT_ASIDE = (
    "first users (--add-scram) were left aside: they are made when the directory of a controller is formatted, and "
    "this one was formatted before; `barnabas user` adds others and changes passwords"
)


OF_THE_CLUSTER = (
    "first users (--add-scram) are made by no member of a cluster, whose users its controllers keep: "
    "`barnabas format --add-scram` makes them before the controllers' first start, `barnabas user add` afterwards"
)


class BrokerStartError(KafkaError):
    """The broker cannot start; the message says why and what to do."""


class ProgressReport:
    """Says how far the opening of the logs is, when it takes long: after a crash all that was not flushed is read."""

    FIRST_AFTER = 2.0
    EVERY = 5.0

    def __init__(self, warn: Callable[[str], None], clock: Callable[[], float]):
        self._warn = warn
        self._clock = clock
        self._started = clock()
        self._due = self._started + self.FIRST_AFTER

    def opened(self, progress: LoadProgress) -> None:
        """Take note of a step."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self.EVERY
        self._warn(
            f"opening the logs since {now - self._started:.0f} s: {progress.opened} of {progress.logs} are open, "
            f"{progress.bytes_read >> 20} MB were read to recover what the last broker did not close, now "
            f"{progress.current}; the others are served"
        )


class RequestLogOptions(NamedTuple):
    """Where the lines of the request log go, for every how many requests there is one, and its level at the start."""

    write: Callable[[str], None]
    every: int
    level: str


class RunnerOptions(NamedTuple):
    """What the command line says beside the settings.

    `cluster_id` is for a data directory that belongs to no cluster yet; `scram_users(there)` says which users get
    credentials before clients can connect; `name_broker` is told an id that was generated. `stop_on_eof` is a file
    descriptor whose end stops the broker.
    """

    stop_on_eof: int | None = None
    metrics: Listener | None = None
    request_log: RequestLogOptions | None = None
    cluster_id: str | None = None
    scram_users: Callable[[ScramUsers], Alterations] = lambda there: {}
    name_broker: Callable[[int], None] = lambda broker_id: None


class BrokerRunner:
    """A node on its own event loop; `run` returns when `stop` was called (from any thread) or a signal came.

    It is a broker, a controller, or both, as `process.roles` says.

    `on_ready` is called with what the broker listens on once requests are answered.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_directory: str,
        on_ready: Callable[[list[Listener]], None],
        options: RunnerOptions = RunnerOptions(),  # noqa: B008 - it never changes
        *,
        signals: bool = True,
    ):
        self._config = config
        self._data_directory = data_directory
        self._on_ready = on_ready
        self._signals = signals
        self._options = options
        self._loop = new_event_loop()
        self._stopped = asyncio.Event()
        self._storage = StorageThreads()
        self._membership: Membership | None = None
        self._controller: ControllerServer | None = None
        self._controller_problem: Exception | None = None

    def run(self) -> None:
        """Start, serve, stop. Raises BrokerStartError."""
        anatomy.record_if_asked("broker")
        if self._signals:
            # The process is the broker's own.
            raise_descriptor_limit()
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._storage.close()
            self._loop.close()

    def stop(self) -> None:
        """Make `run` end, cleanly; safe from any thread, and more than once."""
        try:
            self._loop.call_soon_threadsafe(self._stopped.set)
        except RuntimeError:
            # The loop is closed: it has ended already.
            return

    async def _serve(self) -> None:
        if self._options.stop_on_eof is not None:
            self._loop.add_reader(self._options.stop_on_eof, self._stopped.set)
        bound = await self._start_controller() if self._config.is_controller else []
        try:
            if self._config.role == CONTROLLER:
                await self._serve_controller(bound)
            else:
                await self._serve_broker()
        finally:
            if self._controller is not None:
                await self._controller.leave()
                await self._controller.close()
        if self._controller_problem is not None:
            raise BrokerStartError(f"the controller of this node has ended: {self._controller_problem!r}")

    async def _start_controller(self) -> list[Listener]:
        from barnabas.broker.kraft.controller_server import ControllerServer, open_storage

        config = self._config.of_controller()
        sockets = [(listener, listening_socket(listener)) for listener in config.listeners]
        try:
            storage = open_storage(config, self._data_directory, self._options.cluster_id, self._first_users)
            if not storage.has_formatted and self._first_users():
                warn(LEFT_ASIDE)
            self._controller = ControllerServer(config, storage, self._storage, warn, self._controller_failed)
            return await self._controller.start(sockets)
        except BaseException as problem:
            for _, listening in sockets:
                listening.close()
            if self._controller is not None:
                await self._controller.close()
            if isinstance(problem, KafkaError):
                raise BrokerStartError(str(problem)) from problem
            raise

    def _controller_failed(self, problem: Exception) -> None:
        self._controller_problem = problem
        self._stopped.set()

    async def _serve_controller(self, bound: list[Listener]) -> None:
        assert self._controller is not None
        self._handle_signals()
        node = self._controller.node
        self._set_request_log(node)
        metrics = await self._serve_controller_metrics(node)
        self._on_ready(bound)
        await self._stopped.wait()
        if metrics is not None:
            metrics.close()

    async def _serve_controller_metrics(self, node: ControllerNode) -> asyncio.Server | None:
        if self._options.metrics is None:
            return None
        from barnabas.broker.metrics.controller_metrics import ControllerMetrics

        metrics = ControllerMetrics(node, read_clocks)
        metrics.register_all()
        node.core.observers.append(metrics)
        return await self._listen_for_scrapes(metrics)

    async def _serve_broker(self) -> None:
        sockets = [(listener, listening_socket(listener)) for listener in self._config.listeners]
        try:
            if self._config.is_member:
                if self._controller is None and self._first_users():
                    raise BrokerStartError(OF_THE_CLUSTER)
                self._membership = await self._read_metadata()
            node = self._open_node()
        except BaseException:
            if self._membership is not None:
                self._membership.close()
            for _, listening in sockets:
                listening.close()
            raise
        # Not before: a recovery may take long, and an operator who ends it shall not have to wait for it.
        self._handle_signals()
        try:
            await self._answer(node, sockets)
        finally:
            if self._membership is not None:
                self._membership.close()
            node.close(wall_clock_ms())
            if self._controller is not None:
                self._controller.storage.take_back()

    def _handle_signals(self) -> None:
        if self._signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._stopped.set)

    async def _read_metadata(self) -> Membership:
        from barnabas.broker.membership.membership import Membership

        local = None
        if self._config.node_id < 0:
            await self._take_broker_id()
        if self._controller is not None:
            from barnabas.broker.kraft.local_metadata_log import LocalMetadataLog

            local = LocalMetadataLog(self._controller.node, self._controller.turn_soon, warn, self._loop.call_later)
        membership = Membership(self._config, self._data_directory, self._options.cluster_id, warn, local)
        try:
            is_read = await membership.read_metadata(self._stopped)
        except KafkaError as problem:
            membership.close()
            raise BrokerStartError(f"the metadata of the cluster cannot be read: {problem}") from problem
        if not is_read:
            membership.close()
            raise BrokerStartError("the broker was stopped before it had read the metadata of its cluster")
        return membership

    async def _take_broker_id(self) -> None:
        """Find the id of a broker under ZooKeeper whose settings name none."""
        from barnabas.broker.log.os_filesystem import OsFileSystem
        from barnabas.broker.membership.membership import zookeeper_session
        from barnabas.broker.zookeeper.broker_ids import known_broker_id, take_broker_id

        config = self._config
        try:
            found = known_broker_id(OsFileSystem(), config.data_directories or [self._data_directory])
            if found is None:
                reserved = config.get_int("reserved.broker.max.id")
                found = await take_broker_id(*zookeeper_session(config), reserved)
                warn(f"broker.id={found} was generated; it stays with the data directory")
        except KafkaError as problem:
            raise BrokerStartError(str(problem)) from problem
        config.take_broker_id(found)
        self._options.name_broker(found)

    async def _answer(self, node: BrokerNode, sockets: list[tuple[Listener, socket.socket]]) -> None:
        config = self._config
        server = SocketServer(node.core)
        server.attend(self._storage)
        bound = []
        for listener, listening in sockets:
            address = Listener(listener.name, listener.host, listening.getsockname()[1])
            bound.append(address)
            node.state.advertised[listener.name] = advertised_address(config, address)
            await server.listen(listener.name, listening)
        metrics = await self._serve_metrics(node)
        server.keep_time()
        if self._membership is not None:
            await self._membership.enter(server, node.state.advertised, self._stopped)
        self._on_ready(bound)
        await self._stopped.wait()
        if self._membership is not None:
            await self._membership.leave()
        if metrics is not None:
            metrics.close()
        await server.close()

    async def _serve_metrics(self, node: BrokerNode) -> asyncio.Server | None:
        if self._options.metrics is None:
            return None
        from barnabas.broker.metrics.broker_metrics import BrokerMetrics

        metrics = BrokerMetrics(node, read_clocks, time.thread_time)
        node.core.observers.append(metrics)
        node.core.shortcut_observer = metrics
        _receive_client_metrics(node, metrics)
        if self._controller is not None:
            from barnabas.broker.metrics.controller_metrics import ControllerMetrics

            metrics.registry.register(ControllerMetrics(self._controller.node, read_clocks))
        return await self._listen_for_scrapes(metrics)

    async def _listen_for_scrapes(self, metrics: BrokerMetrics | ControllerMetrics) -> asyncio.Server:
        from barnabas.broker.metrics.http_server import MetricsProtocol

        assert self._options.metrics is not None
        return await self._loop.create_server(
            lambda: MetricsProtocol(metrics.text, metrics.content_type), sock=listening_socket(self._options.metrics)
        )

    def _open_node(self) -> BrokerNode:
        membership = self._membership
        store = self._open_store() if membership is None else membership.store
        directories = [os.path.abspath(path) for path in self._config.data_directories] or [self._data_directory]
        if self._controller is not None:
            self._controller.storage.hand_over(directories)
        try:
            node = BrokerNode(
                self._config,
                Disk(directories, storage=self._storage),
                store,
                random.SystemRandom(),
                warn,
                member=None if membership is None else membership.member,
            )
        except KafkaError:
            # What the settings name, such as a key store, cannot be used.
            store.close()
            raise
        if membership is None:
            added = self._options.scram_users(node.scram_users)
            if added:
                node.scram_users.alter(added)
        node.core.channel.report = report
        node.wanted_cluster_id = self._options.cluster_id
        node.logs.unopened.report_to(ProgressReport(warn, time.monotonic).opened)
        try:
            node.start(read_clocks())
        except KafkaError as problem:
            store.close()
            raise BrokerStartError(str(problem)) from problem
        self._set_request_log(node)
        if membership is not None:
            membership.join(node)
        return node

    def _first_users(self) -> Alterations:
        """Return who can log in to a cluster that has no users yet."""
        from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
        from barnabas.broker.metadata.memory_store import MemoryStore
        from barnabas.broker.security.scram_users import ScramUsers

        return self._options.scram_users(ScramUsers(ClusterMetadata(MemoryStore())))

    def _set_request_log(self, node: BrokerNode | ControllerNode) -> None:
        log = self._options.request_log or RequestLogOptions(log_request, 1, "WARN")
        node.request_log = RequestLog(log.write, log.every)
        node.state.loggers.set(REQUEST_LOGGER, log.level)

    def _open_store(self) -> MetadataStore:
        import sqlite3

        from barnabas.broker.metadata.sqlite_store import SqliteStore

        try:
            return SqliteStore(f"{self._data_directory}/{METADATA_FILE}")
        except (sqlite3.Error, OSError) as problem:
            raise BrokerStartError(
                f"the data directory {self._data_directory} cannot be used: {problem}; "
                "choose another with --data, or see to it that this user may write there"
            ) from problem


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop, uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def listening_socket(listener: Listener) -> socket.socket:
    """Return a socket that listens where `listener` says. Raises BrokerStartError."""
    try:
        return bind(listener)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            why = "the port is in use; stop what uses it, or listen elsewhere (port 0 takes any free one)"
        elif problem.errno == errno.EACCES:
            why = "this user may not; choose a port above 1023"
        elif problem.errno == errno.EADDRNOTAVAIL or isinstance(problem, socket.gaierror):
            why = f"this machine has no such address ({problem.strerror})"
        else:
            why = str(problem)
        raise BrokerStartError(f"cannot listen on {listener.address}: {why}") from problem


def check_exposure(config: BrokerConfig) -> None:
    """Raise BrokerStartError if others than this machine could connect without showing who they are."""
    for listener in config.listeners:
        if not is_loopback(listener.host) and not config.authenticates(listener):
            raise BrokerStartError(
                f"{listener.name}://{listener.address} can be reached from other machines, and its clients do not "
                "authenticate: whoever connects may read and delete everything. Listen on 127.0.0.1, let clients "
                "authenticate (docs/guide/security.md), or accept that with --allow-remote"
            )


def _receive_client_metrics(node: BrokerNode, metrics: BrokerMetrics) -> None:
    """Offer to take the metrics of clients (KIP-714), and show them beside the broker's own."""
    try:
        from barnabas.broker.client_metrics.client_metrics_receiver import ClientMetricsReceiver
    except ImportError:
        # Without its library it is a broker without a receiver, which clients push nothing to.
        return
    from barnabas.broker.client_metrics.client_metrics_manager import ClientMetricsManager

    state = node.state
    receiver = ClientMetricsReceiver(time.monotonic)
    metrics.registry.register(receiver)
    max_bytes = state.config.get_int("telemetry.max.bytes")
    state.client_metrics = ClientMetricsManager(state.metadata, receiver, state.random, max_bytes)
