"""Who leads the partitions, and who is in sync (ReplicationControlManager; KIP-631, KIP-841, KIP-858, KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.broker_heartbeat_manager import BrokerControlState
from barnabas.broker.controller.controller_result import DONE, ControllerResult, Outcome, Records, check_size
from barnabas.broker.controller.partition_change_builder import Election
from barnabas.broker.controller.partition_indexes import TopicIdPartition
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.protocol.kinds import ElectionType
from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
    from barnabas.broker.controller.cluster_control_manager import PreviousLife
    from barnabas.broker.controller.partition_changes import PartitionChanges
    from barnabas.broker.metadata.metadata_image import BrokerRegistration
    from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest

#: So many leaders are changed at once when the controller balances them (MAX_ELECTIONS_PER_IMBALANCE).
MAX_ELECTIONS_PER_IMBALANCE = 1000
#: In BrokerRegistrationChangeRecord.
_FENCE, _UNFENCE, _IN_CONTROLLED_SHUTDOWN = 1, -1, 1


class BrokerHeartbeatReply(NamedTuple):
    """What a broker is told of where it stands."""

    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


class ReplicationControlManager:
    """Plans leaders and ISRs when brokers come and go, and when a request asks for it."""

    def __init__(self, changes: PartitionChanges) -> None:
        self._changes = changes
        self._state = changes.state

    # -- brokers that come and go ------------------------------------------------------------------------------------

    def process_heartbeat(
        self, request: BrokerHeartbeatRequest, registration_offset: int
    ) -> ControllerResult[BrokerHeartbeatReply]:
        """Fence, unfence or release a broker, as it asks and may. Raises `StaleBrokerEpochError`."""
        broker = self._state.check_broker_epoch(request.broker_id, request.broker_epoch)
        heartbeats = self._changes.cluster.heartbeats
        current, wanted = heartbeats.states(
            broker.id, request, registration_offset, lambda: self._state.indexes.has_leaderships(broker.id)
        )
        records: Records = []
        if current is not wanted:
            if wanted is BrokerControlState.UNFENCED:
                records += self._unfenced(broker)
            elif wanted is BrokerControlState.CONTROLLED_SHUTDOWN:
                records += self._in_controlled_shutdown(broker)
            else:
                records += self.fenced(broker)
        is_fenced = wanted in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)
        heartbeats.touch(broker.id, is_fenced, request.current_metadata_offset)
        version = self._state.metadata_version
        if version.is_directory_assignment_supported:
            records += self._directories_offline(broker, request.offline_log_dirs)
        if version.is_cordoned_log_dirs_supported:
            records += _directories_cordoned(broker, request.cordoned_log_dirs)
        reply = BrokerHeartbeatReply(
            is_caught_up=request.current_metadata_offset >= registration_offset,
            is_fenced=is_fenced,
            in_controlled_shutdown=wanted is BrokerControlState.CONTROLLED_SHUTDOWN,
            should_shut_down=wanted is BrokerControlState.SHUTDOWN_NOW,
        )
        return ControllerResult(records, reply)

    def fenced(self, broker: BrokerRegistration) -> Records:
        """Return the records that take a broker out of service: others lead first."""
        records = self._changes.updates(self._state.indexes.with_broker_in_isr(broker.id), to_remove=broker.id)
        change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE)
        return [*records, ApiMessageAndVersion(change)]

    def _unfenced(self, broker: BrokerRegistration) -> Records:
        change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE)
        led = self._changes.updates(self._state.indexes.without_leader(), to_add=broker.id)
        return [ApiMessageAndVersion(change), *led]

    def _in_controlled_shutdown(self, broker: BrokerRegistration) -> Records:
        records: Records = []
        if not broker.in_controlled_shutdown:
            change = BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN
            )
            records.append(ApiMessageAndVersion(change, 1))
        in_isr = self._state.indexes.with_broker_in_isr(broker.id)
        return [*records, *self._changes.updates(in_isr, to_remove=broker.id)]

    def ended(self, life: PreviousLife) -> Records:
        """Return the records that end a broker's earlier life; one that ended uncleanly may have lost records."""
        indexes, broker_id = self._state.indexes, life.broker_id
        if life.was_clean or not self._state.is_elr_enabled:
            return self._changes.updates(indexes.with_broker_in_isr(broker_id), to_remove=broker_id)
        return [
            *self._changes.updates(indexes.with_broker_in_isr(broker_id), unclean_shutdown=broker_id),
            *self._changes.updates(indexes.with_broker_in_elr(broker_id), unclean_shutdown=broker_id),
        ]

    def unregister(self, broker_id: int) -> ControllerResult[None]:
        """Forget a broker. Raises `BrokerIdNotRegisteredError`."""
        broker = self._state.registration(broker_id)
        if broker is None:
            raise errors.BrokerIdNotRegisteredError(f"Broker ID {broker_id} is not currently registered")
        indexes = self._state.indexes
        records = self._changes.updates(indexes.with_broker_in_isr(broker_id), to_remove=broker_id)
        records += self._changes.updates(indexes.with_broker_in_elr(broker_id), to_remove=broker_id)
        gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        records.append(ApiMessageAndVersion(gone))
        check_size(records)
        return ControllerResult(records, None)

    def fence_one_stale(self, now: float) -> ControllerResult[bool]:
        """Fence one broker whose session has ended; the response: whether to look for another at once.

        One at a time, so that the next one is fenced upon what came of this one.
        """
        whose = self._changes.cluster.heartbeats.expired(now)
        return ControllerResult((), False) if whose is None else self._fence_life(whose)

    def fence_ended(self, whose: BrokerIdAndEpoch) -> ControllerResult[bool]:
        """Fence a broker whose process has ended, as if its session had expired; another life of it is left alone."""
        heartbeats = self._changes.cluster.heartbeats
        if not heartbeats.has_session(whose):
            return ControllerResult((), False)
        heartbeats.end_session(whose)
        return self._fence_life(whose)

    def _fence_life(self, whose: BrokerIdAndEpoch) -> ControllerResult[bool]:
        heartbeats = self._changes.cluster.heartbeats
        broker = self._state.registration(whose.id)
        if broker is None:
            heartbeats.remove(whose.id)
        if broker is None or broker.epoch != whose.epoch:
            return ControllerResult((), True)
        records = self.fenced(broker)
        heartbeats.fence(whose.id)
        return ControllerResult(records, True)

    # -- directories (KIP-858, KIP-1066) -----------------------------------------------------------------------------

    def _directories_offline(self, broker: BrokerRegistration, offline: Sequence[bytes]) -> Records:
        lost = [directory for directory in broker.directories if directory in offline]
        records: Records = []
        for directory in lost:
            records += self._changes.updates(self._state.indexes.in_directory(directory), to_remove=broker.id)
        if lost:
            online = [directory for directory in broker.directories if directory not in offline]
            change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online)
            records.append(ApiMessageAndVersion(change, 2))
        return records

    # -- elections ---------------------------------------------------------------------------------------------------

    def elect_leaders(self, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
        """Elect leaders as asked for. Raises `InvalidRequestError` for an unknown kind of election."""
        if request.election_type not in tuple(ElectionType):
            raise errors.InvalidRequestError(f"Unknown election type {request.election_type}")
        kind = ElectionType(request.election_type)
        records: Records = []
        response = ElectLeadersResponse()
        if request.topic_partitions is None:
            wanted = [(topic.name, list(topic.partitions)) for topic in self._state.image.topics.values()]
        else:
            wanted = [(asked.topic, asked.partitions) for asked in request.topic_partitions]
        for name, indexes in wanted:
            results = []
            for index in indexes:
                outcome = self._elect(name, index, kind, records)
                # Who asks for all is told only of those that were to be changed.
                if request.topic_partitions is not None or outcome.code != errors.ElectionNotNeededError.code:
                    results.append(PartitionResult(index, outcome.code, outcome.message))
            response.replica_election_results.append(ReplicaElectionResult(name, results))
        check_size(records)
        return ControllerResult(records, response)

    def _elect(self, name: str, index: int, kind: ElectionType, records: Records) -> Outcome:
        topic = self._state.image.topic(name)
        if topic is None:
            return Outcome(errors.UnknownTopicOrPartitionError.code, f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            return Outcome(errors.UnknownTopicOrPartitionError.code, f"No such partition as {name}-{index}")
        is_preferred = kind is ElectionType.PREFERRED
        if partition.has_preferred_leader if is_preferred else partition.leader >= 0:
            return Outcome.of(errors.ElectionNotNeededError())
        election = Election.PREFERRED if is_preferred else Election.UNCLEAN
        record = self._changes.builder(topic, TopicIdPartition(topic.id, index), election).build()
        if record is not None:
            records.append(record)
            return DONE
        if is_preferred:
            return Outcome.of(errors.PreferredLeaderNotAvailableError())
        return Outcome.of(errors.EligibleLeadersNotAvailableError())

    def balance_leaders(self, most: int = MAX_ELECTIONS_PER_IMBALANCE) -> ControllerResult[bool]:
        """Give partitions back to their first replicas; the response: whether there may be more."""
        records: Records = []
        for whose in self._state.indexes.imbalanced():
            if len(records) >= most:
                break
            topic = self._state.image.topics[whose.topic_id]
            record = self._changes.builder(topic, whose, Election.PREFERRED).build()
            if record is not None:
                records.append(record)
        return ControllerResult(records, len(records) >= most)

    def elect_unclean_leaders(self, most: int = MAX_ELECTIONS_PER_IMBALANCE) -> ControllerResult[bool]:
        """Elect leaders that may lack records where the topic allows it; the response as of `balance_leaders`."""
        records: Records = []
        for whose in self._state.indexes.without_leader():
            if len(records) >= most:
                break
            topic = self._state.image.topics[whose.topic_id]
            if self._changes.schema.allows_unclean_election(topic.name):
                self._elect(topic.name, whose.partition, ElectionType.UNCLEAN, records)
        return ControllerResult(records, len(records) >= most)

    def recover_unclean(self, now: float) -> ControllerResult[bool]:
        """Elect who has the longest log, where all were heard or the time for that is over (KIP-966)."""
        recovery, wanted = self._changes.recovery, []
        for whose in recovery.pending(now):
            topic = self._state.image.topics.get(whose.topic_id)
            partition = None if topic is None else topic.partitions.get(whose.partition)
            if partition is not None and partition.awaits_recovery:
                wanted.append(whose)
            else:
                recovery.done(whose)
        return ControllerResult(self._changes.updates(wanted), False)


def _directories_cordoned(broker: BrokerRegistration, cordoned: Sequence[bytes] | None) -> Records:
    if cordoned is None:
        return []
    if broker.cordoned_directories is not None and set(broker.cordoned_directories) == set(cordoned):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
    )
    return [ApiMessageAndVersion(change, 3)]
