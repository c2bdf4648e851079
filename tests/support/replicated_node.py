"""One broker of a `ReplicatedCluster`, the links between brokers, and the time they live in."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.broker.instant import Instant
from barnabas.broker.log.memory_filesystem import MemoryFileSystem, ProcessDiedError
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.replica_manager import Cluster
from barnabas.broker.replication.partition_state import LeaderAndIsr
from barnabas.broker.replication.replica_fetcher import FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_fetcher_manager import ReplicaFetchers
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.protocol.message import Message
from barnabas.protocol.messages.list_offsets_request import ListOffsetsRequest
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import START_MS, CoreBroker, CoreClient
from tests.support.replicated_controller import CONTROLLER

if TYPE_CHECKING:
    from tests.support.replicated_cluster import ReplicatedCluster

TOPIC = "t"
TOPIC_ID = bytes(range(16))
REQUEST_TIMEOUT = 2.0
TICK = 0.05
FETCH_VERSION, LIST_OFFSETS_VERSION = 18, 9
SMALL_SEGMENTS = {"segment.bytes": 4000, "index.interval.bytes": 200}


class World:
    """Virtual time, events, and the links between the brokers (and the controller, number -1)."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 100.0
        #: By how much the machines' clocks were set.
        self.clock_ms = 0
        self.cut: set[tuple[int, int]] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    @property
    def now_ms(self) -> int:
        return START_MS + int((self.now - 100) * 1000) + self.clock_ms

    @property
    def instant(self) -> Instant:
        return Instant(self.now, self.now_ms)

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._count), work))

    def send(self, source: int, target: int, work: Callable[[], None]) -> None:
        """Do `work` at the target after a while, unless the link is cut then, or loses it."""
        if self.random.random() < 0.01:
            return
        self.after(
            self.random.choice((0.001, 0.01, 0.2)) * self.random.random(),
            lambda: None if (source, target) in self.cut else work(),
        )

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            at, _, work = heapq.heappop(self._events)
            self.now = max(self.now, at)
            work()
        self.now = end


