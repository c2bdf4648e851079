"""Puts the parts of a controller together, without sockets (ControllerServer)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.broker_state import BrokerState
from barnabas.broker.client_quota_manager import ClientQuotas
from barnabas.broker.config_admin_manager import ConfigAdmin
from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.controller.controller_managers import ControllerSettings
from barnabas.broker.controller.quorum_controller import ControllerEnvironment, QuorumController
from barnabas.broker.controller.snapshot_generator import SnapshotGenerator, SnapshotLimits
from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.kraft.broker_probes import BrokerProbes
from barnabas.broker.kraft.controller_requests import ControllerRequests
from barnabas.broker.loggers import Loggers
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.image_store import ImageStore
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.raft.kafka_metadata_log import FileQuorumStateStore, KafkaMetadataLog
from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
from barnabas.broker.raft.raft_config import RaftConfig
from barnabas.broker.raft.voter_set import Endpoint, VoterSet
from barnabas.broker.request_dispatcher import RequestDispatcher
from barnabas.broker.request_log import RequestLog
from barnabas.broker.security.delegation_tokens import DelegationTokens, with_tokens
from barnabas.broker.security.listener_security import AUTHORIZER_SETTINGS, ListenerSecurities
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.broker.silent_machines import Silence
from barnabas.broker.storage_threads import GuardedStorage
from barnabas.network.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
    from barnabas.broker.controller.quorum_controller import Committed
    from barnabas.broker.instant import Instant
    from barnabas.broker.kraft.quorum_storage import QuorumStorage
    from barnabas.broker.security.authorization import Authorization
    from barnabas.broker.security.scram_sasl_server import FindUser
    from barnabas.broker.storage_threads import Storage

_FIRST_UNKNOWN = -2


class NodeEnvironment(NamedTuple):
    """What a node gets from its process: both clocks, chance, threads for the disk, and whom it tells of trouble."""

    clocks: Callable[[], Instant]
    random: Random
    storage: Storage
    warn: Callable[[str], None]


class ControllerNode:
    """A controller with its replica of the quorum's log; `SocketServer` drives `core`, a `RaftDriver` `raft`.

    `addresses` are where its listeners are reached: name, then host and port. Raises `KafkaStorageError` where the log
    cannot be opened, and `ConfigError`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: QuorumStorage,
        addresses: Mapping[str, tuple[str, int]],
        environment: NodeEnvironment,
    ) -> None:
        self.config = config
        self.cluster_id = storage.cluster_id
        guarded = GuardedStorage(environment.storage, lambda what, problem: self.core.faults.tell(what, problem))
        environment = self._environment = environment._replace(storage=guarded)
        #: What waits for the disk; a fault of this program in it is told.
        self.storage: Storage = guarded
        instant = environment.clocks()
        log_settings = {name: config[name] for name in _LOG_SETTINGS}
        log = KafkaMetadataLog(storage.filesystem, storage.path, log_settings, instant.now_ms)
        self.raft = KafkaRaftClient(
            raft_config(config, storage, addresses),
            log,
            FileQuorumStateStore(storage.filesystem, storage.path),
            environment.random,
        )
        partition = self.raft.replica.partition_state
        self.controller = QuorumController(
            self.raft,
            ControllerSettings.of(config, storage.cluster_id, _Voters(self.raft)),
            config,
            storage.bootstrap,
            ControllerEnvironment(
                environment.clocks, environment.random, environment.warn, lambda: partition.kraft_version
            ),
        )
        self.store = ImageStore(storage.cluster_id, MetadataImage())
        self.metadata = ClusterMetadata(self.store, environment.storage)
        self.state = BrokerState(config, environment.random)
        identity = ControllerIdentity(storage.cluster_id, config.controller_listener_names[0])
        self.requests = ControllerRequests(self.state, ControllerApis(self.controller, identity))
        self.core = RequestDispatcher(self.state, environment.warn, self.requests)
        self.requests.on_fault = self.controller.on_fault = self.core.faults.tell
        self.request_log = RequestLog(environment.warn)
        silence = Silence.of(
            config.get_int("broker.silence.timeout.ms"), config.get_seconds("broker.session.timeout.ms")
        )
        self.probes = BrokerProbes(config.inter_broker_listener, self._broker_ended, silence, config.node_id)
        self.probes.gone = self._broker_gone
        self.controller.on_active = lambda is_active: self.probes.lead(is_active, self._now)
        self.requests.on_heartbeat = lambda connection, whose: self.probes.heard(connection, whose, self._now)
        self.core.channel.on_disconnected = lambda connection: self.probes.connection_ended(connection, self._now)
        self.snapshots = SnapshotGenerator(self.raft, snapshot_limits(config), environment.warn, guarded)
        self.snapshots.ended_at = instant.now
        self.state.advertised = dict(addresses)
        self._fill_state()
        #: When the last committed record was appended, in ms.
        self.last_applied_ms = 0
        self.controller.on_committed += [self._publish, self.snapshots.publish]
        self.core.services += [
            _Turning(self.controller, self),
            _Turning(self.snapshots, self),
            self.state.large_responses,
            self.probes,
        ]

    def _fill_state(self) -> None:
        """Make what handlers, listeners and rules ask: all of it follows the committed image."""
        config, metadata, state, environment = self.config, self.metadata, self.state, self._environment
        dynamic = DynamicBrokerConfig(config, metadata, environment.warn)
        dynamic.reload()
        users = ScramUsers(metadata)
        state.metadata = metadata
        state.delegation_tokens = DelegationTokens(config, metadata, environment.storage)

        def find_user(mechanism: str) -> FindUser:
            return with_tokens(users.finder(mechanism), state.delegation_tokens.finder(mechanism))

        securities = ListenerSecurities(config, find_user, environment.storage, environment.warn)
        self.core.channel.securities = securities.by_listener
        dynamic.on_change.append(securities.settings_changed)
        dynamic.check_security = securities.check
        if securities.next_deadline() < inf:
            self.core.services.append(securities)
        state.loggers = Loggers(lambda level: self.request_log.follow_level(level, self.core.observers))
        state.client_quotas = ClientQuotas(metadata, config)
        state.authorization = self._make_authorization()
        if state.authorization is not None:
            metadata.on_values_changed.append(state.authorization.values_changed)
        metadata.on_quotas_changed = state.client_quotas.changed
        metadata.on_configs_changed = dynamic.configs_changed
        state.make_config_admin = lambda: ConfigAdmin(config, metadata, dynamic, state.loggers)

    def _make_authorization(self) -> Authorization | None:
        if not any(self.config.is_given(name) for name in AUTHORIZER_SETTINGS):
            return None
        from barnabas.broker.security.authorization import make_authorization

        return make_authorization(self.config, self.metadata)

    @property
    def _now(self) -> float:
        return self._environment.clocks().now

    def _broker_ended(self, whose: BrokerIdAndEpoch) -> None:
        self._fence(whose, "has ended: its connection was lost, and its port refuses another")

    def _broker_gone(self, whose: BrokerIdAndEpoch) -> None:
        self._fence(
            whose, "is silent: its heartbeats do not come, and nothing comes back from its port, as from others'"
        )

    def _fence(self, whose: BrokerIdAndEpoch, why: str) -> None:
        if self.controller.is_active:
            self._environment.warn(
                f"broker {whose.id} of epoch {whose.epoch} {why}; it is fenced before its session expires"
            )
            self.controller.fence_ended(whose)
            self.requests.turn_soon()

    def _publish(self, committed: Committed, now: Instant) -> None:
        self.last_applied_ms = committed.append_timestamp
        self.probes.follow(committed.image.brokers, now.now)
        if committed.image is not self.store.image:
            self.store.publish_image(committed.image)

    @property
    def leader(self) -> Node | None:
        """The active controller, as far as this one knows, and where it is reached."""
        found = self.raft.leader_and_epoch.leader_id
        if found is None:
            return None
        name = self.config.controller_listener_names[0]
        if found == self.config.node_id:
            return Node(found, *self.state.advertised[name])
        return self.raft.replica.partition_state.last_voter_set.address(found, name)


