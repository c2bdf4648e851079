"""What a controller tells this broker: LeaderAndIsr, UpdateMetadata, StopReplica (KafkaApis, ReplicaManager of 3.9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas import errors
from barnabas.broker.membership.broker_metadata_publisher import Roles
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.metadata.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.zookeeper.push_records import (
    PushRequest,
    broker_records,
    is_older,
    partition_record,
    topic_records,
    unknown_topics,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.leader_and_isr_response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.stop_replica_response import StopReplicaPartitionError, StopReplicaResponse
from barnabas.protocol.messages.update_metadata_response import UpdateMetadataResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrPartitionState, LeaderAndIsrRequest
    from barnabas.protocol.messages.stop_replica_request import StopReplicaPartitionState, StopReplicaRequest
    from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest

#: The versions that brokers of 3.9 use: with topic ids, and leader epochs in StopReplica.
PUSHED: dict[int, tuple[str, int, int]] = {
    ApiKey.LEADER_AND_ISR: ("controller_pushes", 5, 7),
    ApiKey.STOP_REPLICA: ("controller_pushes", 3, 4),
    ApiKey.UPDATE_METADATA: ("controller_pushes", 7, 8),
}
#: In place of a leader in UpdateMetadata, or of an epoch in StopReplica: the topic is being deleted.
_DURING_DELETE = -2


class PushTarget(Protocol):
    """What the pushes change: the control plane."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are known."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def other_epoch(self) -> int:
        """What is told to a broker of this epoch or before is for another process in this broker's place."""

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known yet which epochs are for another process: what is told waits for that."""

    @property
    def failed_roles(self) -> Mapping[TopicPartition, errors.KafkaError]:
        """The partitions whose role could not be taken."""

    def change(self, records: Iterable[Message], roles: Roles | None = None) -> None:
        """Go by the metadata with these records, and take roles."""

    def metadata_updated(self, request: UpdateMetadataRequest) -> None:
        """Take note of who is controller, and whether it counts this broker as alive."""

    def look_for_gone_topics(self) -> None:
        """Read which topics there are, and go by it: no controller tells of the others."""

    def read_topic_settings(
        self, topics: Sequence[str], done: Callable[[list[Message] | errors.KafkaError], None]
    ) -> None:
        """Read the settings of topics that are new here; `done` gets their records, or why there are none."""


class _Push(NamedTuple):
    replicas: ReplicaManager
    request: PushRequest
    operation: DelayedOperation


class ControllerPushes:
    """Carries out one request of a controller after the other. Settings of a new topic are read first."""

    def __init__(self, me: int, target: PushTarget) -> None:
        self._me = me
        self._target = target
        self._queue: deque[_Push] = deque()
        self._is_busy = False
        self.controller_epoch = 0
        self._life = -1
        #: Replicas of which the controller has not spoken since it is one, or since this broker registered last.
        self._unconfirmed: set[TopicPartition] = set()
        #: Replicas that the controller takes for out of service, for this broker said so; those that are served again.
        self._refused: set[TopicPartition] = set()
        self._mended: set[TopicPartition] = set()
        self._times_mended = 0
        self._replicas: ReplicaManager | None = None

    def times_mended(self) -> int:
        """Count how often a replica was served again that the controller had been told to be out of service."""
        if self._replicas is not None:
            for name in self._refused - self._mended:
                if not self._is_out_of_service(self._replicas, name):
                    self._mended.add(name)
                    self._times_mended += 1
        return self._times_mended

    def handle(self, broker: BrokerState, context: RequestContext, request: PushRequest) -> DelayedOperation:
        """Line a request up; it is answered when it has been carried out."""
        operation = DelayedOperation()
        self._queue.append(_Push(broker.replica_manager, request, operation))
        self.go_on()
        return operation

    def retry(self) -> None:
        """Read again what was not read for want of a connection."""
        self._is_busy = False
        self.go_on()

    def go_on(self) -> None:
        """Carry out what is in line, if nothing has to be waited for."""
        while self._queue and not self._is_busy and not self._target.is_undecided:
            push = self._queue[0]
            new = {} if self._stale(push.request) else unknown_topics(self._target.image, push.request)
            if not new:
                self._carry_out(push, [])
                continue
            self._is_busy = True

            def read(settings: list[Message] | errors.KafkaError, push: _Push = push) -> None:
                if self._is_busy and self._queue and self._queue[0] is push:
                    self._is_busy = False
                    self._carry_out(push, settings)
                    self.go_on()

            self._target.read_topic_settings(list(new), read)

    def _carry_out(self, push: _Push, found: list[Message] | errors.KafkaError) -> None:
        self._queue.popleft()
        request, self._replicas = push.request, push.replicas
        code, settings = self._stale(request), [] if isinstance(found, errors.KafkaError) else found
        if not code:
            self._begin_anew_with(push)
        if isinstance(found, errors.KafkaError):
            code = code or errors.UnknownServerError.code
        push.operation.complete(_CARRY_OUT[request.API_KEY](self, push.replicas, request, code, settings))

    def _begin_anew_with(self, push: _Push) -> None:
        """Begin anew with a controller, or in another life; the one before may have taken this broker for dead."""
        request = push.request
        is_another = request.controller_epoch > self.controller_epoch
        if is_another or request.broker_epoch > self._life:
            self._unconfirmed = {TopicPartition(found.topic, found.index) for found in push.replicas.partitions()}
        self.controller_epoch, self._life = request.controller_epoch, max(self._life, request.broker_epoch)
        if is_another:
            self._target.look_for_gone_topics()

    def _stale(self, request: PushRequest) -> int:
        if request.controller_epoch < self.controller_epoch:
            return errors.ControllerMovedError.code
        # The controller may know of a registration before this broker has heard of it.
        target, epoch = self._target, request.broker_epoch
        is_old = epoch >= 0 and (epoch < target.broker_epoch or epoch <= target.other_epoch)
        return errors.StaleBrokerEpochError.code if is_old else errors.NONE

    # -- LeaderAndIsr ------------------------------------------------------------------------------------------------

    def _leader_and_isr(
        self, replicas: ReplicaManager, request: LeaderAndIsrRequest, code: int, settings: list[Message]
    ) -> LeaderAndIsrResponse:
        target = self._target
        records: list[Message] = []
        refused: dict[TopicPartition, int] = {}
        roles: dict[TopicPartition, tuple[bytes, PartitionRegistration]] = {}
        for topic in request.topic_states:
            if not code:
                records += topic_records(target.image, topic.topic_name, topic.topic_id)
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                refused[name] = code or self._refusal(replicas, name, topic.topic_id, state)
                if not code and self._me in state.replicas:
                    self._unconfirmed.discard(name)
                if not refused[name]:
                    roles[name] = topic.topic_id, _registration(state)
                    records.append(partition_record(topic.topic_id, name.partition, roles[name][1]))
        if not code:
            target.change([*records, *settings], Roles(roles))
        answers = {name: refused[name] or _failure(target.failed_roles.get(name)) for name in refused}
        self._note_answers(answers)
        found = []
        for topic in request.topic_states:
            indexes = [state.partition_index for state in topic.partition_states]
            parts = [
                LeaderAndIsrPartitionError(partition_index=i, error_code=answers[TopicPartition(topic.topic_name, i)])
                for i in indexes
            ]
            found.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=parts))
        return LeaderAndIsrResponse(error_code=code, topics=found)

    def _note_answers(self, answers: Mapping[TopicPartition, int]) -> None:
        failed = {name for name, code in answers.items() if code == errors.KafkaStorageError.code}
        self._refused -= {name for name, code in answers.items() if not code}
        self._refused |= failed
        self._mended = (self._mended & self._refused) - failed

    def _is_out_of_service(self, replicas: ReplicaManager, name: TopicPartition) -> bool:
        is_offline = name.partition in replicas.offline_partitions(name.topic)
        return is_offline or _failure(self._target.failed_roles.get(name)) != errors.NONE

    def _refusal(
        self, replicas: ReplicaManager, name: TopicPartition, topic_id: bytes, state: LeaderAndIsrPartitionState
    ) -> int:
        if name.partition in replicas.offline_partitions(name.topic):
            return errors.KafkaStorageError.code
        known = replicas.used_partition(*name)
        # A role that is held already is news to a controller that takes the replica for out of service.
        newest = state.leader_epoch - (name not in self._refused)
        if known is not None and known.topic_id == topic_id and newest < known.leader_epoch:
            return errors.ControllerMovedError.code
        return errors.NONE if self._me in state.replicas else errors.UnknownTopicOrPartitionError.code

    # -- UpdateMetadata ----------------------------------------------------------------------------------------------

    def _update_metadata(
        self, replicas: ReplicaManager, request: UpdateMetadataRequest, code: int, settings: list[Message]
    ) -> UpdateMetadataResponse:
        if code:
            return UpdateMetadataResponse(error_code=code)
        image = self._target.image
        brokers = {
            found.id: (
                {e.listener: Endpoint(e.host, e.port, e.security_protocol) for e in found.endpoints},
                found.rack,
            )
            for found in request.live_brokers
        }
        records = list(broker_records(image, brokers))
        for topic in request.topic_states:
            if any(state.leader == _DURING_DELETE for state in topic.partition_states):
                if topic.topic_name in image.topic_ids:
                    records.append(RemoveTopicRecord(topic_id=image.topic_ids[topic.topic_name]))
                continue
            records += topic_records(image, topic.topic_name, topic.topic_id)
            known = image.topics.get(topic.topic_id)
            for state in topic.partition_states:
                before = None if known is None else known.partitions.get(state.partition_index)
                registration = PartitionRegistration(
                    tuple(state.replicas), tuple(state.isr), state.leader, state.leader_epoch, state.zk_version
                )
                if before is not None and before.replicas == registration.replicas:
                    registration = registration._replace(
                        adding_replicas=before.adding_replicas, removing_replicas=before.removing_replicas
                    )
                if before != registration and not is_older(registration, before):
                    records.append(partition_record(topic.topic_id, state.partition_index, registration))
        self._target.metadata_updated(request)
        self._target.change([*records, *settings])
        replicas.set_aside(self._moved_unheard(replicas, request))
        return UpdateMetadataResponse()

    def _moved_unheard(self, replicas: ReplicaManager, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Return what was moved away while this broker was taken for dead, for which no StopReplica comes.

        A newly registered broker is told of each partition, and so are all by a new controller; the first word on one
        decides, unless it is an old one.
        """
        found = []
        for topic in request.topic_states if self._unconfirmed else ():
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                replica = replicas.used_partition(*name) if name in self._unconfirmed else None
                if replica is None or state.leader == _DURING_DELETE or state.leader_epoch < replica.leader_epoch:
                    continue
                self._unconfirmed.discard(name)
                if self._me not in state.replicas and replica.topic_id == topic.topic_id:
                    found.append(name)
        return found

    # -- StopReplica -------------------------------------------------------------------------------------------------

    def _stop_replica(
        self, replicas: ReplicaManager, request: StopReplicaRequest, code: int, settings: list[Message]
    ) -> StopReplicaResponse:
        if code:
            return StopReplicaResponse(error_code=code)
        found: list[StopReplicaPartitionError] = []
        deleted: list[TopicPartition] = []
        stopped: dict[TopicPartition, tuple[bytes, PartitionRegistration]] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                refused = _stop_refusal(replicas, name, state)
                found.append(StopReplicaPartitionError(*name, refused))
                if refused:
                    continue
                if state.delete_partition:
                    deleted.append(name)
                    self._refused.discard(name)
                elif (partition := replicas.used_partition(*name)) is not None:
                    without_leader = PartitionRegistration(
                        (self._me,), (), NO_LEADER, partition.leader_epoch, partition.partition_epoch
                    )
                    stopped[name] = partition.topic_id, without_leader
        self._target.change([], Roles(stopped, deleted))
        return StopReplicaResponse(partition_errors=found)


