"""A broker in memory that is a member of a cluster, whose controllers and other brokers a test plays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from barnabas.broker.config import BrokerConfig, PeerListener
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.membership.broker_lifecycle import LifecycleState
from barnabas.broker.membership.cluster_member import ClusterMember
from barnabas.broker.membership.kraft_control import KRaftControl
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.node import BrokerNode, Disk
from barnabas.broker.requester import Requester
from barnabas.broker.storage_threads import Storage
from barnabas.network.node import Node
from barnabas.protocol.message import Message
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from barnabas.records import RecordBatchBuilder
from tests.support.core_broker import DATA, CoreBroker

ME = 3
CONTROLLER = Node(100, "controller", 9000)
SETTINGS = {"process.roles": "broker", "node.id": ME, "controller.quorum.bootstrap.servers": "controller:9000"}


class FakeChannel:
    """The way of one requester; the test asks it and answers."""

    def __init__(self, requester: Requester, name: str, timeout: float) -> None:
        self.requester = requester
        self.timeout = timeout
        self.name = name
        self.is_woken = self.is_closed = False
        #: The only node whose answer is waited for since.
        self.only: Node | None = None

    def leave_others(self, node: Node) -> None:
        self.only = node

    def wake(self) -> None:
        self.is_woken = True

    def close(self) -> None:
        self.is_closed = True


class MemberBroker(CoreBroker):
    """A CoreBroker with a `ClusterMember`. Brokers 1 and 2 are others; `tell` is what the metadata log says next."""

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        *records: Message,
        directories: Sequence[str] = (DATA,),
        filesystem: MemoryFileSystem | None = None,
        storage: Storage | None = None,
        registers: bool = True,
    ) -> None:
        self.warnings: list[str] = []
        self.now = 100.0
        self.settings = {"group.initial.rebalance.delay.ms": 0, **SETTINGS, **(settings or {})}
        self.filesystem = filesystem or MemoryFileSystem(random.Random(1))
        self.channels: list[FakeChannel] = []
        self.offset = 0
        config = BrokerConfig(self.settings)
        controllers = [Node(-2 - n, host, port) for n, (host, port) in enumerate(config.controllers)]
        self.control = KRaftControl(config, controllers, random.Random(2), self.warnings.append, cluster_id="cluster")
        self.member = ClusterMember(config, self.control, self._open)
        self.control.observe()
        self.tell(FeatureLevelRecord(name="metadata.version", feature_level=30), *records)
        store = self.control.make_store()
        self.node = BrokerNode(
            config,
            Disk(directories, self.filesystem, storage),
            store,
            random.Random(1),
            self.warnings.append,
            self.member,
        )
        self.node.start(self.instant)
        self.node.state.advertised["PLAINTEXT"] = ("127.0.0.1", 9092)
        self.member.join(self.node, store, lambda: self.instant)
        here = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
        ids = [found.manager.log_directory.directory_id for found in self.node.logs.directories]
        self.control.register(here, ids, -1, lambda state: None)
        if registers:
            self.answer("heartbeat", BrokerRegistrationResponse(broker_epoch=30))
            if ME not in self.control.image.brokers:
                self.tell(registration(ME, "127.0.0.1", 9092))
        self.advance(0)

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
        if hasattr(self, "node"):
            self.node.core.settle(self.instant)
        return request

    def metadata_batch(self, *records: Message) -> bytes:
        """Return what the metadata log has next: a batch of these records."""
        builder = RecordBatchBuilder(1 << 20)
        for record in records:
            builder.try_append(0, None, encode_record(record, record.VALID_VERSIONS[1]), ())
        data = bytearray(builder.close())
        data[0:8] = self.offset.to_bytes(8, "big")
        data[12:16] = (1).to_bytes(4, "big")
        self.offset += len(records)
        return bytes(data)

    def tell(self, *records: Message) -> None:
        """Have the metadata log go on with these records."""
        data = self.metadata_batch(*records)
        part = PartitionData(
            high_watermark=self.offset, records=data, current_leader=LeaderIdAndEpoch(CONTROLLER.id, 1)
        )
        endpoint = NodeEndpoint(CONTROLLER.id, CONTROLLER.host, CONTROLLER.port)
        topics = [FetchableTopicResponse(partitions=[part])]
        self.answer("raft", FetchResponse(responses=topics, node_endpoints=[endpoint]))

    def unfence(self) -> None:
        """Come to the state of a broker at work."""
        self.answer("heartbeat", BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
        self.now += 0.1
        self.answer("heartbeat", BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        assert self.control._lifecycle is not None
        assert self.control._lifecycle.state is LifecycleState.RUNNING

    def follower_fetches(self, topic_id: bytes, offset: int, broker: int = 1, index: int = 0) -> Any:
        """Have another broker fetch what this one leads; returns the response, None while it waits."""
        from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState

        part = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=broker, replica_epoch=broker * 10),
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[part])],
        )
        return self.connect().request(request, 18)


def registration(id: int, host: str, port: int, listener: str = "PLAINTEXT") -> Message:
    """A broker, registered in epoch ten times its number."""
    endpoint = BrokerEndpoint(name=listener, host=host, port=port)
    return RegisterBrokerRecord(
        broker_id=id, broker_epoch=id * 10, end_points=[endpoint], rack=f"r{id}", incarnation_id=bytes([id]) * 16
    )


def broker(id: int, *, host: str = "h", port: int = 9092, listener: str = "PLAINTEXT") -> list[Message]:
    """Another broker, registered in epoch ten times its number and unfenced."""
    return [registration(id, host, port, listener), UnfenceBrokerRecord(id=id, epoch=id * 10)]


def topic(name: str, id: bytes, *replicas: list[int], leader: int | None = None, epoch: int = 0) -> list[Message]:
    """A topic, a partition for each list of replicas, led by the first of them."""
    parts = [
        PartitionRecord(
            partition_id=index,
            topic_id=id,
            replicas=members,
            isr=members,
            leader=members[0] if leader is None else leader,
            leader_epoch=epoch,
            partition_epoch=0,
            directories=[bytes(16)] * len(members),
        )
        for index, members in enumerate(replicas)
    ]
    return [TopicRecord(name=name, topic_id=id), *parts]


def change(id: bytes, index: int = 0, **fields: Any) -> Message:
    """A change of a partition."""
    return PartitionChangeRecord(partition_id=index, topic_id=id, **fields)
