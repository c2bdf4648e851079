"""Brokers that replicate one partition, on virtual time, under a scripted controller.

Every broker is a `CoreBroker` on a disk of its own; followers, producers and consumers speak to it in bytes over links
that are slow, lose requests and can be cut. Brokers are killed, lose power, are paused and come back. The controller
is a few rules of Kafka's: who does not answer is fenced and leaves the ISR, a leader is elected from the ISR only, and
every change has another epoch. Everything is drawn from one seed.

`Oracles` hold what was promised: an acknowledged record stays at its offset, two replicas never have two records at one
committed offset, no reader sees two values at one offset, the end of what may be read never goes back, and when all is
healed every replica is in sync and the same.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from barnabas import errors
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
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, fetch, produce
from tests.support.replicated_controller import CONTROLLER, Controller, Oracles

NAME = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
LAG_MS = 4_000
REQUEST_TIMEOUT = 2.0
TICK = 0.05
FETCH_VERSION, LIST_OFFSETS_VERSION, PRODUCE_VERSION = 18, 9, 11
FAULTS = (
    "kill", "pause", "cut from controller", "deaf to the controller", "cut from brokers", "half cut", "move", "power",
    "restart all", "disk",
)  # fmt: skip
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
        if self.broker.node.metadata.topic(NAME.topic) is None:
            topic = TopicMetadata(NAME.topic, TOPIC_ID, 1, dict(self.cluster.topic_configs), 0)
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
                self.world.send(self.id, CONTROLLER, lambda: answer(controller.alter_partition(self.id, proposed)))
                self.world.after(REQUEST_TIMEOUT, lambda: self.do(send, life))

        send()

    def take_metadata(self, version: int, registration: PartitionRegistration, epochs: dict[int, int]) -> None:
        """Apply what the controller has published; what is older than what is known is dropped."""
        if version <= self.version or epochs.get(self.id, self.broker_epoch) != self.broker_epoch:
            return
        self.version, self.epochs = version, epochs
        manager = self.broker.state.replica_manager
        failed = manager.apply_delta({NAME: (TOPIC_ID, registration)}, (), self.world.now_ms)
        if failed:
            # Being recovered, for instance: the newest metadata come again.
            self.version = -1
        self.settle()

    @property
    def partition(self) -> Any:
        return self.broker.state.replica_manager.used_partition(*NAME)


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


class ReplicatedCluster:
    """The whole: brokers, controller, producers, consumers and what happens to them.

    `more_load` and `more_faults` are for those who add to it (`RicherCluster`).
    """

    broker_settings: ClassVar[dict[str, str]] = {}
    faults: tuple[str, ...] = FAULTS
    #: `replica.lag.time.max.ms`.
    lag_ms = LAG_MS
    #: On how many of the brokers the partition lies; None: on all.
    replica_count: int | None = None

    def __init__(self, seed: int, brokers: int = 3, min_insync_replicas: int = 2) -> None:
        self.world = World(seed)
        #: So few that a follower takes a while to catch up, in half of the histories: one batch at a time.
        self.fetch_bytes = self.world.random.choice((100, 1 << 20))
        self.min_insync_replicas = min_insync_replicas
        self.topic_configs = {"min.insync.replicas": str(min_insync_replicas), **self.draw_topic_configs()}
        self.nodes: dict[int, Node] = {}
        self.controller = Controller(self, tuple(range(self.replica_count or brokers)))
        self.oracles = Oracles()
        for id in range(brokers):
            self.nodes[id] = Node(self, id)
        self.controller.publish()
        self.loads = True
        self.ended_at: dict[int, float] = {}
        self.sent = 0
        for _ in range(3):
            self.produce()
        for consumer in range(2):
            self.consume(consumer, 0)
        self.more_load()
        self.look()

    def draw_topic_configs(self) -> dict[str, str]:
        """More settings of the topic."""
        return {}

    def more_load(self) -> None:
        """Begin what else asks the brokers."""

    def more_faults(self, kind: str, node: Node) -> bool:
        """Let a fault of one's own happen; whether there is one of that name."""
        return False

    @property
    def replicas(self) -> list[Node]:
        """Those that have the partition, as the controller has it."""
        return [self.nodes[id] for id in self.controller.registration.replicas]

    def look(self) -> None:
        self.controller.look()
        self.world.after(0.25, self.look)

    def _leader(self) -> Node:
        """Return whom clients take for the leader: mostly who is."""
        leader = self.controller.registration.leader
        if leader < 0 or self.world.random.random() < 0.15:
            leader = self.world.random.choice(list(self.nodes))
        return self.nodes[leader]

    def _ask(self, node: Node, message: Message, version: int, then: Callable[[Message | None], None]) -> None:
        """Ask a broker; `then` gets the response, or None after a while without one."""
        done: list[bool] = []

        def once(response: Message | None) -> None:
            if not done:
                done.append(True)
                then(response)

        world = self.world
        world.after(REQUEST_TIMEOUT, lambda: once(None))
        world.after(
            world.random.random() * 0.01, lambda: node.do(lambda: node.ask(-9, message, version, once), node.life)
        )

    def produce(self) -> None:
        """One record with acks=all, and the next one after its answer."""
        self.sent += 1
        value = b"%d" % self.sent

        def then(response: Message | None) -> None:
            if response is not None:
                found = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
                if found.error_code == 0:
                    self.oracles.acknowledge(found.base_offset, value)
                    self.check_copies(found.base_offset)
            if self.loads:
                self.world.after(self.world.random.random() * 0.05, self.produce)

        self._ask(self._leader(), produce(NAME.topic, batch(value)), PRODUCE_VERSION, then)

    def check_copies(self, offset: int) -> None:
        """An acknowledged record is on as many disks as min.insync.replicas asks for; who is down may have it."""
        running = [node.partition for node in self.nodes.values() if node.alive]
        without = sum(1 for found in running if found is not None and found.log.log_end_offset <= offset)
        copies = len(self.nodes) - without
        assert copies >= self.min_insync_replicas, f"offset {offset} was acknowledged with {copies} copies"

    def consume(self, consumer: int, offset: int) -> None:
        """Read on; now and then ask where the end is, or begin anew."""

        def then(response: Message | None) -> None:
            following = offset
            if response is not None:
                data = response.responses[0].partitions[0]  # type: ignore[attr-defined]
                if data.error_code == 0 and data.records:
                    following = self.oracles.read(bytes(data.records)) + 1
                elif data.error_code == errors.OffsetOutOfRangeError.code:
                    # A follower may not have what its leader has committed.
                    following = 0 if node.partition is None else node.partition.log.log_start_offset
            if self.loads:
                self.world.after(0.05, lambda: self.consume(consumer, following))

        node = self._leader()
        self._ask(node, fetch(NAME.topic, offset, max_wait_ms=100), 12, then)
        if self.world.random.random() < 0.2:
            self.ask_for_end(consumer)

    def ask_for_end(self, consumer: int) -> None:
        def then(response: Message | None) -> None:
            if response is not None:
                found = response.topics[0].partitions[0]  # type: ignore[attr-defined]
                if found.error_code == 0 and asked_at >= self.ended_at.get(consumer, 0.0):
                    self.ended_at[consumer] = asked_at
                    self.oracles.end(consumer, found.offset)

        asked_at = self.world.now
        latest = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=NAME.topic, partitions=[latest])])
        leader = self.controller.registration.leader
        if leader >= 0:
            self._ask(self.nodes[leader], request, LIST_OFFSETS_VERSION, then)

    # -- faults ------------------------------------------------------------------------------------------------------

    def fault(self) -> None:
        """Let something happen, and be mended after a while."""
        world = self.world
        node = world.random.choice(list(self.nodes.values()))
        kind = world.random.choice(self.faults)
        lasting = world.random.choice((0.3, 1.0, 3.0, 6.0))
        others = [other for other in self.nodes if other != node.id]
        if self.more_faults(kind, node):
            return
        if kind == "move":
            self.controller.move_leader()
        elif kind in ("kill", "power"):
            self._stop(node, kind, lasting)
        elif kind == "restart all":
            for one in list(self.nodes.values()):
                self._stop(one, "kill", world.random.random() * 2)
        elif kind == "disk":
            self._break_disk(node, lasting)
        elif kind == "pause" and node.alive and not node.paused:
            node.paused = True
            world.after(lasting, lambda life=node.life: node.resume() if node.life == life else None)
        else:
            pairs = {(node.id, CONTROLLER), (CONTROLLER, node.id)}
            if kind == "deaf to the controller":
                pairs = {(CONTROLLER, node.id)}
            elif kind != "cut from controller":
                pairs = {pair for other in others for pair in ((node.id, other), (other, node.id))}
            if kind == "half cut":
                pairs = {pair for pair in pairs if pair[0] == node.id}
            world.cut |= pairs
            world.after(lasting, lambda: world.cut.difference_update(pairs))

    def _break_disk(self, node: Node, lasting: float) -> None:
        """Let some operations fail for a while; not the flush, after which only a restart helps."""
        broken = self.world.random.sample(("write", "truncate", "create", "rename"), 2)
        node.disk.fail = lambda operation, path: OSError("broken") if operation in broken else None
        self.world.after(lasting, lambda: setattr(node.disk, "fail", None))

    def _stop(self, node: Node, how: str, lasting: float) -> None:
        if not node.alive:
            return
        if how == "power":
            # As long as one of those in sync keeps its disk nothing may be lost.
            safe = [member for member in self.controller.registration.isr if member != node.id]
            if not any(self.nodes[member].alive for member in safe):
                how = "kill"
        was_only = self.controller.registration.isr == (node.id,)
        node.stop(how)
        if how == "power" and not was_only:
            self.controller.fence(node.id)
        node.disk.fail = None
        self.world.after(lasting, lambda: None if node.alive else node.start())

    def run(self, faults: int = 12) -> None:
        """Load, faults, and peace; then the promises are looked at."""
        self.world.run(1.0)
        for _ in range(faults):
            self.fault()
            self.world.run(self.world.random.choice((0.1, 0.7, 2.5)))
        self.heal()
        self.check()

    def heal(self) -> None:
        world = self.world
        world.run(8.0)
        world.cut.clear()
        self.loads = False
        for _ in range(40):
            world.run(1.0)
            if self._is_quiet():
                return

    def _is_quiet(self) -> bool:
        found = [node.partition for node in self.replicas]
        if None in found or set(self.controller.registration.isr) != set(self.controller.registration.replicas):
            return False
        ends = {partition.log.log_end_offset for partition in found}
        marks = {partition.log.high_watermark for partition in found}
        return len(ends) == 1 and marks == ends

    def check(self) -> None:
        """Whether everything is as it was promised."""
        assert self._is_quiet(), f"no peace: {self.controller.registration}, " + ", ".join(
            f"{node.id}: {node.partition.log if node.partition else None}" for node in self.nodes.values()
        )
        histories = [self.history(node) for node in self.replicas]
        start = max(node.partition.log.log_start_offset for node in self.replicas)
        kept = [{offset: found for offset, found in history.items() if offset >= start} for history in histories]
        assert all(history == kept[0] for history in kept), "the replicas differ"
        self.check_start(start)
        for offset, value in self.oracles.acknowledged.items():
            if offset < start:
                continue
            found = histories[0].get(offset)
            assert found is not None, f"the record at offset {offset} was acknowledged and is lost"
            assert found[1] == value, f"the record at offset {offset} was acknowledged, and is another now"
        for offset, value in self.oracles.seen.items():
            if offset < start:
                continue
            assert offset in histories[0], f"the record at offset {offset} was read and is gone"
            assert histories[0][offset][1] == value, f"the record at offset {offset} was read, and is another now"

    def check_start(self, start: int) -> None:
        """Whether what is gone from the beginning was allowed to go."""
        assert start == 0, "nothing was to be deleted"

    def history(self, node: Node) -> dict[int, tuple[int, bytes]]:
        """Return the leader epoch and the value at every offset of a replica."""
        found: dict[int, tuple[int, bytes]] = {}
        log, at = node.partition.log, node.partition.log.log_start_offset
        while data := log.read(at, 1 << 20).records:
            for one in read_batches(data):
                found.update({record.offset: (one.partition_leader_epoch, record.value) for record in one})
                at = one.last_offset + 1
        return found