def _registration(state: LeaderAndIsrPartitionState) -> PartitionRegistration:
    return PartitionRegistration(
        tuple(state.replicas),
        tuple(state.isr),
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        adding_replicas=tuple(state.adding_replicas),
        removing_replicas=tuple(state.removing_replicas),
        leader_recovery_state=state.leader_recovery_state,
    )


def _failure(problem: errors.KafkaError | None) -> int:
    """Return the error of a role that was not taken; one that waits for a log to be recovered will be."""
    if problem is None or isinstance(problem, errors.NotLeaderOrFollowerError):
        return errors.NONE
    return errors.KafkaStorageError.code


def _stop_refusal(replicas: ReplicaManager, name: TopicPartition, state: StopReplicaPartitionState) -> int:
    known = replicas.used_partition(*name)
    is_old = known is not None and 0 <= state.leader_epoch < known.leader_epoch
    return errors.FencedLeaderEpochError.code if is_old else errors.NONE


_CARRY_OUT: dict[int, Callable[..., Message]] = {
    ApiKey.LEADER_AND_ISR: ControllerPushes._leader_and_isr,
    ApiKey.UPDATE_METADATA: ControllerPushes._update_metadata,
    ApiKey.STOP_REPLICA: ControllerPushes._stop_replica,
}
