"""A controller on an event loop: its listeners, its ways to the other controllers, and its end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from barnabas.broker.config import SECURITY_PROTOCOLS, Listener, advertised_address
from barnabas.broker.kraft.controller_node import ControllerNode, NodeEnvironment
from barnabas.broker.kraft.controller_registration_manager import ControllerRegistrationManager
from barnabas.broker.kraft.port_probe import probe_port
from barnabas.broker.kraft.quorum_storage import QuorumStorage
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.network.node_channel import NodeChannel, home_here
from barnabas.broker.network.socket_server import SocketServer, read_clocks
from barnabas.broker.operator_log import report
from barnabas.broker.raft.raft_driver import RaftDriver

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.kraft.broker_probes import Probe
    from barnabas.broker.raft.raft_driver import Destination
    from barnabas.broker.security.outgoing_security import OutgoingSecurity
    from barnabas.broker.security.scram_users import Alterations
    from barnabas.broker.storage_threads import StorageThreads

#: How long a controller that ends gives the others to elect, in seconds.
_LEAVING = 5.0
#: So often a controller that leaves looks whether it may.
_LOOK = 0.02


class ControllerServer:
    """A controller, alone or beside the broker of the same process.

    Its owner calls, in the loop and in this order: `start`, `leave`, `close`. `on_failure` is told why the quorum's
    replica has ended by itself; nothing more is answered then.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: QuorumStorage,
        threads: StorageThreads,
        warn: Callable[[str], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._config = config
        self.storage = storage
        self._threads = threads
        self._warn = warn
        self._on_failure = on_failure
        self._random = random.SystemRandom()
        self._loop = asyncio.get_running_loop()
        self._has_turn = False
        self._security = _make_security(config, warn)
        self._channels: list[NodeChannel] = []
        self._probing: set[asyncio.Task[None]] = set()
        self._server: SocketServer | None = None

    async def start(self, sockets: Sequence[tuple[Listener, socket.socket]]) -> list[Listener]:
        """Open the log, answer requests, and take part in the quorum; gives what is listened on.

        Raises `KafkaStorageError` and `ConfigError`.
        """
        config = self._config
        bound = [Listener(one.name, one.host, found.getsockname()[1], one.protocol) for one, found in sockets]
        addresses = {one.name: advertised_address(config, one) for one in bound}
        environment = NodeEnvironment(read_clocks, self._random, self._threads, self._warn)
        node = self.node = ControllerNode(config, self.storage, addresses, environment)
        node.core.channel.report = report
        self.driver = RaftDriver(
            node.raft, self._open_raft_channel, self._loop.call_at, read_clocks, self._failed, node.storage
        )
        node.requests.ask_quorum = self.driver.handle_request
        node.requests.forget = self.driver.forget
        node.requests.turn_soon = self.turn_soon
        node.probes.connect = self._probe
        server = self._server = SocketServer(node.core)
        server.attend(self._threads)
        self.driver.on_turn = server.after_work
        for one, listening in sockets:
            await server.listen(one.name, listening)
        self.driver.start()
        self._register(addresses)
        server.keep_time()
        return bound

    def _register(self, addresses: dict[str, tuple[str, int]]) -> None:
        node = self.node
        protocols = {one.name: SECURITY_PROTOCOLS.index(one.protocol) for one in self._config.listeners}
        manager = ControllerRegistrationManager(
            self._config.node_id,
            self._random.randbytes(16),
            {name: Endpoint(host, port, protocols[name]) for name, (host, port) in addresses.items()},
            lambda: node.leader,
            lambda: node.controller.committed_image,
            self._warn,
        )
        channel = NodeChannel(
            manager,
            f"controller-{self._config.node_id}-to-controller-registration",
            home_here(self._random, self._security),
            request_timeout=self._config.get_seconds("controller.quorum.request.timeout.ms"),
            on_answer=lambda: None,
        )
        self._channels.append(channel)
        channel.start()

        def look() -> None:
            if manager.is_needed:
                channel.wake()

        node.controller.on_committed.append(lambda committed, now: look())

    def _open_raft_channel(self, destination: Destination) -> NodeChannel:
        return NodeChannel(
            destination,
            f"raft-client-{self._config.node_id}",
            home_here(self._random, self._security),
            request_timeout=self._config.get_seconds("controller.quorum.request.timeout.ms"),
            on_answer=lambda: None,
        )

    def turn_soon(self) -> None:
        """Have the quorum look for what was appended, once for all requests of this turn of the loop."""
        if not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._has_turn = False
        self.driver.turn()

    def _probe(self, probe: Probe) -> None:
        async def try_it() -> None:
            found = await probe_port(probe.host, probe.port, probe.patience)
            now = read_clocks().now
            self.node.probes.answered(probe, **found._asdict(), now=now)
            if self._server is not None:
                self._server.after_work()

        task = self._loop.create_task(try_it())
        self._probing.add(task)
        task.add_done_callback(self._probing.discard)

    def _failed(self, problem: Exception) -> None:
        self._on_failure(problem)

    async def leave(self) -> None:
        """Give up the leadership, so that another controller has it at once; returns when it is known, or in 5 s."""
        raft = self.node.raft
        if self.driver.problem is None:
            raft.shutdown(_LEAVING)
            self.driver.turn()
        while self.driver.problem is None and not raft.is_shut_down:
            await asyncio.sleep(_LOOK)

    async def close(self) -> None:
        """End all connections, and let the directory go."""
        for task in self._probing:
            task.cancel()
        if self._server is not None:
            self.driver.close()
            for channel in self._channels:
                channel.close()
            await self._server.close()
            self.node.snapshots.close()
            # What the disk is at may still change what the next process reads, as whom this node votes for.
            self._threads.drain()
        self.storage.close()


def _make_security(config: BrokerConfig, warn: Callable[[str], None]) -> OutgoingSecurity | None:
    if config.of_controllers.protocol == "PLAINTEXT":
        return None
    from barnabas.broker.security.outgoing_security import OutgoingSecurity

    return OutgoingSecurity(config, config.of_controllers, warn)


def open_storage(
    config: BrokerConfig, data_directory: str, cluster_id: str | None, first_users: Callable[[], Alterations]
) -> QuorumStorage:
    """Lock and read the directory of the metadata log. Raises `KafkaStorageError`."""
    chance = random.SystemRandom().randbytes
    return QuorumStorage(config, data_directory, OsFileSystem(), chance, cluster_id, first_users)
