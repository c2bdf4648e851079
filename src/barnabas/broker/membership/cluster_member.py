"""A broker as member of a cluster of other brokers and controllers: all parts of it, without sockets (BrokerServer)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.log.log_directories import LogDirectories
from barnabas.broker.log.unfinished_copies import settle_copies
from barnabas.broker.membership.alter_partition_manager import AlterPartitions
from barnabas.broker.membership.auto_topic_creation_manager import TopicCreation
from barnabas.broker.membership.broker_metadata_publisher import ImagePublisher, Roles
from barnabas.broker.membership.broker_queue import BrokerQueue
from barnabas.broker.membership.controller_producer_ids import ControllerProducerIds
from barnabas.broker.membership.coordinator_elections import CoordinatorElections, coordinators_of
from barnabas.broker.membership.directory_assignments import DirectoryAssignments
from barnabas.broker.membership.gone_topics import GoneTopics
from barnabas.broker.membership.leader_requests import LeaderRequests
from barnabas.broker.membership.log_end_reports import LogEndReports
from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
from barnabas.broker.membership.share_group_channels import ShareGroupChannels
from barnabas.broker.membership.transaction_marker_channels import BrokerMarkers, ClusterMarkers
from barnabas.broker.membership.transaction_verification import (
    BrokerVerifications,
    TransactionVerification,
)
from barnabas.broker.replica_manager import Cluster
from barnabas.broker.replication.replica_fetcher import FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_fetcher_manager import ReplicaFetchers
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.broker.replication.replication_quota import FOLLOWER, LEADER, ReplicationQuota
from barnabas.broker.requester import Requester
from barnabas.errors import KafkaError
from barnabas.network.node import Node
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.config import BrokerConfig, PeerListener
    from barnabas.broker.config_admin_manager import WriteSettings
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.instant import Instant
    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.log.log_manager import DirectoryState, LogManager
    from barnabas.broker.member_port import ShareGroupPort
    from barnabas.broker.membership.control_plane import ControlPlane
    from barnabas.broker.metadata.image_store import ImageStore
    from barnabas.broker.metadata.metadata_image import BrokerRegistration, MetadataImage
    from barnabas.broker.node import BrokerNode
    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.security.authorization import WriteAcls
    from barnabas.broker.security.delegation_tokens import WriteTokens
    from barnabas.broker.transactions.marker import MarkerWriter
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats


class Channel(Protocol):
    """The way of one requester to other nodes."""

    def wake(self) -> None:
        """Ask the requester soon."""

    def leave_others(self, node: Node) -> None:
        """Wait for no answer but this node's."""

    def close(self) -> None:
        """Ask it no more; what is in flight is not answered."""


#: Opens a channel for a requester: under the name of a client, for requests that may take so many seconds, to such a
#: listener of other nodes.
OpenChannel = Callable[[Requester, str, float, "PeerListener"], Channel]


