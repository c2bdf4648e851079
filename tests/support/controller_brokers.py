"""A broker as controllers see it: what they tell it, and what it keeps, by the rules of Apache Kafka 3.9.

One of ours looks itself what has gone when another controller comes, and sets replicas aside that were moved away
while it was taken for dead (`tests/unit/broker/zookeeper/test_last_lives.py`). Apache Kafka keeps all that, and answers
who asks for it (`inquiries`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.protocol.messages.leader_and_isr_response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.messages.stop_replica_response import StopReplicaPartitionError, StopReplicaResponse
from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
from barnabas.protocol.messages.update_metadata_response import UpdateMetadataResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tests.support.controller_world import ControllerWorld

_DURING_DELETE = -2
#: What is asked for here, by API the newest version of Apache Kafka 3.9; one of ours serves what came later, too.
_SERVED = {ApiKey.FETCH: 17, ApiKey.METADATA: 12, ApiKey.DESCRIBE_LOG_DIRS: 4}
_SERVED_BY_OURS = {**_SERVED, ApiKey.STREAMS_GROUP_HEARTBEAT: 1}


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

    @property
    def is_served(self) -> bool:
        """Whether the broker has been told of it in this life."""
        return not self.is_stopped or self.leader_epoch >= 0


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
    #: Whether it is one of Apache Kafka; and whether it tells others what it has.
    is_theirs: bool = False
    is_silent: bool = False

    def forget(self) -> None:
        """Lose what is in memory only."""
        self.controller_epoch, self.broker_epoch = 0, -1
        self.metadata, self.alive = {}, set()
        for held in self.replicas.values():
            held.is_stopped, held.leader, held.leader_epoch = True, -1, -1

    def take(self, request: Any) -> Any:
        """Carry out a request of a controller, or answer a question."""
        if type(request) in _ANSWER:
            return _ANSWER[type(request)](self, request)
        self.received.append(request)
        if request.controller_epoch < self.controller_epoch:
            return _response(request, errors.ControllerMovedError.code)
        if 0 <= request.broker_epoch < self.broker_epoch:
            return _response(request, errors.StaleBrokerEpochError.code)
        is_another = request.controller_epoch > self.controller_epoch
        if is_another or request.broker_epoch > self.life:
            self.unconfirmed = set(self.replicas)
        self.controller_epoch, self.life = request.controller_epoch, max(self.life, request.broker_epoch)
        if is_another and not self.is_theirs:
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
            if not self.is_theirs and any(state.leader == _DURING_DELETE for state in topic.partition_states):
                # Ours goes by topics: where one partition is being deleted, all of the topic are.
                self.metadata = {name: one for name, one in self.metadata.items() if name.topic != topic.topic_name}
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                self._set_aside_if_moved(name, topic.topic_id, state)
                if state.leader == _DURING_DELETE:
                    self.metadata.pop(name, None)
                    if all(one.topic != topic.topic_name for one in self.metadata):
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
        if held is None or name not in self.unconfirmed or self.is_theirs:
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
                    self.world.deletes(self.id, name, held.topic_id)
                    del self.replicas[name]
                elif held is not None:
                    held.is_stopped, held.leader = True, -1
                parts.append(StopReplicaPartitionError(*name, code))
        return StopReplicaResponse(partition_errors=parts)

    # -- questions -----------------------------------------------------------------------------------------------

    def _api_versions(self, request: ApiVersionsRequest) -> ApiVersionsResponse:
        served = _SERVED if self.is_theirs else _SERVED_BY_OURS
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=key, max_version=top) for key, top in served.items()])

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        assert request.topics is None
        topics: dict[str, MetadataResponseTopic] = {}
        for name in () if self.is_silent else self.metadata:
            made = MetadataResponseTopic(name=name.topic, topic_id=self.topic_ids[name.topic])
            part = MetadataResponsePartition(partition_index=name.partition)
            topics.setdefault(name.topic, made).partitions.append(part)
        return MetadataResponse(topics=list(topics.values()))

    def _describe_log_dirs(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        assert request.topics is None
        if self.is_silent:
            return DescribeLogDirsResponse(error_code=errors.ClusterAuthorizationError.code)
        topics: dict[str, DescribeLogDirsTopic] = {}
        for name, held in self.replicas.items():
            part = DescribeLogDirsPartition(partition_index=name.partition, offset_lag=0 if held.is_served else -1)
            topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic)).partitions.append(part)
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(topics=list(topics.values()))])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        topics = []
        for topic in request.topics:
            parts = [
                PartitionData(
                    partition_index=part.partition,
                    error_code=self._fetch_error(names.get(topic.topic_id), topic.topic_id, part),
                )
                for part in topic.partitions
            ]
            topics.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=parts))
        return FetchResponse(responses=topics)

    def _fetch_error(self, topic: str | None, topic_id: bytes, part: Any) -> int:
        if topic is None:
            return errors.UnknownTopicIdError.code
        held = self.replicas.get(TopicPartition(topic, part.partition))
        if held is None or not held.is_served:
            return errors.NotLeaderOrFollowerError.code
        if held.topic_id != topic_id:
            return errors.InconsistentTopicIdError.code
        assert part.current_leader_epoch > held.leader_epoch, "it would be read"
        return errors.UnknownLeaderEpochError.code

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
_ANSWER: dict[type, Callable[[ModelBroker, Any], Any]] = {
    ApiVersionsRequest: ModelBroker._api_versions,
    MetadataRequest: ModelBroker._metadata,
    DescribeLogDirsRequest: ModelBroker._describe_log_dirs,
    FetchRequest: ModelBroker._fetch,
}
