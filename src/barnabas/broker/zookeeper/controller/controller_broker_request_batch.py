"""What brokers are told of one change: LeaderAndIsr, then UpdateMetadata, then StopReplica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.broker.zookeeper.controller.controller_context import (
    LEADER_DURING_DELETE,
    LeaderAndIsr,
)
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.leader_and_isr_request import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.stop_replica_request import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from barnabas.broker.zookeeper.controller.controller_context import (
        ControllerContext,
        LiveBroker,
        ReplicaAssignment,
    )
    from barnabas.protocol.message import Message
    from barnabas.protocol.topic_partition import TopicPartition

    #: Sends a request to a broker, and has its response heard.
    Send = Callable[[int, Message, Callable[[Message], None]], None]

T = TypeVar("T")
_ZERO_ID = ZERO_UUID


class Answers(Protocol):
    """Who hears what brokers have answered, each in the life that it was told in."""

    def leader_and_isr_answered(self, broker: LiveBroker, response: Message) -> None:
        """Take in the response to LeaderAndIsr."""

    def stop_replica_answered(self, broker: LiveBroker, response: Message, deleted: Collection[TopicPartition]) -> None:
        """Take in the response to StopReplica, in which these replicas were to be deleted."""


class ControllerBrokerRequestBatch:
    """Gathers what is to be told, and sends it; what the context holds when it is gathered is what is told."""

    def __init__(self, me: int, listener: str, context: ControllerContext, send: Send, answers: Answers) -> None:
        self._me = me
        self._listener = listener
        self._context = context
        self._send = send
        self._answers = answers
        self._leaders: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stopped: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._updated: set[int] = set()
        self._metadata: dict[TopicPartition, UpdateMetadataPartitionState] = {}

    # -- what is to be told ------------------------------------------------------------------------------------------

    def lead(
        self,
        brokers: Iterable[int],
        name: TopicPartition,
        state: LeaderAndIsr,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Tell brokers who leads a partition, and all brokers with UpdateMetadata."""
        for broker in brokers:
            told = self._leaders.setdefault(broker, {})
            before = told.get(name)
            told[name] = LeaderAndIsrPartitionState(
                partition_index=name.partition,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                is_new=is_new or (before is not None and before.is_new),
                leader_recovery_state=state.leader_recovery_state,
            )
        self.update(self._context.brokers, [name])

    def stop(self, brokers: Iterable[int], name: TopicPartition, *, delete: bool) -> None:
        """Tell brokers to stop, or to delete, their replicas."""
        for broker in brokers:
            told = self._stopped.setdefault(broker, {})
            before = told.get(name)
            told[name] = StopReplicaPartitionState(
                partition_index=name.partition,
                leader_epoch=self._context.stop_epoch(name),
                delete_partition=delete or (before is not None and before.delete_partition),
            )

    def update(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Tell brokers which brokers there are, and of partitions that have a state, or are being deleted."""
        self._updated.update(brokers)
        context = self._context
        for name in partitions:
            state, is_going = context.leadership.get(name), context.is_queued_for_deletion(name.topic)
            if state is None:
                if is_going:
                    # The controller before has deleted its state already, and may not have come to tell of that.
                    self._metadata[name] = _gone(name.partition, context.epoch)
                continue
            replicas = context.assignment(name).replicas
            self._metadata[name] = UpdateMetadataPartitionState(
                partition_index=name.partition,
                controller_epoch=state.controller_epoch,
                leader=LEADER_DURING_DELETE if is_going else state.leader,
                leader_epoch=0 if is_going else state.leader_epoch,
                isr=list(state.isr),
                zk_version=0 if is_going else state.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[replica for replica in replicas if not context.is_online(replica, name)],
            )

    def knock(self, broker: LiveBroker, live: Mapping[int, LiveBroker]) -> UpdateMetadataRequest:
        """Return what only the life of a broker accepts that is taken for ended: who is alive, and itself."""
        return self._update_metadata(broker, {**live, broker.id: broker})

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send what was gathered to those brokers that are registered."""
        brokers = self._context.brokers
        for broker, leaders in self._leaders.items():
            if broker in brokers:
                self._send_leaders(broker, leaders)
        for broker in sorted(self._updated & brokers.keys()):
            self._send(broker, self._update_metadata(brokers[broker], brokers), _ignored)
        for broker, stopped in self._stopped.items():
            if broker in brokers:
                self._send_stopped(broker, stopped)

    def send_ends(self, broker: int, ended: Iterable[TopicPartition], moved: Mapping[TopicPartition, int]) -> None:
        """Tell a broker what it has missed: partitions that are gone, and leader epochs of replicas that others have.

        No one waits for what it answers.
        """
        brokers = self._context.brokers
        self._metadata = {name: _gone(name.partition, self._context.epoch) for name in sorted(ended)}
        if self._metadata:
            self._send(broker, self._update_metadata(brokers[broker], brokers), _ignored)
        stopped = {
            name: StopReplicaPartitionState(partition_index=name.partition, leader_epoch=epoch, delete_partition=True)
            for name, epoch in sorted(moved.items())
        }
        if stopped:
            self._send(broker, self._stop_replica(broker, stopped), _ignored)

    def _send_leaders(self, broker: int, leaders: Mapping[TopicPartition, LeaderAndIsrPartitionState]) -> None:
        context = self._context
        endpoints = {
            found.id: found.listeners[self._listener]
            for found in context.brokers.values()
            if self._listener in found.listeners
        }
        request = LeaderAndIsrRequest(
            controller_id=self._me,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker].epoch,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic, topic_id=context.topic_ids.get(topic, _ZERO_ID), partition_states=states
                )
                for topic, states in _by_topic(leaders).items()
            ],
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoints[leader].host, port=endpoints[leader].port)
                for leader in sorted({state.leader for state in leaders.values()} & endpoints.keys())
            ],
        )
        told = context.brokers[broker]
        self._send(broker, request, lambda response: self._answers.leader_and_isr_answered(told, response))

    def _update_metadata(self, broker: LiveBroker, live: Mapping[int, LiveBroker]) -> UpdateMetadataRequest:
        context = self._context
        return UpdateMetadataRequest(
            controller_id=self._me,
            controller_epoch=context.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=topic, topic_id=context.topic_ids.get(topic, _ZERO_ID), partition_states=states
                )
                for topic, states in _by_topic(self._metadata).items()
            ],
            live_brokers=[
                UpdateMetadataBroker(
                    id=found.id,
                    endpoints=[
                        UpdateMetadataEndpoint(
                            port=e.port, host=e.host, listener=name, security_protocol=e.security_protocol
                        )
                        for name, e in found.listeners.items()
                    ],
                    rack=found.rack,
                )
                for found in live.values()
            ],
        )

    def _stop_replica(
        self, broker: int, stopped: Mapping[TopicPartition, StopReplicaPartitionState]
    ) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self._me,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=topic, partition_states=states)
                for topic, states in _by_topic(stopped).items()
            ],
        )

    def _send_stopped(self, broker: int, stopped: Mapping[TopicPartition, StopReplicaPartitionState]) -> None:
        request = self._stop_replica(broker, stopped)
        deleted = {name for name, state in stopped.items() if state.delete_partition}
        told = self._context.brokers[broker]
        self._send(broker, request, lambda response: self._answers.stop_replica_answered(told, response, deleted))


def _ignored(response: Message) -> None:
    """UpdateMetadata is refused only by brokers that have another controller, or another life, by now."""


def _gone(index: int, controller_epoch: int) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=controller_epoch,
        leader=LEADER_DURING_DELETE,
        leader_epoch=0,
        isr=[],
        zk_version=0,
        replicas=[],
        offline_replicas=[],
    )


def _by_topic(states: Mapping[TopicPartition, T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for name, state in states.items():
        found.setdefault(name.topic, []).append(state)
    return found
