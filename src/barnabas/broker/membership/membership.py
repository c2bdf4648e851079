"""A broker's membership on its event loop: channels on sockets, and the waiting at its start and its end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from barnabas.broker.config import SECURITY_PROTOCOLS, PeerListener
from barnabas.broker.log.checkpoint_files import META_PROPERTIES, read_meta_properties
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.membership.broker_lifecycle import LifecycleState, registered_directories
from barnabas.broker.membership.cluster_member import ClusterMember
from barnabas.broker.membership.kraft_control import KRaftControl
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.network.lifeline_connections import LifelineConnections
from barnabas.broker.network.node_channel import NodeChannel, home_here
from barnabas.broker.network.socket_server import read_clocks
from barnabas.clock import wall_clock_ms
from barnabas.errors import KafkaTimeoutError
from barnabas.network.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.kraft.local_metadata_log import LocalMetadataLog
    from barnabas.broker.membership.control_plane import ControlPlane
    from barnabas.broker.metadata.image_store import ImageStore
    from barnabas.broker.network.socket_server import SocketServer
    from barnabas.broker.node import BrokerNode
    from barnabas.broker.requester import Requester
    from barnabas.broker.security.outgoing_security import OutgoingSecurity
    from barnabas.broker.zookeeper.operations import ZooKeeperSession
    from barnabas.broker.zookeeper.zookeeper_control import ZooKeeperControl

#: How long a controlled shutdown may take before the broker ends without it, in seconds.
_LEAVING = 60.0
#: Ids of nodes whose ids are not known yet, as of bootstrap servers.
_FIRST_UNKNOWN = -2


class Membership:
    """A `ClusterMember` and its channels.

    Its owner calls, in the loop and in this order: `read_metadata`, `join`, `enter`, `leave`, `close`. `local` is the
    log of the controller that runs in the same process.
    """

    store: ImageStore

    def __init__(
        self,
        config: BrokerConfig,
        data_directory: str,
        cluster_id: str | None,
        report: Callable[[str], None],
        local: LocalMetadataLog | None = None,
    ) -> None:
        self._config = config
        self._report = report
        self._random = random.SystemRandom()
        self._channels: list[NodeChannel] = []
        self._securities = {
            listener: self._make_security(listener) for listener in (config.of_brokers, config.of_controllers)
        }
        self._server: SocketServer | None = None
        self._node: BrokerNode | None = None
        self._changed = asyncio.Event()
        self._state = LifecycleState.STARTING
        found = read_meta_properties(OsFileSystem(), f"{data_directory}/{META_PROPERTIES}")
        known = found.cluster_id if found is not None else None
        self._session: ZooKeeperSession | None = None
        #: How long ZooKeeper may not answer at the start, in seconds; controllers are waited for without end.
        self._connection_timeout: float | None = None
        self._zookeeper: ZooKeeperControl | None = None
        self._control = self._make_control(known, cluster_id, local)
        self._control.on_changed = self._changed.set
        self.member = ClusterMember(config, self._control, self._open_channel)
        self._lifelines = (
            None if self._zookeeper is None else LifelineConnections(self._zookeeper.lifelines, self._answered)
        )

    def _make_control(
        self, known_cluster_id: str | None, cluster_id: str | None, local: LocalMetadataLog | None
    ) -> ControlPlane:
        config, report = self._config, self._report
        zookeeper = config.zookeeper
        if zookeeper is None:
            controllers = [
                Node(_FIRST_UNKNOWN - index, host, port) for index, (host, port) in enumerate(config.controllers)
            ]
            control = KRaftControl(config, controllers, self._random, report, known_cluster_id or cluster_id)
            if local is not None:
                control.read_locally(local, lambda: local.begin(control.loader))
            return control
        from barnabas.broker.zookeeper.zookeeper_control import ZooKeeperControl

        self._session, self._connection_timeout = zookeeper_session(config)
        member = ZooKeeperControl(config, self._session, self._random, report, wall_clock_ms, known_cluster_id)
        member.on_answered = self._answered
        self._zookeeper = member
        return member

    def _make_security(self, listener: PeerListener) -> OutgoingSecurity | None:
        if listener.protocol == "PLAINTEXT":
            return None
        from barnabas.broker.security.outgoing_security import OutgoingSecurity

        return OutgoingSecurity(self._config, listener, self._report)

    def _open_channel(
        self, requester: Requester, client_id: str, timeout: float, listener: PeerListener
    ) -> NodeChannel:
        channel = NodeChannel(
            requester,
            client_id,
            home_here(self._random, self._securities[listener]),
            request_timeout=timeout,
            on_answer=self._answered,
        )
        self._channels.append(channel)
        channel.start()
        return channel

    def _answered(self) -> None:
        """Let the broker answer what waited for what has come."""
        if self._server is not None:
            self._server.core.channel.instant = read_clocks()
            self._server.after_work()

    # -- the start ---------------------------------------------------------------------------------------------------

    async def read_metadata(self, stopped: asyncio.Event) -> bool:
        """Read the metadata log to its end; False if `stopped` was set before.

        Raises what the log cannot be read for, such as a record of a later version.
        """
        self._control.observe()
        try:
            async with asyncio.timeout(self._connection_timeout):
                while not self._control.is_caught_up:
                    if self._control.problem is not None:
                        raise self._control.problem
                    if not await self._wait(stopped):
                        return False
        except TimeoutError:
            raise KafkaTimeoutError(
                f"ZooKeeper at {self._config['zookeeper.connect']} did not answer in {self._connection_timeout} s "
                f"(zookeeper.connection.timeout.ms): {self._session_problem or 'is it running, and reached from here?'}"
            ) from None
        self.store = self._control.make_store()
        return True

    @property
    def _session_problem(self) -> str:
        return "" if self._session is None else self._session.problem

    def join(self, node: BrokerNode) -> None:
        """Give a started node its roles."""
        self._node = node
        for security in self._securities.values():
            if security is not None:
                node.dynamic_config.on_change.append(security.reload)
        node.logs.note_broker_epoch(lambda: self.member.local_broker_epoch)
        self.member.join(node, self.store, read_clocks)

    async def enter(
        self, server: SocketServer, listeners: Mapping[str, tuple[str, int]], stopped: asyncio.Event
    ) -> None:
        """Register, and return when clients are sent here, or `stopped` is set."""
        assert self._node is not None, "a node joins first"
        self._server = server
        protocols = {listener.name: SECURITY_PROTOCOLS.index(listener.protocol) for listener in self._config.listeners}
        endpoints = {name: Endpoint(host, port, protocols[name]) for name, (host, port) in listeners.items()}
        ids, previous_epoch = registered_directories(self._node.logs.directories)
        self._control.register(endpoints, ids, previous_epoch, self._take_state)
        server.keep_time()
        while self._state is not LifecycleState.RUNNING:
            if not await self._wait(stopped):
                return

    def _take_state(self, state: LifecycleState) -> None:
        self._state = state
        self._changed.set()

    async def _wait(self, stopped: asyncio.Event) -> bool:
        """Wait until something changes; False if that is that the broker has to stop."""
        self._changed.clear()
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._changed, stopped)]
        _, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return not stopped.is_set()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Hand leaderships over and return when the controller has let the broker go, at the latest after a minute."""
        self._control.leave()
        try:
            async with asyncio.timeout(_LEAVING):
                while not self._control.is_out:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._report("the controller did not let this broker go within a minute; it ends without its consent")

    def close(self) -> None:
        """End all channels, and the session."""
        for channel in self._channels:
            channel.close()
        if self._lifelines is not None:
            self._lifelines.close()
        if self._session is not None:
            self._session.close()


def zookeeper_session(config: BrokerConfig) -> tuple[ZooKeeperSession, float]:
    """Return a session with the ZooKeeper of the settings, and how long it may not answer at the start, in seconds."""
    from barnabas.broker.zookeeper.kazoo_session import KazooSession
    from barnabas.broker.zookeeper.zookeeper_security import zookeeper_security

    assert config.zookeeper is not None, "the broker is a member of a cluster under ZooKeeper"
    timeout = config.get_int("zookeeper.session.timeout.ms")
    session = KazooSession(*config.zookeeper, timeout / 1000, zookeeper_security(config))
    return session, float(config["zookeeper.connection.timeout.ms"] or timeout) / 1000
