"""Controllers over a quorum in memory, and requests for them; time stands still unless a test moves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.controller.controller_managers import ControllerSettings
from barnabas.broker.controller.controller_result import ControllerRequestContext, ControllerResult
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.controller.quorum_controller import ControllerEnvironment, QuorumController
from barnabas.broker.controller.replication_control_manager import BrokerHeartbeatReply
from barnabas.broker.controller.topic_control_manager import TopicDefaults
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.metadata.replica_log_end import tell
from barnabas.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.create_topics_response import CreateTopicsResponse
from tests.support.memory_quorum import MemoryQuorum

T = TypeVar("T")

LEVELS = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
WITH_ELR = {**LEVELS, "eligible.leader.replicas.version": 1}
CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMQ"
BROKER_FEATURES = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "share.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "streams.version": (0, 1),
    "kraft.version": (0, 1),
}


def directory(broker_id: int, number: int = 0) -> bytes:
    """Return the id of a broker's log directory."""
    return (1000 * (broker_id + 1) + number).to_bytes(16, "big")


def incarnation(broker_id: int, life: int = 0) -> bytes:
    """Return the id of one life of a broker."""
    return bytes([1, broker_id, life]).rjust(16, b"\1")


class Controllers:
    """A quorum of controllers 100, 101, ... of which a test elects one; `now` is its clock in seconds."""

    def __init__(
        self,
        count: int = 1,
        *,
        levels: Mapping[str, int] = LEVELS,
        seed: int = 1,
        config: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        commit_at_once: bool = True,
        random: Random | None = None,
    ) -> None:
        self.now = 1000.0
        self.reports: list[str] = []
        self.commit_at_once = commit_at_once
        ids = range(100, 100 + count)
        self.quorum = MemoryQuorum(*ids)
        self._bootstrap = BootstrapMetadata.of_levels(levels)
        self._config = BrokerConfig({"node.id": "1", **(config or {})})
        self._settings = settings or {}
        self._random = random or Random(seed)
        self.controllers = {node_id: self._controller(node_id) for node_id in ids}

    def _controller(self, node_id: int) -> QuorumController:
        given = {"max_idle_interval": None, "topic_defaults": TopicDefaults(1, 3), **self._settings}
        settings = ControllerSettings(node_id, CLUSTER_ID, tuple(self.quorum.nodes), **given)
        quorum = self.quorum
        environment = ControllerEnvironment(
            self.instant, self._random, self.reports.append, lambda: quorum.kraft_version
        )
        return QuorumController(self.quorum.nodes[node_id], settings, self._config, self._bootstrap, environment)

    def crash(self, node_id: int) -> None:
        """Kill a controller's process, and start another one that reads the log from its beginning."""
        client = self.quorum.nodes[node_id]
        was_leader = self.quorum.leader == node_id
        client.restart()
        self.controllers[node_id] = self._controller(node_id)
        if was_leader:
            self.quorum.leader = None
        client.hear_of_commits()

    def instant(self) -> Instant:
        """Read the clocks."""
        return Instant(self.now, int(self.now * 1000))

    def elect(self, node_id: int = 100, *, keep: int | None = None) -> QuorumController:
        """Make a controller active, with what it writes then committed."""
        self.quorum.elect(node_id, keep=keep)
        self.settle()
        return self.controllers[node_id]

    def settle(self) -> None:
        """Commit what was written."""
        self.quorum.commit()

    @property
    def active(self) -> QuorumController:
        """The controller that leads."""
        return next(found for found in self.controllers.values() if found.is_active)

    def context(self, version: int = 0, **given: Any) -> ControllerRequestContext:
        """Return the context of a request that comes now."""
        return ControllerRequestContext(self.instant(), version, **given)

    def tick(self, seconds: float) -> None:
        """Let time pass, and the controllers do what is due; what they write is committed."""
        for _ in range(20):
            self.now += seconds / 20
            for controller in self.controllers.values():
                controller.tick(self.instant())
            if self.commit_at_once:
                self.settle()

    def given(self, deferred: Deferred[T]) -> T:
        """Commit, and return a response. Raises the error that came in its place."""
        if self.commit_at_once:
            self.settle()
        assert deferred.is_done, "the response waits for records that are not committed"
        if deferred.problem is not None:
            raise deferred.problem
        value: Any = deferred.value
        return value

    def done(self, operation: Any) -> Any:
        """Write what an operation of the managers gives, and return its response."""
        return self.given(self.active.write(operation))

    # -- requests ----------------------------------------------------------------------------------------------------

    def register(self, broker_id: int, **given: Any) -> int:
        """Register a broker; return its epoch."""
        context = self.context(given.pop("version", 4), connection=given.pop("connection", 0))
        return self.given(self.active.register_broker(context, registration(broker_id, **given)))

    def heartbeat(self, broker_id: int, **given: Any) -> BrokerHeartbeatReply:
        """Send a heartbeat of a broker that has read all there is; without `ends` one that does not tell these."""
        broker = self.active.state.image.brokers[broker_id]
        given.setdefault("broker_epoch", broker.epoch)
        given.setdefault("current_metadata_offset", self.active.state.image.offset)
        context = self.context(1, connection=given.pop("connection", 0))
        ends = given.pop("ends", None)
        request = BrokerHeartbeatRequest(broker_id=broker_id, **given)
        if ends is not None:
            tell(request, ends)
        return self.given(self.active.process_heartbeat(context, request))

    def start(self, *broker_ids: int, **given: Any) -> None:
        """Register brokers and have them unfenced."""
        for broker_id in broker_ids:
            self.register(broker_id, **given)
            self.heartbeat(broker_id)

    def create(
        self,
        name: str,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        partitions: int = -1,
        factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> CreateTopicsResponse:
        """Create a topic, with the given replicas for its partitions, or so many of each."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[
                CreatableReplicaAssignment(index, list(replicas)) for index, replicas in enumerate(assignments or ())
            ],
            configs=[CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic])
        topics = self.active.managers.topics
        response: CreateTopicsResponse = self.done(lambda: topics.create_topics(self.context(), request, (name,)))
        return response

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        return self.active.state.image.topic_ids[name]

    def partition(self, name: str, index: int = 0) -> PartitionRegistration:
        """Return a partition as the active controller has it."""
        found = self.active.state.image.partition(name, index)
        assert found is not None
        return found

    def alter_partition(self, name: str, isr: Sequence[int], index: int = 0, **given: Any) -> Any:
        """Ask for another ISR as the leader; returns the partition's result."""
        found = self.partition(name, index)
        brokers = self.active.state.image.brokers
        leader = given.pop("broker_id", found.leader)
        given.setdefault("leader_epoch", found.leader_epoch)
        given.setdefault("partition_epoch", found.partition_epoch)
        given.setdefault("leader_recovery_state", found.leader_recovery_state)
        members = given.pop("members", [BrokerState(replica, brokers[replica].epoch) for replica in isr])
        asked = PartitionData(partition_index=index, new_isr_with_epochs=members, **given)
        request = AlterPartitionRequest(leader, brokers[leader].epoch, [TopicData(self.topic_id(name), [asked])])
        manager = self.active.managers.alter_partition
        response = self.done(lambda: manager.alter_partition(request, 3))
        return response.topics[0].partitions[0]


def registration(
    broker_id: int,
    *,
    life: int = 0,
    rack: str | None = None,
    directories: Sequence[bytes] | None = None,
    host: str = "localhost",
    **given: Any,
) -> BrokerRegistrationRequest:
    """Return what a broker registers with."""
    given.setdefault("cluster_id", CLUSTER_ID)
    features = given.pop("features", BROKER_FEATURES)
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        incarnation_id=incarnation(broker_id, life),
        listeners=[Listener("PLAINTEXT", host, 9092 + broker_id, 0)],
        features=[Feature(name, low, high) for name, (low, high) in features.items()],
        rack=rack,
        log_dirs=[directory(broker_id)] if directories is None else list(directories),
        **given,
    )


__all__ = ["ControllerResult", "Controllers", "directory", "incarnation", "registration"]
