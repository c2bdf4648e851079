"""The rules under which the controller changes partitions (ReplicationControlManager's LeaderAcceptor and updates)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller.partition_change_builder import Election, PartitionChangeBuilder, PartitionRules
from barnabas.broker.metadata.partition_registration import NO_LEADER
from barnabas.errors import IllegalStateError, InvalidReplicaAssignmentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.broker.controller.cluster_control_manager import ClusterControlManager
    from barnabas.broker.controller.config_schema import ConfigSchema
    from barnabas.broker.controller.controller_result import Records
    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.broker.controller.partition_indexes import TopicIdPartition
    from barnabas.broker.controller.unclean_recovery import UncleanRecovery
    from barnabas.broker.metadata.metadata_image import TopicImage
    from barnabas.broker.metadata.partition_registration import PartitionRegistration


class PartitionChanges:
    """Makes builders for changes of partitions, with what holds now for their topic."""

    def __init__(
        self, state: ControllerState, cluster: ClusterControlManager, schema: ConfigSchema, recovery: UncleanRecovery
    ) -> None:
        self.state = state
        self.recovery = recovery
        self.cluster = cluster
        self.schema = schema

    def builder(
        self,
        topic: TopicImage,
        whose: TopicIdPartition,
        election: Election = Election.ONLINE,
        is_alive: Callable[[int], bool] | None = None,
    ) -> PartitionChangeBuilder:
        """Return a builder for a partition that is there; `is_alive` says who may lead, by default who is active."""
        partition = topic.partitions[whose.partition]
        rules = PartitionRules(
            is_acceptable_leader=self._acceptor(partition, is_alive or self.state.is_active),
            default_directory=self.cluster.default_directory,
            version=self.state.metadata_version,
            min_isr=self.effective_min_isr(topic),
            is_elr_enabled=self.state.is_elr_enabled,
            recovery=self.recovery,
        )
        builder = PartitionChangeBuilder(whose, partition, rules)
        builder.election = election
        return builder

    def automatic_election(self, topic: str) -> Election:
        """Return how leaders are chosen without being asked for: as unclean.leader.election.enable allows."""
        return Election.UNCLEAN if self.schema.allows_unclean_election(topic) else Election.ONLINE

    def effective_min_isr(self, topic: TopicImage) -> int:
        """Return min.insync.replicas, at most the number of replicas."""
        first = topic.partitions.get(0)
        configured = self.schema.min_insync_replicas(topic.name)
        return min(configured, len(first.replicas)) if first is not None else configured

    def _acceptor(self, partition: PartitionRegistration, is_alive: Callable[[int], bool]) -> Callable[[int], bool]:
        def accepts(broker_id: int) -> bool:
            broker = self.state.registration(broker_id)
            if broker is None or not is_alive(broker_id):
                return False
            return broker.has_online_directory(partition.directory(broker_id))

        return accepts

    def updates(
        self,
        wanted: Iterable[TopicIdPartition],
        *,
        to_remove: int = NO_LEADER,
        to_add: int = NO_LEADER,
        unclean_shutdown: int = NO_LEADER,
    ) -> Records:
        """Return the changes of partitions when a broker comes or goes (generateLeaderAndIsrUpdates).

        `to_remove` leaves the ISR and may not lead, although it still looks alive; `to_add` may lead, although it
        still looks fenced; `unclean_shutdown` leaves ISR and ELR, because it may have lost records.
        """
        gone = {to_remove, unclean_shutdown}

        def is_alive(broker_id: int) -> bool:
            return broker_id not in gone and (broker_id == to_add or self.state.is_active(broker_id))

        records: Records = []
        for whose in wanted:
            topic = self.state.image.topics.get(whose.topic_id)
            if topic is None or whose.partition not in topic.partitions:
                raise IllegalStateError(f"{whose} is in an index of the controller and not in its image")
            builder = self.builder(topic, whose, self.automatic_election(topic.name), is_alive)
            if unclean_shutdown != NO_LEADER:
                builder.unclean_shutdown = (unclean_shutdown,)
            builder.isr = [replica for replica in topic.partitions[whose.partition].isr if replica not in gone]
            record = builder.build()
            if record is not None:
                records.append(record)
        return records

    def check_manual_assignment(self, replicas: Sequence[int], factor: int | None = None) -> None:
        """Raise `InvalidReplicaAssignmentError` unless a client may give a partition these replicas."""
        if not replicas:
            raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
        for replica in sorted(replicas):
            if self.state.registration(replica) is None:
                raise InvalidReplicaAssignmentError(
                    f"The manual partition assignment includes broker {replica}, but no such broker is registered."
                )
            if replicas.count(replica) > 1:
                raise InvalidReplicaAssignmentError(
                    f"The manual partition assignment includes the broker {replica} more than once."
                )
        if factor is not None and len(replicas) != factor:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {factor} replica(s)."
            )
