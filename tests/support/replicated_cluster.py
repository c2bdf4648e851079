"""Brokers that replicate, on virtual time, under a scripted controller.

Every broker is a `CoreBroker` on a disk of its own; followers, producers and consumers speak to it in bytes over links
that are slow, lose requests and can be cut. Brokers are killed, lose power, are paused and come back. The controller
is a few rules of Kafka's: who does not answer is fenced and leaves the ISR, a leader is elected from the ISR only, and
every change has another epoch. Everything is drawn from one seed.

`Oracles` hold what was promised: an acknowledged record stays at its offset, two replicas never have two records at one
committed offset, no reader sees two values at one offset, the end of what may be read never goes back, and when all is
healed every replica is in sync and the same. The history of what clients did is kept for `check_queue`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from barnabas import errors
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.protocol.message import Message
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.support.core_broker import batch, fetch, produce
from tests.support.replicated_controller import CONTROLLER, Controller, Oracles
from tests.support.replicated_history import ReplicatedHistory
from tests.support.replicated_node import LIST_OFFSETS_VERSION, REQUEST_TIMEOUT, TOPIC, Node, World

LAG_MS = 4_000
PRODUCE_VERSION = 11
FAULTS = (
    "kill", "pause", "cut from controller", "deaf to the controller", "cut from brokers", "half cut", "cut pair",
    "move", "power", "restart all", "disk",
)  # fmt: skip


class ReplicatedCluster:
    """The whole: brokers, controller, producers, consumers and what happens to them.

    `more_load` and `more_faults` are for those who add to it (`RicherCluster`). Each of the `names` is a partition of
    the one topic, whose leaders and replicas differ.
    """

    broker_settings: ClassVar[dict[str, str]] = {}
    faults: tuple[str, ...] = FAULTS
    #: `replica.lag.time.max.ms`.
    lag_ms = LAG_MS
    #: On how many of the brokers a partition lies; None: on all.
    replica_count: int | None = None
    oracles_kind: type[Oracles] = Oracles

    def __init__(self, seed: int, brokers: int = 3, min_insync_replicas: int = 2, partitions: int = 1) -> None:
        self.world = World(seed)
        self.names = tuple(TopicPartition(TOPIC, index) for index in range(partitions))
        #: So few that a follower takes a while to catch up, in half of the histories: one batch at a time.
        self.fetch_bytes = self.world.random.choice((100, 1 << 20))
        self.min_insync_replicas = min_insync_replicas
        self.topic_configs = {"min.insync.replicas": str(min_insync_replicas), **self.draw_topic_configs()}
        self.nodes: dict[int, Node] = {}
        count = self.replica_count or brokers
        placed = {name: tuple((name.partition + n) % brokers for n in range(count)) for name in self.names}
        self.controller = Controller(self, placed)
        self.oracles = {name: self.oracles_kind() for name in self.names}
        self.history = ReplicatedHistory(self.world)
        for id in range(brokers):
            self.nodes[id] = Node(self, id)
        self.controller.publish()
        self.loads = True
        self.ended_at: dict[tuple[int, TopicPartition], float] = {}
        self.sent = 0
        for producer in range(3):
            self.produce(producer)
        for consumer in range(2):
            for name in self.names:
                self.consume(consumer, name, 0)
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

    def registration(self, name: TopicPartition) -> PartitionRegistration:
        """A partition as the controller has it."""
        return self.controller.partitions[name].registration

    def replicas(self, name: TopicPartition) -> list[Node]:
        """Those that have a partition, as the controller has it."""
        return [self.nodes[id] for id in self.registration(name).replicas]

    def any_name(self) -> TopicPartition:
        """One of the partitions."""
        return self.names[0] if len(self.names) == 1 else self.world.random.choice(self.names)

    def look(self) -> None:
        self.controller.look()
        self.world.after(0.25, self.look)

    def _leader(self, name: TopicPartition) -> Node:
        """Return whom clients take for the leader: mostly who is."""
        leader = self.registration(name).leader
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

    def produce(self, producer: int) -> None:
        """One record with acks=all, and the next one after its answer."""
        self.sent += 1
        value, name = b"%d" % self.sent, self.any_name()
        acknowledged = self.history.sending(f"producer-{producer}", value, name)

        def then(response: Message | None) -> None:
            if response is not None:
                found = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
                if found.error_code == 0:
                    acknowledged(found.base_offset)
                    self.oracles[name].acknowledge(found.base_offset, value)
                    self.check_copies(name, found.base_offset)
            if self.loads:
                self.world.after(self.world.random.random() * 0.05, lambda: self.produce(producer))

        request = produce(name.topic, batch(value), name.partition)
        self._ask(self._leader(name), request, PRODUCE_VERSION, then)

    def check_copies(self, name: TopicPartition, offset: int) -> None:
        """An acknowledged record is on as many disks as min.insync.replicas asks for; who is down may have it."""
        running = [node.partition(name) for node in self.nodes.values() if node.alive]
        without = sum(1 for found in running if found is not None and found.log.log_end_offset <= offset)
        copies = len(self.nodes) - without
        assert copies >= self.min_insync_replicas, f"offset {offset} was acknowledged with {copies} copies"

    def consume(self, consumer: int, name: TopicPartition, offset: int, moved: bool = True) -> None:
        """Read on; now and then ask where the end is. `moved`: it did not get there by reading."""

        def then(response: Message | None) -> None:
            following, is_moved = offset, moved
            if response is not None:
                data = response.responses[0].partitions[0]  # type: ignore[attr-defined]
                if data.error_code == 0 and data.records:
                    records = bytes(data.records)
                    following, is_moved = self.oracles[name].read(records) + 1, False
                    self.history.read(consumer, name, offset, records, moved)
                elif data.error_code == errors.OffsetOutOfRangeError.code:
                    # A follower may not have what its leader has committed.
                    partition = node.partition(name)
                    following, is_moved = 0 if partition is None else partition.log.log_start_offset, True
            if self.loads:
                self.world.after(0.05, lambda: self.consume(consumer, name, following, is_moved))

        node = self._leader(name)
        self._ask(node, fetch(name.topic, offset, name.partition, max_wait_ms=100), 12, then)
        if self.world.random.random() < 0.2:
            self.ask_for_end(consumer, name)

    def ask_for_end(self, consumer: int, name: TopicPartition) -> None:
        """Ask where a partition ends."""

        def then(response: Message | None) -> None:
            if response is not None:
                found = response.topics[0].partitions[0]  # type: ignore[attr-defined]
                if found.error_code == 0 and asked_at >= self.ended_at.get((consumer, name), 0.0):
                    self.ended_at[consumer, name] = asked_at
                    self.oracles[name].end(consumer, found.offset)

        asked_at = self.world.now
        latest = ListOffsetsPartition(partition_index=name.partition, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name.topic, partitions=[latest])])
        leader = self.registration(name).leader
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
            self.controller.partitions[self.any_name()].move_leader()
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
                apart = others if kind != "cut pair" else [world.random.choice(others)]
                pairs = {pair for other in apart for pair in ((node.id, other), (other, node.id))}
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
            isrs = [partition.registration.isr for partition in self.controller.partitions.values()]
            if not all(any(self.nodes[one].alive for one in isr if one != node.id) for isr in isrs):
                how = "kill"
        node.stop(how)
        if how == "power":
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
        return all(self._is_settled(name) for name in self.names)

    def _is_settled(self, name: TopicPartition) -> bool:
        registration = self.registration(name)
        found = [node.partition(name) for node in self.replicas(name)]
        if None in found or set(registration.isr) != set(registration.replicas):
            return False
        ends = {partition.log.log_end_offset for partition in found}
        marks = {partition.log.high_watermark for partition in found}
        return len(ends) == 1 and marks == ends

    def check(self) -> None:
        """Whether everything is as it was promised."""
        assert self._is_quiet(), f"no peace: {[self.registration(name) for name in self.names]}, " + ", ".join(
            f"{node.id}: {[found.log if (found := node.partition(name)) else None for name in self.names]}"
            for node in self.nodes.values()
        )
        for name in self.names:
            self.check_partition(name)
        self.history.judge()

    def check_partition(self, name: TopicPartition) -> None:
        """Whether a partition is as it was promised."""
        histories = [self.records_of(node, name) for node in self.replicas(name)]
        start = max(node.partition(name).log.log_start_offset for node in self.replicas(name))
        kept = [{offset: found for offset, found in history.items() if offset >= start} for history in histories]
        assert all(history == kept[0] for history in kept), f"the replicas of {name} differ"
        self.check_start(name, start)
        for offset, value in self.oracles[name].acknowledged.items():
            if offset < start:
                continue
            found = histories[0].get(offset)
            assert found is not None, f"the record at offset {offset} of {name} was acknowledged and is lost"
            assert found[1] == value, f"the record at offset {offset} of {name} was acknowledged, and is another now"
        for offset, value in self.oracles[name].seen.items():
            if offset < start:
                continue
            assert offset in histories[0], f"the record at offset {offset} of {name} was read and is gone"
            assert histories[0][offset][1] == value, f"the record at offset {offset} of {name} was read, and is another"
        self.history.audited(name, start, histories[0])

    def check_start(self, name: TopicPartition, start: int) -> None:
        """Whether what is gone from the beginning was allowed to go."""
        assert start == 0, "nothing was to be deleted"

    def records_of(self, node: Node, name: TopicPartition) -> dict[int, tuple[int, bytes]]:
        """Return the leader epoch and the value at every offset of a replica."""
        found: dict[int, tuple[int, bytes]] = {}
        log = node.partition(name).log
        at = log.log_start_offset
        while data := log.read(at, 1 << 20).records:
            for one in read_batches(data):
                found.update({record.offset: (one.partition_leader_epoch, record.value) for record in one})
                at = one.last_offset + 1
        return found