class _Turning:
    """A service of the dispatcher that may append to the log, which then gets its turn."""

    def __init__(self, service: QuorumController | SnapshotGenerator, node: ControllerNode) -> None:
        self._service = service
        self._node = node

    def next_deadline(self) -> float:
        """When it is due."""
        return self._service.next_deadline()

    def tick(self, instant: Instant) -> None:
        """Do what is due."""
        self._service.tick(instant)
        self._node.requests.turn_soon()


class _Voters(Sequence[int]):
    """The ids of the voters as they are now: in a dynamic quorum they change."""

    def __init__(self, raft: KafkaRaftClient) -> None:
        self._partition = raft.replica.partition_state

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        return self._partition.last_voter_set.ids[index]

    def __len__(self) -> int:
        return len(self._partition.last_voter_set)


_LOG_SETTINGS = (
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
)


def raft_config(config: BrokerConfig, storage: QuorumStorage, addresses: Mapping[str, tuple[str, int]]) -> RaftConfig:
    """Return what the settings say of the quorum, and of this node in it."""
    listener = config.controller_listener_names[0]
    return RaftConfig(
        node_id=config.node_id,
        directory_id=storage.directory_id,
        cluster_id=storage.cluster_id,
        listeners=tuple(sorted(Endpoint(name, *address) for name, address in addresses.items())),
        listener_name=listener,
        static_voters=VoterSet.from_addresses(listener, config.voters),
        bootstrap=tuple(
            Node(_FIRST_UNKNOWN - index, host, port) for index, (host, port) in enumerate(config.controllers)
        ),
        election_timeout=config.get_seconds("controller.quorum.election.timeout.ms"),
        fetch_timeout=config.get_seconds("controller.quorum.fetch.timeout.ms"),
        election_backoff_max=config.get_seconds("controller.quorum.election.backoff.max.ms"),
        append_linger=config.get_seconds("controller.quorum.append.linger.ms"),
        request_timeout=config.get_seconds("controller.quorum.request.timeout.ms"),
        retry_backoff=config.get_seconds("controller.quorum.retry.backoff.ms"),
        auto_join=config.get_bool("controller.quorum.auto.join.enable"),
    )


def snapshot_limits(config: BrokerConfig) -> SnapshotLimits:
    """Return when the settings want a snapshot."""
    seconds = config.get_seconds("metadata.log.max.snapshot.interval.ms")
    return SnapshotLimits(config.get_int("metadata.log.max.record.bytes.between.snapshots"), seconds or inf)
