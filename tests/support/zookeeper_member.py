"""A broker in memory whose metadata lie in a model of ZooKeeper, and whose controller a test plays."""

from __future__ import annotations

import random
from typing import Any

from barnabas.broker.config import BrokerConfig, PeerListener
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.membership.broker_lifecycle import LifecycleState
from barnabas.broker.membership.cluster_member import ClusterMember
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.node import BrokerNode, Disk
from barnabas.broker.requester import Requester
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER as CONTROLLER_ZNODE
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER_EPOCH, encode_controller
from barnabas.broker.zookeeper.zookeeper_control import ZooKeeperControl
from barnabas.protocol.message import Message
from barnabas.protocol.messages.leader_and_isr_request import (
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
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.cluster_member import FakeChannel
from tests.support.core_broker import DATA, CoreBroker, CoreClient

ME = 3
CONTROLLER = 1
SETTINGS = {"broker.id": ME, "zookeeper.connect": "zk:2181/flights", "inter.broker.protocol.version": "3.9"}
#: Of what a broker tells the controller, and the controller brokers.
_VERSIONS = {4: 7, 5: 4, 6: 8, 7: 3, 19: 7, 56: 3, 67: 0}


class ZooKeeperBroker(CoreBroker):
    """A CoreBroker with a `ClusterMember` under ZooKeeper; brokers 1 (the controller) and 2 are others."""

    def __init__(
        self,
        zookeeper: ModelZooKeeper | None = None,
        settings: dict[str, Any] | None = None,
        *,
        has_controller: bool = True,
    ) -> None:
        self.warnings: list[str] = []
        self.now = 100.0
        self.settings = {"group.initial.rebalance.delay.ms": 0, **SETTINGS, **(settings or {})}
        self.filesystem = MemoryFileSystem(random.Random(1))
        self.channels: list[FakeChannel] = []
        self.states: list[LifecycleState] = []
        self.asking: dict[int, CoreClient] = {}
        self.zookeeper = zookeeper or ModelZooKeeper()
        if has_controller and CONTROLLER_ZNODE not in self.zookeeper.nodes:
            self.zookeeper.put(CONTROLLER_EPOCH, b"1")
            self.zookeeper.put(CONTROLLER_ZNODE, encode_controller(CONTROLLER, 0))
        self.session = self.zookeeper.session()
        config = BrokerConfig(self.settings)
        self.control = ZooKeeperControl(
            config, self.session, random.Random(2), self.warnings.append, lambda: self.now_ms
        )
        self.member = ClusterMember(config, self.control, self._open)
        self.control.observe()
        self.zookeeper.deliver()
        if self.control.problem is not None:
            raise self.control.problem
        store = self.control.make_store()
        self.node = BrokerNode(
            config, Disk([DATA], self.filesystem), store, random.Random(1), self.warnings.append, self.member
        )
        self.node.start(self.instant)
        self.node.state.advertised["PLAINTEXT"] = ("127.0.0.1", 9092)
        self.member.join(self.node, store, lambda: self.instant)
        self.advance(0)

    def register(self) -> ZooKeeperBroker:
        """Register, and hear of the brokers."""
        here = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
        self.control.register(here, bytes(16), -1, self.states.append)
        self.zookeeper.deliver()
        self.update()
        return self

    def _open(self, requester: Requester, name: str, timeout: float, listener: PeerListener) -> FakeChannel:
        self.channels.append(FakeChannel(requester, name.removeprefix(f"broker-{ME}-"), timeout))
        return self.channels[-1]

    def channel(self, name: str) -> FakeChannel:
        """The newest channel of a name."""
        return next(found for found in reversed(self.channels) if found.name == name)

    def asked(self, name: str) -> Any:
        """What goes over a channel next; None while nothing is due."""
        found = self.channel(name).requester.next_request(self.now)
        return None if found is None else found[1]

    def answer(self, name: str, response: Message) -> Any:
        """Have the next request of a channel answered; returns it."""
        request = self.asked(name)
        assert request is not None, f"nothing is asked over {name}"
        self.channel(name).requester.receive(response, self.instant)
        self.node.core.settle(self.instant)
        return request

    # -- what it tells itself as controller --------------------------------------------------------------------------

    def take_office(self) -> ZooKeeperBroker:
        """Register, be elected, and hear of it."""
        here = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
        self.control.register(here, bytes(16), -1, self.states.append)
        return self.settle()

    def settle(self) -> ZooKeeperBroker:
        """Let happen all that may: answers of ZooKeeper, and what this broker tells itself as controller."""
        while True:
            self.zookeeper.deliver()
            told = sum(self._tell_itself(found) for found in self.channels if not found.is_closed)
            if not told and not self.zookeeper.has_news:
                return self

    def _tell_itself(self, channel: FakeChannel) -> bool:
        client = self.asking.get(id(channel))
        if client is None:
            found = channel.requester.next_request(self.now)
            if found is None or found[0].id != ME:
                return False
            client = self.asking[id(channel)] = self.connect()
            request = found[1]
            client.request(request, _VERSIONS[request.API_KEY], f"broker-{ME}-{channel.name}")
        if not client.responses:
            return False
        del self.asking[id(channel)]
        channel.requester.receive(client.responses[-1], self.instant)
        self.node.core.settle(self.instant)
        return True

    # -- what the controller sends -----------------------------------------------------------------------------------

    def push(self, request: Any, version: int, *, broker_epoch: int | None = None, controller_epoch: int = 1) -> Any:
        """Send a request of the controller; returns the response, None while it waits for ZooKeeper."""
        request.controller_id, request.controller_epoch = CONTROLLER, controller_epoch
        request.broker_epoch = self.control.broker_epoch if broker_epoch is None else broker_epoch
        client = self.connect()
        response = client.request(request, version)
        self.zookeeper.deliver()
        self.node.core.settle(self.instant)
        return response or (client.responses[-1] if client.responses else None)

    def lead(self, *topics: LeaderAndIsrTopicState, **fields: Any) -> Any:
        """Send LeaderAndIsr."""
        return self.push(LeaderAndIsrRequest(topic_states=list(topics)), 7, **fields)

    def update(self, *topics: UpdateMetadataTopicState, alive: tuple[int, ...] = (1, 2, ME), **fields: Any) -> Any:
        """Send UpdateMetadata."""
        brokers = [
            UpdateMetadataBroker(
                id=number,
                endpoints=[UpdateMetadataEndpoint(9090 + number, f"host{number}", "PLAINTEXT", 0)],
                rack=f"r{number}",
            )
            for number in alive
        ]
        return self.push(UpdateMetadataRequest(topic_states=list(topics), live_brokers=brokers), 8, **fields)

    def stop_replica(self, name: str, index: int, epoch: int, *, delete: bool, **fields: Any) -> Any:
        """Send StopReplica for one partition."""
        state = StopReplicaPartitionState(partition_index=index, leader_epoch=epoch, delete_partition=delete)
        topic = StopReplicaTopicState(topic_name=name, partition_states=[state])
        return self.push(StopReplicaRequest(topic_states=[topic]), 4, **fields)

    def partition(self, name: str, index: int = 0) -> Any:
        """The broker's replica of a partition."""
        return self.state.replica_manager.used_partition(name, index)


def leading(name: str, topic_id: bytes, *replicas: list[int], epoch: int = 0, version: int = 0) -> Any:
    """A topic in LeaderAndIsr: a partition for each list of replicas, led by the first."""
    return LeaderAndIsrTopicState(
        topic_name=name,
        topic_id=topic_id,
        partition_states=[
            LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=1,
                leader=members[0],
                leader_epoch=epoch,
                isr=members,
                partition_epoch=version,
                replicas=members,
            )
            for index, members in enumerate(replicas)
        ],
    )


def known(name: str, topic_id: bytes, *replicas: list[int], leader: int | None = None, epoch: int = 0) -> Any:
    """A topic in UpdateMetadata."""
    return UpdateMetadataTopicState(
        topic_name=name,
        topic_id=topic_id,
        partition_states=[
            UpdateMetadataPartitionState(
                partition_index=index,
                controller_epoch=1,
                leader=members[0] if leader is None else leader,
                leader_epoch=epoch,
                isr=members,
                zk_version=epoch,
                replicas=members,
            )
            for index, members in enumerate(replicas)
        ],
    )


def has_topic(zookeeper: ModelZooKeeper, name: str, topic_id: bytes, *replicas: list[int], **config: str) -> None:
    """Put a topic into ZooKeeper, as a controller does."""
    zookeeper.put(f"/config/topics/{name}", znodes.encode_config({k.replace("_", "."): v for k, v in config.items()}))
    assigned = {index: tuple(members) for index, members in enumerate(replicas)}
    zookeeper.put(znodes.topic_path(name), znodes.encode_topic(znodes.TopicZnode(topic_id, assigned)))
