"""Puts the parts of a broker together and takes them apart again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.broker_state import BrokerState
from barnabas.broker.client_quota_manager import ClientQuotas
from barnabas.broker.coordinator.internal_topic import InternalTopic
from barnabas.broker.coordinator.lazy_coordinator import LazyCoordinator
from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.log.checkpoint_files import Owner
from barnabas.broker.log.log_directories import LogDirectories, Logs
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.loggers import Loggers
from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ClusterMetadata,
)
from barnabas.broker.metadata.metadata_cache import ImageView, SoleBroker
from barnabas.broker.node_apis import BrokerApis
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.replication.replication_quota import ALTER_LOG_DIRS_RATE, Throttle
from barnabas.broker.request_dispatcher import RequestDispatcher
from barnabas.broker.request_log import RequestLog
from barnabas.broker.security.delegation_tokens import DelegationTokenExpiry, DelegationTokens, with_tokens
from barnabas.broker.security.listener_security import AUTHORIZER_SETTINGS, ListenerSecurities
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.broker.storage_threads import GuardedStorage, InlineStorage
from barnabas.broker.topic_admin import TopicAdmin
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    import random

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.config_admin_manager import ConfigAdmin
    from barnabas.broker.groups.group_coordinator import GroupCoordinator
    from barnabas.broker.handlers.registry import ClusterHandlers
    from barnabas.broker.instant import Instant
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.member_port import MemberPort
    from barnabas.broker.metadata.metadata_cache import ClusterView
    from barnabas.broker.metadata.metadata_store import MetadataStore
    from barnabas.broker.security.authorization import Authorization
    from barnabas.broker.security.scram_sasl_server import FindUser
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator
    from barnabas.broker.share.default_state_persister import DefaultStatePersister
    from barnabas.broker.share.share_partition_manager import SharePartitionManager
    from barnabas.broker.storage_threads import Storage
    from barnabas.broker.transactions.marker import MarkerWriter
    from barnabas.broker.transactions.transaction_coordinator import TransactionCoordinator
    from barnabas.protocol.topic_partition import TopicPartition

    class Member(MemberPort, ClusterHandlers, Protocol):
        """A membership in a cluster, as `ClusterMember` is one."""


#: One step of the log manager's background work: so many pieces of it, and then so many seconds of rest.
BACKGROUND_BUDGET = 64
BACKGROUND_INTERVAL = 1.0
#: When logs that no request has needed are opened, in seconds after the start: clients that wait come first.
BACKGROUND_DELAY = 0.2
#: When groups and transactions from before are loaded, in seconds after the start.
COORDINATORS_DELAY = 0.5


class Disk(NamedTuple):
    """Where a broker keeps its logs; without `filesystem` that of the system, without `storage` nothing waits beside.

    `directories` are those of `log.dirs`, in their order.
    """

    directories: Sequence[str]
    filesystem: FileSystem | None = None
    storage: Storage | None = None


class BrokerNode:
    """One broker: a `RequestDispatcher` with all that it needs, on a data directory and a metadata store.

    It has no sockets and reads no clock; `SocketServer` or a simulator drives `core`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        store: MetadataStore,
        random: random.Random,
        warn: Callable[[str], None],
        member: Member | None = None,
    ):
        directories, filesystem, storage = disk
        storage = GuardedStorage(storage or InlineStorage(), self._failed)
        self.config = config
        self.metadata = ClusterMetadata(store, storage)
        self.metadata.on_write_failed = lambda problem: warn(
            f"{problem}; topics, settings and quotas stay as they are until it can be written again"
        )
        self.metadata.on_written_again = lambda: warn("the metadata can be written again")
        self.state = BrokerState(config, random)
        self.state.member = member
        self.dynamic_config = DynamicBrokerConfig(config, self.metadata, warn)
        # Before any part reads the settings.
        self.dynamic_config.reload()
        managers = [
            LogManager(
                path,
                filesystem,
                config.log_settings,
                random_bytes=random.randbytes,
                storage=storage,
                has_copies=member is not None,
            )
            for path in directories
        ]
        for manager in managers:
            manager.notify_faults(self._failed)
        self.logs: Logs = managers[0] if len(managers) == 1 else LogDirectories(managers)
        self.core = RequestDispatcher(self.state, warn, BrokerApis(self.state, member))
        self.request_log = RequestLog(warn)
        self._authorization = self._make_authorization()
        self.scram_users = ScramUsers(self.metadata)
        write_tokens = None if member is None else member.write_tokens
        self.state.delegation_tokens = DelegationTokens(config, self.metadata, storage, write_tokens)
        self.securities = ListenerSecurities(config, self._find_scram_user, storage, warn)
        self.core.channel.securities = self.securities.by_listener
        #: The id of the cluster, where neither the metadata nor the data directory has one yet.
        self.wanted_cluster_id: str | None = None
        self._store = store
        self._warn = warn
        self._groups: LazyCoordinator[GroupCoordinator] | None = None
        self._transactions: LazyCoordinator[TransactionCoordinator] | None = None
        self._shares: LazyCoordinator[ShareCoordinator] | None = None
        self._share_partitions: LazyCoordinator[SharePartitionManager] | None = None
        self._persister: DefaultStatePersister | None = None

    def _failed(self, what: str, problem: Exception) -> None:
        self.core.faults.tell(what, problem)

    def start(self, instant: Instant) -> None:
        """Take the data directory; its logs are opened, and what a crash left is recovered, as requests or ticks come.

        Raises KafkaStorageError if the data directory cannot be used, for instance because another broker does.
        """
        state, metadata, config = self.state, self.metadata, self.config
        self.logs.start(self._topic_settings, instant.now_ms, self._identify, open_logs=False)
        state.metadata = metadata
        state.loggers = Loggers(lambda level: self.request_log.follow_level(level, self.core.observers))
        state.client_quotas = ClientQuotas(metadata, config)
        state.authorization = self._authorization
        if self._authorization is not None:
            metadata.on_values_changed.append(self._authorization.values_changed)
        state.make_config_admin = self._make_config_admin
        metadata.on_quotas_changed = state.client_quotas.changed
        metadata.on_configs_changed = self.dynamic_config.configs_changed
        self.dynamic_config.on_change.append(self._defaults_changed)
        if isinstance(self.logs, LogDirectories):
            self._throttle_moves(self.logs)
        self.dynamic_config.on_change.append(self.securities.settings_changed)
        self.dynamic_config.check_security = self.securities.check
        if self.securities.next_deadline() < inf:
            self.core.services.append(self.securities)
        state.topic_admin = TopicAdmin(
            config, metadata, state.random, None if state.member is None else state.member.topic_creation
        )
        state.replica_manager = ReplicaManager(config, metadata, self.logs, state.purgatory)
        state.replica_manager.on_log_reopened = self._log_reopened
        state.view = self._make_view()
        state.replica_manager.adopt_logs(self._warn)
        groups = self._groups = LazyCoordinator(self._make_groups, self._load_at(GROUP_METADATA_TOPIC, instant.now))
        state.make_group_coordinator = groups.make
        transactions = LazyCoordinator(self._make_transactions, self._load_at(TRANSACTION_STATE_TOPIC, instant.now))
        self._transactions = transactions
        state.make_transaction_coordinator = transactions.make
        shares = self._shares = LazyCoordinator(self._make_shares, self._load_at(SHARE_GROUP_STATE_TOPIC, instant.now))
        state.make_share_coordinator = shares.make
        led = self._share_partitions = LazyCoordinator(self._make_share_partitions, inf)
        state.make_share_partition_manager = led.make
        self.core.channel.on_disconnected = self._disconnected
        self.core.services += [groups, transactions, shares, led]
        self.core.services.append(state.large_responses)
        self.core.services.append(LogMaintenance(self.logs, instant.now))
        member = state.member
        if member is None or member.write_tokens is not None:
            tokens = state.delegation_tokens
            self.core.services.append(
                DelegationTokenExpiry(tokens, metadata, config, lambda: member is None or member.expires_tokens)
            )

    def _find_scram_user(self, mechanism: str) -> FindUser:
        return with_tokens(self.scram_users.finder(mechanism), self.state.delegation_tokens.finder(mechanism))

    def _make_view(self) -> ClusterView:
        state, metadata = self.state, self.metadata
        if state.member is not None:
            member = state.member
            return ImageView(lambda: member.image, lambda: member.controller_id)

        def count(topic: str) -> int:
            found = metadata.topic(topic)
            return 0 if found is None else found.partitions

        offline = state.replica_manager.offline_partitions
        return SoleBroker(state.node_id, state.rack, state.advertised, count, offline)

    @property
    def loaded_groups(self) -> GroupCoordinator | None:
        """The group coordinator if it was needed already, for those who look on."""
        return self._groups.made if self._groups is not None else None

    @property
    def loaded_transactions(self) -> TransactionCoordinator | None:
        """The transaction coordinator if it was needed already, for those who look on."""
        return self._transactions.made if self._transactions is not None else None

    @property
    def loaded_shares(self) -> ShareCoordinator | None:
        """The share coordinator if it was needed already, for those who look on."""
        return self._shares.made if self._shares is not None else None

    @property
    def loaded_share_partitions(self) -> SharePartitionManager | None:
        """The share-partitions that are led here if any was needed already, for those who look on."""
        return None if self._share_partitions is None else self._share_partitions.made

    def _log_reopened(self, name: TopicPartition) -> None:
        groups, transactions = self.loaded_groups, self.loaded_transactions
        if name.topic == GROUP_METADATA_TOPIC and groups is not None:
            groups.on_log_reopened(name.partition)
        elif name.topic == TRANSACTION_STATE_TOPIC and transactions is not None:
            transactions.on_log_reopened(name.partition)
        elif name.topic == SHARE_GROUP_STATE_TOPIC and self.loaded_shares is not None:
            self.loaded_shares.on_log_reopened(name.partition)

    def _load_at(self, topic: str, now: float) -> float:
        if self.state.member is not None:
            # What this broker leads is loaded with its election.
            return inf
        return now + COORDINATORS_DELAY if self.metadata.topic(topic) is not None else inf

    def _internal_topic(self, name: str, setting: str) -> InternalTopic:
        metadata, usual = self.state.metadata, self.config.get_int(setting)

        def count() -> int:
            existing = metadata.topic(name)
            return usual if existing is None else existing.partitions

        return InternalTopic(name, self.state.replica_manager, self.logs, self.state.topic_admin, count)

    def _make_groups(self) -> GroupCoordinator:
        from barnabas.broker.coordinator.partition_storage import BatchStorage
        from barnabas.broker.groups.group_coordinator import GroupCoordinator

        state, config = self.state, self.config
        topic = self._internal_topic(GROUP_METADATA_TOPIC, "offsets.topic.num.partitions")
        storage = BatchStorage(topic, config.get_int("offsets.topic.compression.codec"))
        coordinator = GroupCoordinator(
            config, storage, state.metadata, state.random, self._warn, state.metadata.group_configs
        )
        coordinator.notify_faults(self.core.faults.tell)
        end_offset = (
            self._end_offset if state.member is None else state.member.share_groups.end_offsets(self._end_offset)
        )
        coordinator.serve_share_groups(self._make_persister, end_offset)
        coordinator.startup(self.core.instant, elected=state.member is None)
        return coordinator

    def _end_offset(self, topic: str, index: int, tell: Callable[[int | KafkaError], None]) -> None:
        try:
            tell(self.state.replica_manager.partition(topic, index).log.latest_offset().offset)
        except KafkaError as problem:
            tell(problem)

    def _make_transactions(self) -> TransactionCoordinator:
        from barnabas.broker.coordinator.partition_storage import BatchStorage
        from barnabas.broker.transactions.partition_markers import PartitionMarkers
        from barnabas.broker.transactions.transaction_coordinator import TransactionCoordinator

        state, config = self.state, self.config
        topic = self._internal_topic(TRANSACTION_STATE_TOPIC, "transaction.state.log.num.partitions")
        storage = BatchStorage(topic)
        markers: MarkerWriter = PartitionMarkers(state.replica_manager, lambda: state.group_coordinator)
        if state.member is not None:
            markers = state.member.markers(markers)
        coordinator = TransactionCoordinator(config, storage, markers, state.producer_id_manager.next, self._warn)
        coordinator.notify_faults(self.core.faults.tell)
        coordinator.startup(self.core.instant, elected=state.member is None)
        return coordinator

    def _make_persister(self) -> DefaultStatePersister:
        if self._persister is None:
            from barnabas.broker.share.default_state_persister import DefaultStatePersister

            member = self.state.member
            ask_other = None if member is None else member.share_groups.ask
            self._persister = DefaultStatePersister(lambda: self.state.share_coordinator, ask_other)
            self.core.services.append(self._persister)
        return self._persister

    def _make_share_partitions(self) -> SharePartitionManager:
        from barnabas.broker.share.share_group_config import ShareGroupSettings
        from barnabas.broker.share.share_group_metrics import ShareGroupMetrics
        from barnabas.broker.share.share_partition_manager import SharePartitionManager

        state = self.state
        settings = ShareGroupSettings(self.config, state.metadata.group_configs)
        metrics = ShareGroupMetrics(lambda: self.core.instant.now)
        return SharePartitionManager(state.replica_manager, self._make_persister(), settings, metrics)

    def _disconnected(self, connection_id: int) -> None:
        made = self.loaded_share_partitions
        if made is not None:
            made.connection_lost(connection_id, self.core.instant)

    def _make_shares(self) -> ShareCoordinator:
        from barnabas.broker.coordinator.partition_storage import BatchStorage
        from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator

        state, config = self.state, self.config
        topic = self._internal_topic(SHARE_GROUP_STATE_TOPIC, "share.coordinator.state.topic.num.partitions")
        coordinator = ShareCoordinator(
            config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
            BatchStorage(topic, config.get_int("share.coordinator.state.topic.compression.codec")),
            state.metadata,
            topic.delete_before,
            self._warn,
            lambda: self.core.instant.now,
        )
        coordinator.notify_faults(self.core.faults.tell)
        coordinator.startup(self.core.instant, elected=state.member is None)
        return coordinator

    def close(self, now_ms: int) -> None:
        """Answer who waits, flush and close the logs, mark the shutdown as a clean one, close the store."""
        if self._share_partitions is not None:
            self._share_partitions.close()
        if self._shares is not None:
            self._shares.close()
        if self._transactions is not None:
            self._transactions.close()
        if self._groups is not None:
            self._groups.close()
        self.logs.close()
        self.metadata.close()
        self._store.close()

    def _make_authorization(self) -> Authorization | None:
        if not any(self.config.is_given(name) for name in AUTHORIZER_SETTINGS):
            return None
        from barnabas.broker.security.authorization import make_authorization

        member = self.state.member
        return make_authorization(self.config, self.metadata, None if member is None else member.write_acls)

    def _make_config_admin(self) -> ConfigAdmin:
        from barnabas.broker.config_admin_manager import ConfigAdmin

        member = self.state.member
        write = None if member is None else member.write_settings
        return ConfigAdmin(self.config, self.metadata, self.dynamic_config, self.state.loggers, write)

    def _defaults_changed(self) -> None:
        self.logs.update_defaults(self.config.log_settings, self._topic_settings)

    def _throttle_moves(self, logs: LogDirectories) -> None:
        windows = self.config.get_int("alter.log.dirs.replication.quota.window.num")
        seconds = self.config.get_int("alter.log.dirs.replication.quota.window.size.seconds")
        rate = logs.moves.rate = Throttle(ALTER_LOG_DIRS_RATE, windows, seconds)

        def take_settings() -> None:
            rate.take_settings({**self.dynamic_config.for_all, **self.dynamic_config.for_this_broker})

        self.dynamic_config.on_change.append(take_settings)
        take_settings()

    def _identify(self, cluster_id: str | None) -> Owner:
        wanted = self.wanted_cluster_id
        found = self.metadata.ensure_cluster_id(self.state.random, cluster_id or wanted)
        if wanted not in (None, found):
            self._warn(f"the cluster id {wanted} is not taken: the data directory belongs to cluster {found}")
        # An Apache Kafka broker under ZooKeeper, which may have the directory next, reads no other version than 0.
        return (
            Owner(found, self.config.node_id) if self.config.zookeeper is None else Owner(found, self.config.node_id, 0)
        )

    def _topic_settings(self, topic: str) -> dict[str, object]:
        found = self.metadata.topic(topic)
        return dict(found.configs) if found is not None else {}


class LogMaintenance:
    """Gives the log manager its time: for opening logs, retention, flushing, deleting, checkpoints, in small steps."""

    __slots__ = ("_logs", "_next")

    def __init__(self, logs: Logs, now: float):
        self._logs = logs
        self._next = now + (BACKGROUND_DELAY if logs.unopened else BACKGROUND_INTERVAL)
        logs.notify_prepared(self._go_on)

    def next_deadline(self) -> float:
        """When the next step is due."""
        return self._next

    def _go_on(self) -> None:
        self._next = -inf

    def tick(self, instant: Instant) -> None:
        """One step."""
        more = self._logs.step(BACKGROUND_BUDGET, instant.now_ms)
        self._next = instant.now if more else instant.now + BACKGROUND_INTERVAL