class Peer:
    """A connection to a broker, whose responses go to who asked, in order."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.life = node.life
        self.client = CoreClient(node.broker)
        self.waiting: list[Callable[[Message], None]] = []

    def request(self, message: Message, version: int, respond: Callable[[Message], None]) -> None:
        self.waiting.append(respond)
        self.client.send(message, version)
        self.node.settle()

    def deliver(self) -> None:
        while self.client.responses:
            self.waiting.pop(0)(self.client.responses.pop(0))


class Node:
    """One broker: its disk, its process (`life` counts them), and its view of the cluster."""

    def __init__(self, cluster: ReplicatedCluster, id: int) -> None:
        self.cluster, self.world, self.id = cluster, cluster.world, id
        self.disk = MemoryFileSystem(Random(cluster.world.random.random()))
        self.store = MemoryStore()
        self.life = 0
        self.alive = self.paused = False
        self.broker_epoch = -1
        self.epochs: dict[int, int] = {}
        self.version = -1
        self.peers: list[Peer] = []
        self.held: list[Callable[[], None]] = []
        self.start()

    # -- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.life += 1
        self.alive, self.paused = True, False
        self.epochs, self.version, self.broker_epoch = {}, -1, -1
        self.peers, self.held = [], []
        settings = {"node.id": self.id, **self.cluster.broker_settings}
        self.broker = CoreBroker(settings, self.disk, self.store, seed=self.life)
        self.broker.now = self.world.now
        self.broker.node.logs.settings.defaults.update(SMALL_SEGMENTS)
        manager = self.broker.state.replica_manager
        self.fetchers = ReplicaFetchers(self._fetcher)
        manager.join(Cluster(self.id, self, self, self.fetchers, self.cluster.lag_ms))
        if self.broker.node.metadata.topic(TOPIC) is None:
            count = len(self.cluster.names)
            topic = TopicMetadata(TOPIC, TOPIC_ID, count, dict(self.cluster.topic_configs), 0)
            self.broker.node.metadata.put_topics([topic])
        self.links: dict[int, Link] = {}
        self.world.after(0.0, lambda life=self.life: self.tick(life))
        self.cluster.controller.register(self)

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        manager = self.broker.state.replica_manager
        logs = ReplicaLogs(self.broker.node.logs, lambda name: manager.used_partition(*name))
        settings = FetcherSettings(0.3, partition_max_bytes=self.cluster.fetch_bytes, backoff=0.2)
        fetcher = ReplicaFetcher(self.id, logs, lambda: self.broker_epoch, settings)
        self.links[leader] = Link(self, self.cluster.nodes[leader], fetcher)
        return fetcher

    def stop(self, how: str) -> None:
        """Kill the process, or take its power: what was not synced may be gone."""
        self.alive = False
        self.broker.node.metadata.close()
        if how == "power":
            self.disk.power_loss()
        else:
            self.disk.crash()

    def do(self, work: Callable[[], None], life: int | None = None) -> None:
        """Work of this process: it is lost with it, and waits while it is paused."""
        if not self.alive or (life is not None and life != self.life):
            return
        if self.paused:
            life = self.life
            self.held.append(lambda: self.do(work, life))
        else:
            self.broker.now = self.world.now
            try:
                work()
            except ProcessDiedError:
                self.cluster._stop(self, "kill", 1.0)

    def resume(self) -> None:
        self.paused = False
        held, self.held = self.held, []
        for work in held:
            work()

    def tick(self, life: int) -> None:
        if not self.alive or life != self.life:
            return
        self.world.after(TICK, lambda: self.tick(life))
        self.do(self._work)

    def _work(self) -> None:
        core, manager = self.broker.node.core, self.broker.state.replica_manager
        for _ in range(100):
            if core.next_deadline() > self.world.now:
                break
            core.tick(self.broker.instant)
        if self.world.random.random() < 0.1:
            manager.shrink_isrs(self.world.now_ms)
        self.settle()
        for link in list(self.links.values()):
            link.work()

    def settle(self) -> None:
        """Answer what can be answered, and let the responses leave."""
        self.broker.node.core.settle(self.broker.instant)
        for peer in self.peers:
            peer.deliver()

    def ask(self, source: int, message: Message, version: int, respond: Callable[[Message], None]) -> None:
        """Handle a request that has come over a link; the response goes back over it."""
        peer = Peer(self)
        self.peers = [*self.peers[-40:], peer]
        peer.request(message, version, lambda response: self.world.send(self.id, source, lambda: respond(response)))

    # -- what ReplicaManager asks of a cluster -----------------------------------------------------------------------

    @property
    def local_broker_epoch(self) -> int:
        return self.broker_epoch

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def is_shutting_down(self, broker_id: int) -> bool:
        return False

    def submit(
        self,
        name: TopicPartition,
        topic_id: bytes,
        proposed: LeaderAndIsr,
        done: Callable[[PartitionRegistration | int, int], None],
    ) -> None:
        """AlterPartition, sent again until something comes back."""
        life, answered = self.life, []

        def answer(found: PartitionRegistration | int) -> None:
            def take() -> None:
                if not answered:
                    answered.append(found)
                    done(found, self.world.now_ms)
                    self.settle()

            self.world.send(CONTROLLER, self.id, lambda: self.do(take, life))

        def send() -> None:
            if not answered and self.alive and life == self.life:
                controller = self.cluster.controller
                self.world.send(
                    self.id, CONTROLLER, lambda: answer(controller.partitions[name].alter(self.id, proposed))
                )
                self.world.after(REQUEST_TIMEOUT, lambda: self.do(send, life))

        send()

    def take_metadata(
        self, version: int, registrations: Mapping[TopicPartition, PartitionRegistration], epochs: dict[int, int]
    ) -> None:
        """Apply what the controller has published; what is older than what is known is dropped."""
        if version <= self.version or epochs.get(self.id, self.broker_epoch) != self.broker_epoch:
            return
        self.version, self.epochs = version, epochs
        manager = self.broker.state.replica_manager
        changed = {name: (TOPIC_ID, registration) for name, registration in registrations.items()}
        failed = manager.apply_delta(changed, (), self.world.now_ms)
        if failed:
            # Being recovered, for instance: the newest metadata come again.
            self.version = -1
        self.settle()

    def partition(self, name: TopicPartition) -> Any:
        """Its replica of a partition; None where it has none."""
        return self.broker.state.replica_manager.used_partition(*name)

    def replace_disk(self) -> None:
        """Put an empty disk in the place of one that is broken for good; the process is not running."""
        self.disk = MemoryFileSystem(Random(self.world.random.random()))
        self.store = MemoryStore()


class Link:
    """A follower's way to its leader: one request in flight, given up after a while."""

    def __init__(self, node: Node, leader: Node, fetcher: ReplicaFetcher) -> None:
        self.node, self.leader, self.fetcher = node, leader, fetcher
        self.life = node.life
        self.number = 0
        self.sent_at = 0.0
        self.busy = False

    def work(self) -> None:
        world = self.node.world
        if self.busy and world.now - self.sent_at > REQUEST_TIMEOUT:
            self.busy = False
            self.number += 1
            self.fetcher.disconnected(world.now)
        if self.busy:
            return
        request = self.fetcher.next_request(world.now)
        if request is None:
            return
        self.busy, self.sent_at = True, world.now
        self.number += 1
        number, node, leader = self.number, self.node, self.leader
        version = LIST_OFFSETS_VERSION if isinstance(request, ListOffsetsRequest) else FETCH_VERSION

        def respond(response: Message) -> None:
            node.do(lambda: self.take(number, response), self.life)

        world.send(
            node.id, leader.id, lambda: leader.do(lambda: leader.ask(node.id, request, version, respond), leader.life)
        )

    def take(self, number: int, response: Message) -> None:
        if number == self.number and self.busy:
            self.busy = False
            self.fetcher.receive(response, self.node.world.instant)
            self.node.settle()
            self.work()
