"""Settings of a running broker: which ones may change, what is stored of them, and how they come into force (KIP-226).

A value set for one broker goes before one set for all brokers (resource name ""), which goes before the configuration
file, which goes before the default.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.config import parse_limits
from barnabas.broker.features import has_eligible_leader_replicas
from barnabas.broker.listener_config import PREFIX
from barnabas.broker.metadata.cluster_metadata import BROKERS
from barnabas.broker.replication.replication_quota import ALTER_LOG_DIRS_RATE, RATES
from barnabas.config.config_def import ConfigKey, definitions
from barnabas.config.support import IGNORED, SUPPORTED, subject_of

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What Apache Kafka 4.3 lets change for one broker or for all of them.
CLUSTER_WIDE = _names(
    """
    background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    config.providers cordoned.log.dirs follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
    group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms group.streams.assignment.interval.ms
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
    log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
    log.message.timestamp.before.max.ms log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms
    log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms max.connection.creation.rate
    max.connections max.connections.per.ip max.connections.per.ip.overrides message.max.bytes metric.reporters
    min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
    principal.builder.class producer.id.expiration.ms remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
    remote.log.reader.threads share.coordinator.cached.buffer.max.bytes transaction.partition.verification.enable
    unclean.leader.election.enable
    """
)
#: What it lets change for one broker only.
PER_BROKER = _names(
    """
    listener.security.protocol.map listeners sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.mechanism.inter.broker.protocol ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """
)
DYNAMIC = CLUSTER_WIDE | PER_BROKER
#: What can be set while a broker runs, and not in its file (QuotaConfig.brokerQuotaConfigs).
QUOTAS = {
    name: ConfigKey({"name": name, "type": "long", "default": 2**63 - 1, "valid": "[0,...]"}, {})
    for name in (*RATES.values(), ALTER_LOG_DIRS_RATE)
}
#: Of these, what this broker reads only when it starts.
_NEEDS_RESTART = _names("listeners listener.security.protocol.map num.replica.fetchers")
#: Names that begin so belong to listeners, and to what they are made of.
_OF_LISTENERS = (PREFIX, "ssl.", "sasl.")
#: Thread pools, which Kafka lets at most double or halve at once.
_POOLS = _names(
    """
    background.threads log.cleaner.threads num.io.threads num.network.threads num.recovery.threads.per.data.dir
    num.replica.fetchers
    """
)


MIN_INSYNC_REPLICAS = "min.insync.replicas"


class DynamicBrokerConfig:
    """Keeps a `BrokerConfig` at what its metadata says, and says what may be stored there.

    The functions in `on_change` are called after the values have changed.
    """

    def __init__(self, config: BrokerConfig, metadata: ClusterMetadata, warn: Callable[[str], None]):
        self._config = config
        self._metadata = metadata
        self._warn = warn
        self._name = str(config.node_id)
        self.on_change: list[Callable[[], None]] = []
        #: Raises ConfigError where listeners could not use these settings, such as a key store that is not there.
        self.check_security: Callable[[BrokerConfig], None] = lambda config: None

    @property
    def for_all(self) -> dict[str, str]:
        """What holds for all brokers.

        With eligible leader replicas (KIP-966) the cluster always has a `min.insync.replicas`, so that no broker goes
        by one of its own: what is stored, or else this broker's static value.
        """
        stored = self._metadata.configs(BROKERS, "")
        if MIN_INSYNC_REPLICAS in stored or not has_eligible_leader_replicas(self._metadata):
            return stored
        key = definitions("broker").keys[MIN_INSYNC_REPLICAS]
        return {**stored, MIN_INSYNC_REPLICAS: str(self._config.given.get(key.name, key.default))}

    @property
    def for_this_broker(self) -> dict[str, str]:
        """What is stored for this one."""
        return self._metadata.configs(BROKERS, self._name)

    def reload(self) -> None:
        """Take over what is stored."""
        self._config.apply_dynamic(self._usable(self.for_all), self._usable(self.for_this_broker))
        for told in self.on_change:
            told()

    def check_min_insync_replicas(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        """Whether these settings leave `min.insync.replicas` to the cluster, as eligible leader replicas need it.

        Raises `InvalidConfigurationError` for a broker's own value and for the removal of the cluster's.
        """
        if not has_eligible_leader_replicas(self._metadata):
            return
        if per_broker and configs.get(MIN_INSYNC_REPLICAS) != self.for_this_broker.get(MIN_INSYNC_REPLICAS):
            raise errors.InvalidConfigurationError(
                f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
            )
        if not per_broker and MIN_INSYNC_REPLICAS not in configs:
            raise errors.InvalidConfigurationError(
                f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
            )

    def configs_changed(self, kind: str, name: str) -> None:
        """Take over the settings of a resource, which have changed in the metadata."""
        if kind == BROKERS and name in ("", self._name):
            self.reload()

    def validate(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        """Whether all of `configs` could be stored, for this broker or for all. Raises InvalidRequestError."""
        known = definitions("broker").keys
        _refuse("Cannot update these configs dynamically", (n for n in configs if n in known and n not in DYNAMIC))
        if not per_broker:
            _refuse(
                "Cannot update these configs at default cluster level, broker id must be specified",
                (name for name in configs if name in PER_BROKER),
            )
        for name, text in configs.items():
            if name in QUOTAS:
                _check_quota(name, text)
            elif name in known:
                self._check_value(name, text)
        if any(name.startswith(_OF_LISTENERS) for name in configs):
            self._check_listeners(configs, per_broker=per_broker)

    def _check_listeners(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        # Kafka goes by the end of the name: what may change for the broker may change for one of its listeners.
        _refuse(
            "Cannot update these configs dynamically",
            (n for n in configs if n.startswith(PREFIX) and not any(n.endswith(f".{end}") for end in DYNAMIC)),
        )
        if not per_broker:
            _refuse(
                "Cannot update these configs at default cluster level, broker id must be specified",
                (name for name in configs if name.startswith(PREFIX)),
            )
        candidate = copy.copy(self._config)
        try:
            candidate.apply_dynamic(self._config.dynamic_default, configs)
            self.check_security(candidate)
        except errors.ConfigError as problem:
            raise errors.InvalidRequestError(str(problem)) from problem

    def _check_value(self, name: str, text: str) -> None:
        key = definitions("broker").keys[name]
        try:
            value = key.parse(text)
            if name == "max.connections.per.ip.overrides":
                parse_limits(text)
        except errors.ConfigError as problem:
            raise errors.InvalidRequestError(str(problem)) from problem
        if name not in SUPPORTED["broker"] and name not in IGNORED["broker"] and value != key.default:
            raise errors.InvalidRequestError(f"{name} is not supported yet ({subject_of(name)}).")
        if name in _NEEDS_RESTART and value != self._config[name]:
            raise errors.InvalidRequestError(
                f"{name} cannot change while this broker runs: change it in its configuration and restart it."
            )
        if name in _POOLS:
            self._check_pool(name, value)

    def _check_pool(self, name: str, value: int) -> None:
        current = self._config.get_int(name)
        if value != current and not current / 2 <= value <= current * 2:
            raise errors.InvalidRequestError(
                f"{name}={value} is refused: it may be at least half and at most double the current value {current}."
            )

    def _usable(self, stored: Mapping[str, str]) -> dict[str, str]:
        # What another version of this program has stored must not keep this one from starting.
        # What no broker knows is kept for plugins that might, as Kafka does.
        found, known = {}, definitions("broker").keys
        for name, text in stored.items():
            try:
                if name in QUOTAS:
                    _check_quota(name, text)
                elif name in _POOLS:
                    known[name].parse(text)
                elif name in known:
                    self._check_value(name, text)
            except errors.KafkaError as problem:
                self._warn(f"a stored setting has no effect: {problem}")
            else:
                found[name] = text
        return found


def _check_quota(name: str, text: str) -> None:
    try:
        QUOTAS[name].parse(text)
    except errors.ConfigError as problem:
        raise errors.InvalidRequestError(str(problem)) from problem


def _refuse(what: str, names: Iterable[str]) -> None:
    found = sorted(names)
    if found:
        raise errors.InvalidRequestError(f"{what}: [{', '.join(found)}]")
