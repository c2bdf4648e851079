"""A broker as controllers see it: what they tell it, and what it keeps, by the rules of Apache Kafka 3.9.

By those of ours is what it does with replicas that were moved away while it was taken for dead
(`tests/unit/broker/zookeeper/test_last_lives.py`): Apache Kafka keeps their logs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.protocol.messages.leader_and_isr_response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.messages.stop_replica_response import StopReplicaPartitionError, StopReplicaResponse
from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
from barnabas.protocol.messages.update_metadata_response import UpdateMetadataResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tests.support.controller_world import ControllerWorld

_DURING_DELETE = -2


@dataclass
class HeldReplica:
    """A replica as its broker knows it."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    isr: list[int]
    partition_epoch: int
    replicas: list[int]
    is_stopped: bool = False


@dataclass
class ModelBroker:
    """What controllers tell a broker, and what it keeps on disk; by the rules of ReplicaManager of 3.9."""

    id: int
    world: ControllerWorld
    broker_epoch: int = -1
    controller_epoch: int = 0
    replicas: dict[TopicPartition, HeldReplica] = field(default_factory=dict)
    metadata: dict[TopicPartition, Any] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    failing: set[TopicPartition] = field(default_factory=set)
    #: Replicas of which this controller has not spoken in this life (`ControllerPushes`).
    unconfirmed: set[TopicPartition] = field(default_factory=set)
    life: int = -1
    received: list[Any] = field(default_factory=list)

    def forget(self) -> None:
        """Lose what is in memory only."""
        self.controller_epoch, self.broker_epoch = 0, -1
        self.metadata, self.alive = {}, set()
        for held in self.replicas.values():
            held.is_stopped, held.leader, held.leader_epoch = True, -1, -1

    def take(self, request: Any) -> Any:
        """Carry out a request of a controller."""
        self.received.append(request)
        if request.controller_epoch < self.controller_epoch:
            return _response(request, errors.ControllerMovedError.code)
        if 0 <= request.broker_epoch < self.broker_epoch:
            return _response(request, errors.StaleBrokerEpochError.code)
        is_another = request.controller_epoch > self.controller_epoch
        if is_another or request.broker_epoch > self.life:
            self.unconfirmed = set(self.replicas)
        self.controller_epoch, self.life = request.controller_epoch, max(self.life, request.broker_epoch)
        if is_another:
            self._look_for_gone_topics()
        return _TAKE[type(request)](self, request)

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        topics = []
        for topic in request.topic_states:
            parts = []
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                code = self._take_role(name, topic.topic_id, state)
                parts.append(LeaderAndIsrPartitionError(partition_index=name.partition, error_code=code))
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=parts))
        return LeaderAndIsrResponse(topics=topics)

    def _take_role(self, name: TopicPartition, topic_id: bytes, state: Any) -> int:
        self.unconfirmed.discard(name)
        if name in self.failing:
            return errors.KafkaStorageError.code
        held = self.replicas.get(name)
        if held is not None and held.topic_id == topic_id and state.leader_epoch <= held.leader_epoch:
            return errors.ControllerMovedError.code
        if state.leader not in self.alive:
            # It has a log, and follows no one: who leads is to be told of first (ReplicaManager.makeFollowers).
            if held is None or held.topic_id != topic_id:
                self.replicas[name] = HeldReplica(topic_id, -1, -1, [], -1, state.replicas)
            return errors.NONE
        self.replicas[name] = HeldReplica(
            topic_id, state.leader, state.leader_epoch, state.isr, state.partition_epoch, state.replicas
        )
        if state.leader == self.id:
            self.world.leads(name, topic_id, state.leader_epoch, self.id)
        return errors.NONE

    def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        self.alive = {found.id for found in request.live_brokers}
        for topic in request.topic_states:
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                self._set_aside_if_moved(name, topic.topic_id, state)
                if state.leader == _DURING_DELETE:
                    self.metadata.pop(name, None)
                    self.topic_ids.pop(topic.topic_name, None)
                else:
                    self.metadata[name] = state
                    self.topic_ids[topic.topic_name] = topic.topic_id
        return UpdateMetadataResponse()

    def _look_for_gone_topics(self) -> None:
        there = self.world.topics
        self.metadata = {name: state for name, state in self.metadata.items() if name.topic in there}

    def _set_aside_if_moved(self, name: TopicPartition, topic_id: bytes, state: Any) -> None:
        """Serve a replica no more that was moved away while this broker was taken for dead: no StopReplica comes."""
        held = self.replicas.get(name)
        if held is None or name not in self.unconfirmed:
            return
        is_mine, is_another = self.id in state.replicas, held.topic_id != topic_id
        if state.leader == _DURING_DELETE:
            is_decided = not is_mine and not is_another
        else:
            is_decided = is_another or state.leader_epoch >= held.leader_epoch
        if is_decided:
            self.unconfirmed.discard(name)
            if not is_mine:
                del self.replicas[name]

    def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        parts = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                held, code = self.replicas.get(name), errors.NONE
                if held is not None and 0 <= state.leader_epoch < held.leader_epoch:
                    code = errors.FencedLeaderEpochError.code
                elif held is not None and name in self.failing:
                    code = errors.KafkaStorageError.code
                elif held is not None and state.delete_partition:
                    del self.replicas[name]
                elif held is not None:
                    held.is_stopped, held.leader = True, -1
                parts.append(StopReplicaPartitionError(*name, code))
        return StopReplicaResponse(partition_errors=parts)

    @property
    def led(self) -> list[TopicPartition]:
        """The partitions that it believes to lead."""
        return sorted(name for name, held in self.replicas.items() if held.leader == self.id and not held.is_stopped)


def _response(request: Any, code: int) -> Any:
    kinds = {
        LeaderAndIsrRequest: LeaderAndIsrResponse,
        UpdateMetadataRequest: UpdateMetadataResponse,
        StopReplicaRequest: StopReplicaResponse,
    }
    return kinds[type(request)](error_code=code)


_TAKE: dict[type, Callable[[ModelBroker, Any], Any]] = {
    LeaderAndIsrRequest: ModelBroker._leader_and_isr,
    UpdateMetadataRequest: ModelBroker._update_metadata,
    StopReplicaRequest: ModelBroker._stop_replica,
}
