"""A leader and a follower of many partitions, both in memory; requests go from one to the other when a caller says."""

from __future__ import annotations

from typing import Any

from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.replica_manager import Cluster
from barnabas.broker.replication.replica_fetcher import FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_fetcher_manager import ReplicaFetchers
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import CoreBroker, CoreClient, batch, produce

TOPIC, TOPIC_ID = "t", bytes(range(16))
LEADER, FOLLOWER = 1, 2
FETCH_VERSION, PRODUCE_VERSION = 18, 11
WAIT = 0.5


class PairedBroker:
    """One of the two; `proposals` are the changes of ISRs that it wants."""

    local_broker_epoch = 1

    def __init__(self, me: int, partitions: int) -> None:
        self.me = me
        self.broker = CoreBroker({"node.id": me})
        self.fetcher: ReplicaFetcher | None = None
        self.proposals: list[tuple[Any, ...]] = []
        self.manager = self.broker.state.replica_manager
        self.manager.join(Cluster(me, self, self, ReplicaFetchers(self._fetcher)))
        self.broker.node.metadata.put_topics([TopicMetadata(TOPIC, TOPIC_ID, partitions, {}, 0)])
        self.assign(range(partitions), PartitionRegistration((LEADER, FOLLOWER), (LEADER, FOLLOWER), LEADER, 0, 0))

    def assign(self, partitions: range, registration: PartitionRegistration) -> None:
        """Take what the controller says."""
        changed = {TopicPartition(TOPIC, index): (TOPIC_ID, registration) for index in partitions}
        assert not self.manager.apply_delta(changed, (), self.broker.now_ms)
        self.broker.node.core.settle(self.broker.instant)

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        logs = ReplicaLogs(self.broker.node.logs, self.partition)
        self.fetcher = ReplicaFetcher(self.me, logs, lambda: 1, FetcherSettings(max_wait=WAIT))
        return self.fetcher

    def partition(self, name: TopicPartition) -> Any:
        """The partition of that name."""
        return self.manager.used_partition(*name)

    def alive_broker_epoch(self, broker_id: int) -> int:
        """See `Brokers`."""
        return 1

    def is_shutting_down(self, broker_id: int) -> bool:
        """See `Brokers`."""
        return False

    def submit(self, *proposal: Any) -> None:
        """See `AlterPartitionManager`."""
        self.proposals.append(proposal)


class ReplicatedPair:
    """`ask` and `answer` are the two halves of a Fetch, `fetch` is a whole one."""

    def __init__(self, partitions: int) -> None:
        self.leader, self.follower = PairedBroker(LEADER, partitions), PairedBroker(FOLLOWER, partitions)
        assert self.follower.fetcher is not None
        self.fetcher = self.follower.fetcher
        self.client: CoreClient = self.leader.broker.connect()
        self.producer: CoreClient = self.leader.broker.connect()

    def produce(self, partition: int = 0, value: bytes = b"x" * 100) -> None:
        """Append a record at the leader; who waits for it is answered."""
        broker = self.leader.broker
        self.producer.send(produce(TOPIC, batch(value), partition, acks=1), PRODUCE_VERSION)
        broker.node.core.settle(broker.instant)
        self.producer.responses.clear()

    def ask(self) -> Any:
        """Let the follower's next Fetch reach the leader; returns it."""
        self.follower.broker.now = self.leader.broker.now
        self.fetcher.next_deadline()
        request = self.fetcher.next_request(self.follower.broker.now)
        assert request is not None, "nothing is due"
        self.client.request(request, FETCH_VERSION)
        return request

    @property
    def is_answered(self) -> bool:
        """Whether the Fetch that was asked last is answered."""
        return bool(self.client.responses)

    def answer(self) -> dict[int, Any]:
        """Have the leader's answer, after its time at the latest, reach the follower; returns it by partition."""
        if not self.is_answered:
            self.leader.broker.advance(WAIT)
        self.follower.broker.now = self.leader.broker.now
        response: Any = self.client.responses.pop(0)
        self.fetcher.receive(response, self.follower.broker.instant)
        return {data.partition_index: data for topic in response.responses for data in topic.partitions}

    def fetch(self) -> dict[int, Any]:
        """One Fetch with its answer."""
        self.ask()
        return self.answer()

    def settle(self) -> None:
        """Fetch until both have everything and know it."""
        for _ in range(4):
            self.fetch()
