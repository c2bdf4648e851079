"""The controller's managers, one for each subject, over one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.acl_control_manager import AclControlManager
from barnabas.broker.controller.client_quota_control_manager import ClientQuotaControlManager
from barnabas.broker.controller.cluster_control_manager import ClusterControlManager
from barnabas.broker.controller.config_schema import ConfigSchema
from barnabas.broker.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.broker.controller.configuration_validator import ConfigurationValidator
from barnabas.broker.controller.delegation_token_control_manager import DelegationTokenControlManager, TokenSettings
from barnabas.broker.controller.feature_control_manager import FeatureControlManager, Quorum
from barnabas.broker.controller.isr_control_manager import IsrControlManager
from barnabas.broker.controller.partition_changes import PartitionChanges
from barnabas.broker.controller.producer_id_control_manager import ProducerIdControlManager
from barnabas.broker.controller.reassignment_control_manager import ReassignmentControlManager
from barnabas.broker.controller.replication_control_manager import ReplicationControlManager
from barnabas.broker.controller.scram_control_manager import ScramControlManager
from barnabas.broker.controller.topic_control_manager import TopicControlManager, TopicDefaults
from barnabas.broker.controller.unclean_recovery import UncleanRecovery
from barnabas.broker.topic_policy import make_topic_policy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.controller.controller_state import ControllerState


class ControllerSettings(NamedTuple):
    """What a controller goes by, in seconds where it is a time; None: not done."""

    node_id: int
    cluster_id: str
    voters: Sequence[int] = ()
    session_timeout: float = 9.0
    leader_imbalance_check_interval: float | None = 300.0
    unclean_election_check_interval: float = 300.0
    #: What KIP-966 gives unclean.recovery.timeout.ms, which Kafka 4.3 does not have yet.
    unclean_recovery_timeout: float = 300.0
    max_idle_interval: float | None = 0.5
    token_check_interval: float = 3600.0
    max_records_per_batch: int = 10_000
    topic_defaults: TopicDefaults = TopicDefaults()
    tokens: TokenSettings = TokenSettings()

    @classmethod
    def of(cls, config: BrokerConfig, cluster_id: str, voters: Sequence[int] = ()) -> ControllerSettings:
        """Return the settings of a server.properties."""
        is_balancing = config.get_bool("auto.leader.rebalance.enable")
        idle = config.get_seconds("metadata.max.idle.interval.ms")
        return cls(
            config.node_id,
            cluster_id,
            voters,
            session_timeout=config.get_seconds("broker.session.timeout.ms"),
            leader_imbalance_check_interval=(
                float(config.get_int("leader.imbalance.check.interval.seconds")) if is_balancing else None
            ),
            max_idle_interval=idle or None,
            token_check_interval=config.get_seconds("delegation.token.expiry.check.interval.ms"),
            topic_defaults=TopicDefaults(
                config.get_int("num.partitions"), config.get_int("default.replication.factor")
            ),
            tokens=TokenSettings(
                config["delegation.token.secret.key"],
                config.get_int("delegation.token.max.lifetime.ms"),
                config.get_int("delegation.token.expiry.time.ms"),
            ),
        )


class ControllerManagers:
    """All managers; `random` chooses brokers and makes ids."""

    def __init__(
        self, state: ControllerState, settings: ControllerSettings, config: BrokerConfig, random: Random
    ) -> None:
        schema = ConfigSchema(state, settings.node_id, config)
        quorum = Quorum(settings.node_id, settings.voters)
        self.schema = schema
        self.cluster = ClusterControlManager(state, settings.cluster_id, settings.session_timeout, random)
        self.configs = ConfigurationControlManager(
            state, schema, ConfigurationValidator(config), {settings.node_id, *settings.voters}
        )
        self.features = FeatureControlManager(state, quorum, self.configs)
        self.recovery = UncleanRecovery(settings.unclean_recovery_timeout, state.broker_epoch)
        changes = PartitionChanges(state, self.cluster, schema, self.recovery)
        self.replication = ReplicationControlManager(changes)
        self.alter_partition = IsrControlManager(changes)
        self.topics = TopicControlManager(changes, self.configs, settings.topic_defaults, random)
        self.topics.check_policy = make_topic_policy(config)
        self.reassignments = ReassignmentControlManager(changes)
        self.quotas = ClientQuotaControlManager(state)
        self.acls = AclControlManager(state, random)
        self.scram = ScramControlManager(state)
        self.tokens = DelegationTokenControlManager(state, settings.tokens, random)
        self.producer_ids = ProducerIdControlManager(state)