class ClusterMember:
    """One broker's membership, under any control plane.

    `join` comes when the control plane is caught up, with a node whose store is that of `ControlPlane.make_store`.
    """

    def __init__(self, config: BrokerConfig, control: ControlPlane, open_channel: OpenChannel) -> None:
        self._config = config
        self._me = config.node_id
        self._timeout = config.get_int("replica.socket.timeout.ms") / 1000
        self._open_channel = open_channel
        self._channels: dict[object, Channel] = {}
        self._to_controllers: list[Channel] = []
        self._publisher: ImagePublisher | None = None
        #: Whether the control plane has begun to give roles.
        self._has_begun = False
        self._instant: Callable[[], Instant] | None = None
        self._directories: Callable[[], list[DirectoryState]] = list
        #: The directories of logs that are copied and wait for the controller to know it.
        self._announced: dict[TopicPartition, bytes] = {}
        self.control = control
        self._requests = ControllerRequests(lambda: control.controller)
        self.forwarded = ControllerRequests(lambda: control.controller)
        self.alter_partitions = AlterPartitions(self._me, lambda: self.local_broker_epoch, self._requests)
        self.producer_ids = ControllerProducerIds(self._me, lambda: self.local_broker_epoch, self._requests)
        self.topic_creation = TopicCreation(config, self.forwarded, lambda: self.image)
        self.verification = TransactionVerification(self._me, lambda: self.image, self._verifications_of)
        self._markers: dict[int, BrokerMarkers] = {}
        self._verifications: dict[int, BrokerVerifications] = {}
        self.share_groups: ShareGroupPort = ShareGroupChannels(
            self._me, lambda: self.image, self.node, lambda queue, name: self.open_to_broker(queue, queue, name)
        )
        self.log_ends = LogEndReports(self._me, self._end_of)
        control.attach(self)

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are known."""
        return self.control.image

    @property
    def has_joined(self) -> bool:
        """Whether there is a node that goes by the metadata."""
        return self._publisher is not None

    @property
    def is_recovering(self) -> bool:
        """Whether a role waits for its log."""
        return self._publisher is not None and (not self._has_begun or self._publisher.is_recovering)

    def publish(self, image: MetadataImage, roles: Roles | None = None) -> bool:
        """Have the node go by another image, see `ImagePublisher.publish`; False where that is too early."""
        if self._publisher is None:
            return False
        if not self._has_begun:
            if not self.control.knows_this_life:
                self._publisher.look_on(image)
                return False
            self._has_begun = True
            settle_copies(self._directories(), self._replica)
        assert self._instant is not None
        self._publisher.publish(image, self._instant(), roles)
        return True

    @property
    def failed_roles(self) -> Mapping[TopicPartition, KafkaError]:
        """The partitions whose role could not be taken, with the reason."""
        return {} if self._publisher is None else self._publisher.failed

    # -- joining -----------------------------------------------------------------------------------------------------

    def join(self, node: BrokerNode, store: ImageStore, instant: Callable[[], Instant]) -> None:
        """Give a started node its roles, as far as its logs are there; from now on every change comes to it."""
        self._instant = instant
        self._directories = lambda: node.logs.directories
        state = node.state
        fetchers = self._make_fetchers(node)
        max_lag_ms = self._config.get_int("replica.lag.time.max.ms")
        state.replica_manager.join(
            Cluster(
                *(self._me, self, self.alter_partitions, fetchers, max_lag_ms, self.is_assigned),
                has_begun=lambda: self._has_begun,
            )
        )
        self._publisher = ImagePublisher(self._me, store, state.replica_manager)
        coordinators = coordinators_of(
            lambda: state.group_coordinator, lambda: state.transaction_coordinator, lambda: state.share_coordinator
        )
        elections = CoordinatorElections(self._me, state.replica_manager, coordinators)
        self._tell_directories(state.replica_manager, self._publisher, node.logs)
        self._publisher.on_published += [
            self.log_ends.published,
            elections.published,
            GoneTopics(node, instant).published,
            self.topic_creation.published,
            lambda old, new: self.control.published(),
        ]
        node.core.services += [self._publisher, self.topic_creation]
        node.core.services += self.control.services
        node.core.services.append(IsrShrinking(state.replica_manager, max_lag_ms / 2000, instant().now))
        self.open("alter-partition", self._requests)
        self.open("forwarding", self.forwarded)
        self.publish(self.image, None if self.control.takes_roles_from_images else Roles({}))

    def _make_fetchers(self, node: BrokerNode) -> ReplicaFetchers:
        config, manager = self._config, node.state.replica_manager

        def partition(name: TopicPartition) -> Partition:
            found = manager.used_partition(*name)
            assert found is not None, "only partitions that are there are fetched"
            return found

        logs = ReplicaLogs(node.logs, partition)
        quota = self._throttle(node)
        settings = FetcherSettings(
            config.get_int("replica.fetch.wait.max.ms") / 1000,
            config.get_int("replica.fetch.min.bytes"),
            config.get_int("replica.fetch.max.bytes"),
            config.get_int("replica.fetch.response.max.bytes"),
            config.get_int("replica.fetch.backoff.ms") / 1000,
        )

        def make(leader: int) -> ReplicaFetcher:
            fetcher = ReplicaFetcher(self._me, logs, lambda: self.local_broker_epoch, settings, quota)
            self.open_to_broker(fetcher, LeaderRequests(fetcher, lambda: self.node(leader)), "fetcher")
            fetcher.on_ready = lambda: self._channels[fetcher].wake()
            fetcher.on_fault = node.core.faults.tell
            return fetcher

        fetchers = ReplicaFetchers(make, config.get_int("num.replica.fetchers"))
        fetchers.on_added = lambda fetcher: self._channels[fetcher].wake()
        return fetchers

    def _throttle(self, node: BrokerNode) -> ReplicationQuota:
        """Hold replication at the rates that are set while the broker runs; returns the follower's quota."""
        config, metadata = self._config, node.metadata
        measured = (
            config.get_int("replication.quota.window.num"),
            config.get_int("replication.quota.window.size.seconds"),
        )

        def configs_of(topic: str) -> Mapping[str, str]:
            found = metadata.topic(topic)
            return {} if found is None else found.configs

        leader, follower = (ReplicationQuota(kind, self._me, configs_of, *measured) for kind in (LEADER, FOLLOWER))

        def take_settings() -> None:
            configs = {**node.dynamic_config.for_all, **node.dynamic_config.for_this_broker}
            leader.take_settings(configs)
            follower.take_settings(configs)
            node.state.replica_manager.leader_quota = leader if leader.limit is not None else None

        node.dynamic_config.on_change.append(take_settings)
        take_settings()
        return follower

    def _tell_directories(self, manager: ReplicaManager, publisher: ImagePublisher, logs: Logs) -> None:
        """Have the controller know where replicas lie, from now on."""
        assignments = DirectoryAssignments(
            self._me,
            lambda: self.local_broker_epoch,
            self._requests,
            self._directory_of,
            has_one=len(logs.directories) == 1,
        )
        publisher.on_published.append(assignments.published)
        if not isinstance(logs, LogDirectories):
            return
        logs.on_directory_failed = self.control.directory_failed

        def is_known(name: TopicPartition) -> bool:
            registration, partition = self.image.partition(*name), manager.used_partition(*name)
            if registration is None or partition is None:
                return True
            return assignments.is_known(name, partition.topic_id, registration)

        def may_swap(name: TopicPartition, target: LogManager) -> bool:
            """Have the controller know the new place first: after a failure of that disk it must not lead there."""
            if target.log_directory.directory_id is None:
                return True
            self._announced[name] = target.log_directory.directory_id
            return is_known(name)

        def stays(name: TopicPartition) -> None:
            if self._announced.pop(name, None) is not None:
                is_known(name)

        def moved(name: TopicPartition, _topic_id: bytes) -> None:
            self._announced.pop(name, None)
            is_known(name)

        manager.on_log_moved = moved
        logs.moves.may_swap, logs.moves.on_given_up = may_swap, stays

    def _directory_of(self, name: TopicPartition) -> bytes | None:
        """Return where a replica lies, or is about to."""
        if name in self._announced:
            return self._announced[name]
        holding = [state for state in self._directories() if state.manager.holds(name)]
        # One out of service counts, too: the controller is to have the partition led elsewhere.
        holding.sort(key=lambda state: state.problem is not None)
        return holding[0].manager.log_directory.directory_id if holding else None

    def _replica(self, topic_id: bytes, index: int) -> TopicPartition | None:
        """See `settle_copies`."""
        topic = self.image.topics.get(topic_id)
        name = None if topic is None else TopicPartition(topic.name, index)
        return name if name is not None and self.is_assigned(name) else None

    def _end_of(self, name: TopicPartition) -> tuple[int, int] | None:
        """See `LogEndReports`: a replica without a log has an empty one, but for a directory that may come back."""
        if name in self.failed_roles or self.failed_directories:
            return None
        for state in self._directories():
            try:
                log = state.manager.get_log(name)
            except KafkaError:
                return None
            if log is not None:
                return log.latest_epoch, log.log_end_offset
        return -1, 0

    @property
    def failed_directories(self) -> int:
        """See `ControlledMember`."""
        return sum(state.problem is not None for state in self._directories())

    def offline_directories(self) -> list[bytes]:
        """Return the ids of the data directories that went out of service since the broker was started."""
        found = [state.manager.log_directory.directory_id for state in self._directories() if state.problem is not None]
        return [directory_id for directory_id in found if directory_id]

    # -- what belongs to other brokers -------------------------------------------------------------------------------

    @property
    def served_apis(self) -> Mapping[int, tuple[str, int, int]]:
        """See `MemberPort`."""
        return self.control.served

    @property
    def controller_id(self) -> int | None:
        """See `MemberPort`."""
        return self.control.controller_id

    @property
    def controller_stats(self) -> ControllerStats | None:
        """See `MemberPort`."""
        return self.control.controller_stats

    def controller_numbers(self) -> Iterable[tuple[str, str, float]]:
        """See `MemberPort`."""
        return self.control.controller_numbers()

    @property
    def write_settings(self) -> WriteSettings | None:
        """See `MemberPort`."""
        return self.control.write_settings

    @property
    def write_acls(self) -> WriteAcls | None:
        """See `MemberPort`."""
        return self.control.write_acls

    @property
    def write_tokens(self) -> WriteTokens | None:
        """See `MemberPort`."""
        return self.control.write_tokens

    @property
    def expires_tokens(self) -> bool:
        """See `MemberPort`."""
        return self.control.expires_tokens

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """Return what serves an API in a cluster: the controller, or this broker with what it has to ask others."""
        return self.control.handler(api_key, local)

    def markers(self, local: MarkerWriter) -> MarkerWriter:
        """Return what brings markers to partitions, wherever they are led; `local` is for this broker's."""
        return ClusterMarkers(self._me, local, lambda: self.image, self._markers_of)

    def _markers_of(self, broker_id: int) -> BrokerMarkers:
        found = self._markers.get(broker_id)
        if found is None:
            found = self._markers[broker_id] = BrokerMarkers(lambda: self.node(broker_id))
            self.open_to_broker(found, found, "markers")
        return found

    def _verifications_of(self, broker_id: int) -> BrokerVerifications:
        found = self._verifications.get(broker_id)
        if found is None:
            found = self._verifications[broker_id] = BrokerVerifications(lambda: self.node(broker_id))
            self.open_to_broker(found, found, "verification")
        return found

    def open(self, name: str, requester: Requester, timeout: float = inf) -> None:
        """Give a requester its way to the controllers, under the name of a client; a request may take so long."""
        self._open(name, requester, name, self._config.of_controllers, timeout)
        self._to_controllers.append(self._channels[name])

    def leave_other_controllers(self, controller: Node) -> None:
        """Wait for no answer of a controller that is not the active one any more: it may have gone silently."""
        for channel in self._to_controllers:
            channel.leave_others(controller)

    def open_to_broker(self, key: object, requester: Requester, name: str) -> None:
        """Give a requester its way to other brokers, under the name of a client."""
        self._open(key, requester, name, self._config.of_brokers)

    def _open(self, key: object, requester: Requester, name: str, listener: PeerListener, timeout: float = inf) -> None:
        least = min(timeout, self._timeout)
        channel = self._open_channel(requester, f"broker-{self._me}-{name}", least, listener)
        self._channels[key] = channel
        if isinstance(requester, ControllerRequests | BrokerQueue):
            requester.wake = channel.wake

    def close(self, key: object) -> None:
        """Take the way of a requester away: what it has in flight is not answered."""
        self._channels.pop(key).close()

    def wake(self, key: object) -> None:
        """Have one requester asked soon."""
        self._channels[key].wake()

    def wake_all(self) -> None:
        """Have all requesters asked soon: they may reach now what they could not reach before."""
        for channel in self._channels.values():
            channel.wake()

    # -- what the data plane asks (`Brokers`) ------------------------------------------------------------------------

    @property
    def local_broker_epoch(self) -> int:
        """See `Brokers`."""
        return self.control.broker_epoch

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        """See `Brokers`."""
        found = self.image.brokers.get(broker_id)
        return found.epoch if found is not None and found.is_alive else None

    def is_shutting_down(self, broker_id: int) -> bool:
        """See `Brokers`."""
        found = self.image.brokers.get(broker_id)
        return found is not None and found.in_controlled_shutdown

    def is_assigned(self, name: TopicPartition) -> bool:
        """Whether this broker has a replica of a partition."""
        registration = self.image.partition(*name)
        return registration is not None and self._me in registration.replicas

    def node(self, broker_id: int) -> Node | None:
        """Return where brokers reach another broker."""
        found: BrokerRegistration | None = self.image.brokers.get(broker_id)
        endpoint = None if found is None else found.listeners.get(self._config.inter_broker_listener)
        return None if endpoint is None else Node(broker_id, endpoint.host, endpoint.port)


class IsrShrinking:
    """Has leaders look for followers that lag, every half `replica.lag.time.max.ms`; a service of the dispatcher."""

    __slots__ = ("_interval", "_manager", "_next")

    def __init__(self, manager: ReplicaManager, interval: float, now: float) -> None:
        self._manager = manager
        self._interval = interval
        self._next = now + interval

    def next_deadline(self) -> float:
        """When it is due."""
        return self._next

    def tick(self, instant: Instant) -> None:
        """Look once."""
        self._next = instant.now + self._interval
        self._manager.shrink_isrs(instant.now_ms)
