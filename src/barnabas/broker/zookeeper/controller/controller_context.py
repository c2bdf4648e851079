"""What the controller knows of the cluster (ControllerContext, ReplicaAssignment, LeaderAndIsr)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from barnabas.broker.metadata.metadata_image import Endpoint

#: In place of a leader: there is none, and the topic is being deleted.
NO_LEADER, LEADER_DURING_DELETE = -1, -2
#: In place of a leader epoch in StopReplica: none is known, and the topic is being deleted.
NO_EPOCH, EPOCH_DURING_DELETE = -1, -2
RECOVERED, RECOVERING = 0, 1


class PartitionState(Enum):
    """Where a partition stands."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(Enum):
    """Where a replica stands."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class Replica(NamedTuple):
    """A broker's copy of a partition."""

    partition: TopicPartition
    broker: int


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition; while it is reassigned with those that come and those that go.

    A replica in `adding` and in `removing` is neither of what was nor of what is to be: its broker is to delete it.
    """

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas come or go."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def coming(self) -> tuple[int, ...]:
        """The replicas that are to join."""
        return tuple(replica for replica in self.adding if replica not in self.removing)

    def reassigned_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """Return the way to another assignment, from where the partition was before any reassignment."""
        origin = self.origin
        full = tuple(dict.fromkeys((*target, *origin)))
        adding = tuple(replica for replica in full if replica not in origin)
        return ReplicaAssignment(full, adding, tuple(replica for replica in full if replica not in target))

    def without(self, replica: int) -> ReplicaAssignment:
        """Return the assignment without a replica."""
        return ReplicaAssignment(*(tuple(one for one in part if one != replica) for part in self))


class LeaderAndIsr(NamedTuple):
    """Who leads a partition; `partition_epoch` is its state znode's version, `controller_epoch` who wrote it."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED
    controller_epoch: int = 0

    def elected(self, leader: int, isr: Iterable[int], recovery: int | None = None) -> LeaderAndIsr:
        """Return it in the next leader epoch."""
        state = self.leader_recovery_state if recovery is None else recovery
        return self._replace(
            leader=leader, isr=tuple(isr), leader_epoch=self.leader_epoch + 1, leader_recovery_state=state
        )


class LiveBroker(NamedTuple):
    """A registered broker; `epoch` is the transaction id of its registration."""

    id: int
    epoch: int
    listeners: Mapping[str, Endpoint]
    rack: str | None


class ControllerContext:
    """Brokers, topics, assignments, leaders and states of one controller, for as long as it is one."""

    def __init__(self, epoch: int, ended: dict[int, int] | None = None) -> None:
        self.epoch = epoch
        self.brokers: dict[int, LiveBroker] = {}
        #: By id the epoch in which a broker's process has ended, though its znode may still be there.
        self.ended: dict[int, int] = {} if ended is None else ended
        self.shutting_down: set[int] = set()
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, LeaderAndIsr] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        #: By partition the brokers that are to delete replicas which a reassignment has taken away from them.
        self.replicas_stopping: dict[TopicPartition, set[int]] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.offline_directories: dict[int, set[TopicPartition]] = {}
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    # -- brokers -----------------------------------------------------------------------------------------------------

    @property
    def live_brokers(self) -> set[int]:
        """The brokers that are registered and are not shutting down."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker: int, partition: TopicPartition, *, even_shutting_down: bool = False) -> bool:
        """Whether a broker serves its replica of a partition."""
        if broker not in self.brokers or (broker in self.shutting_down and not even_shutting_down):
            return False
        return partition not in self.offline_directories.get(broker, ())

    # -- topics ------------------------------------------------------------------------------------------------------

    def add_topic(self, topic: str, topic_id: bytes) -> None:
        """Take note of a topic."""
        self.assignments.setdefault(topic, {})
        self.topic_ids[topic], self.topic_names[topic_id] = topic_id, topic

    def remove_topic(self, topic: str) -> None:
        """Forget a topic that is gone."""
        for known in (
            self.topics_to_be_deleted,
            self.topics_with_deletion_started,
            self.topics_ineligible_for_deletion,
        ):
            known.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for index, assignment in self.assignments.pop(topic, {}).items():
            partition = TopicPartition(topic, index)
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.partitions_being_reassigned.discard(partition)
            for offline in self.offline_directories.values():
                offline.discard(partition)
            for broker in (*assignment.replicas, *self.replicas_stopping.pop(partition, ())):
                self.replica_states.pop(Replica(partition, broker), None)

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Whether a topic is to be deleted, or is being."""
        return topic in self.topics_to_be_deleted

    @property
    def topics(self) -> Collection[str]:
        """All topics."""
        return self.assignments.keys()

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions."""
        return [TopicPartition(topic, index) for topic, found in self.assignments.items() for index in found]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return [TopicPartition(topic, index) for index in self.assignments.get(topic, ())]

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the assignment of a partition; one without replicas where it is not known."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, ReplicaAssignment())

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Take note of an assignment."""
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def replicas_of(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic."""
        return [
            Replica(TopicPartition(topic, index), broker)
            for index, assignment in self.assignments.get(topic, {}).items()
            for broker in assignment.replicas
        ]

    def replicas_on(self, brokers: Collection[int]) -> list[Replica]:
        """Return the replicas that brokers have."""
        return [
            replica for topic in self.assignments for replica in self.replicas_of(topic) if replica.broker in brokers
        ]

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[Replica]:
        """Return the replicas of a topic that are in a state."""
        return [replica for replica in self.replicas_of(topic) if self.replica_states.get(replica) is state]

    # -- leaders -----------------------------------------------------------------------------------------------------

    def stop_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch that StopReplica has for a partition."""
        if self.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        known = self.leadership.get(partition)
        return NO_EPOCH if known is None else known.leader_epoch

    @property
    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """The partitions of topics that stay whose leader does not serve them."""
        return [
            name
            for name, known in self.leadership.items()
            if not self.is_online(known.leader, name) and not self.is_queued_for_deletion(name.topic)
        ]

    def led_by(self, broker: int) -> list[TopicPartition]:
        """Return the partitions of topics that stay which a broker leads and which have other replicas."""
        return [
            name
            for name, known in self.leadership.items()
            if known.leader == broker
            and not self.is_queued_for_deletion(name.topic)
            and len(self.assignment(name).replicas) > 1
        ]

    def partitions_in(self, *states: PartitionState, topic: str | None = None) -> list[TopicPartition]:
        """Return the partitions that are in one of these states, of one topic or of all."""
        names = self.partition_states if topic is None else self.partitions_of(topic)
        return [name for name in names if self.partition_states.get(name) in states]
