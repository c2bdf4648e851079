"""A `ReplicatedCluster` with the rest of a broker's life: transactions, deletion, retention, reassignments, clocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

from barnabas.broker.replication.partition_state import PendingExpandIsr
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.replicated_cluster import FAULTS, ReplicatedCluster
from tests.support.replicated_controller import CONTROLLER
from tests.support.replicated_node import Node
from tests.support.replicated_transactions import CommittedReader, TransactionalProducer

DELETE_VERSION = 2
_MOST_BROKERS = 7
_RETAINED = 9000
_SEGMENT = 4000
#: After so many seconds the start of a log is in its checkpoint (`LogMaintenance`; Apache Kafka: a minute).
_CHECKPOINT = 1.5


class RicherCluster(ReplicatedCluster):
    """Its load and faults, and more of both; four brokers or five, three replicas of each partition.

    Brokers die for good, others come, and disks are replaced by empty ones: only while every replica of what lies there
    is in sync, so that `min.insync.replicas` copies of each acknowledged record are left.
    """

    broker_settings: ClassVar[dict[str, str]] = {
        "transaction.partition.verification.enable": "false",
        "log.retention.check.interval.ms": "1000",
    }
    replica_count = 3
    faults = (*FAULTS, "reassign", "reassign", "clock", "delete", "delete", "strand", "join", "gone", "new disk")

    def __init__(self, seed: int, brokers: int = 4, partitions: int = 1) -> None:
        self.deleted_to: defaultdict[TopicPartition, int] = defaultdict(int)
        #: When it was answered that records were deleted, where, and up to which offset.
        self.deletions: list[tuple[float, TopicPartition, int]] = []
        self.was_reassigned = False
        #: The brokers that died for good.
        self.gone: set[int] = set()
        #: What happened of the faults that cannot happen at any time.
        self.counts: Counter[str] = Counter()
        #: Less than a broker's session: who lags is given up before who is cut off, in half of the histories.
        self.lag_ms = (600, 4000)[seed % 2]
        super().__init__(seed, brokers, partitions=partitions)

    def draw_topic_configs(self) -> dict[str, str]:
        self.retains = self.world.random.random() < 0.4
        return {"retention.bytes": str(_RETAINED)} if self.retains else {}

    def more_load(self) -> None:
        self.producers = [TransactionalProducer(self, 7000 + number) for number in range(2)]
        self.readers = [CommittedReader(self, name, self.producers) for name in self.names]
        for producer in self.producers:
            producer.begin()
        for reader in self.readers:
            reader.read()

    def more_faults(self, kind: str, node: Node) -> bool:
        happens: dict[str, Callable[[], None]] = {
            "reassign": self.reassign,
            "clock": self.set_clocks,
            "delete": self.delete_records,
            "strand": self.strand_an_expansion,
            "join": self.let_a_broker_join,
            "gone": lambda: self.lose_for_good(node),
            "new disk": lambda: self.lose_disk(node),
        }
        if kind in happens:
            happens[kind]()
        return kind in happens

    def set_clocks(self) -> None:
        """Forward for good, as after a suspension; back, as a clock that is set."""
        self.world.clock_ms += self.world.random.choice((-3_600_000, 60_000, 3_600_000))

    def reassign(self) -> None:
        """Put another broker in the place of a replica, or take one away that can be missed."""
        name = self.any_name()
        self.replace(name, self.world.random.choice(self.registration(name).replicas))

    def replace(self, name: TopicPartition, leaves: int) -> None:
        """Begin to move a replica of a partition to another broker."""
        registration = self.registration(name)
        others = [id for id in self.nodes if id not in registration.replicas and id not in self.gone]
        if others and not registration.is_reassigning:
            target = tuple(others[0] if id == leaves else id for id in registration.replicas)
            self.was_reassigned = True
            self.counts["reassigned"] += 1
            self.controller.partitions[name].reassign(target)

    # -- brokers and disks that come, and go for good ----------------------------------------------------------------

    def let_a_broker_join(self) -> None:
        """Start a broker that there was not, and move a replica to it, as an operator does."""
        if len(self.nodes) < _MOST_BROKERS:
            id = max(self.nodes) + 1
            self.nodes[id] = Node(self, id)
            self.counts["joined"] += 1
            self.reassign()

    def lose_for_good(self, node: Node) -> None:
        """End a broker that never comes back, and move what it has to the others."""
        mine = [name for name in self.names if node.id in self.registration(name).replicas]
        rest = [id for id in self.nodes if id not in self.gone and id != node.id]
        has_room = all(set(rest) - set(self.registration(name).replicas) for name in mine)
        if not self.may_lose(node) or not has_room:
            return
        self.gone.add(node.id)
        self.counts["gone for good"] += 1
        node.stop("power")
        self.controller.fence(node.id)
        for name in mine:
            self.replace(name, node.id)

    def lose_disk(self, node: Node) -> None:
        """End a broker whose disk is broken; it comes back with an empty one."""
        if self.may_lose(node):
            self.counts["disks replaced"] += 1
            node.stop("power")
            self.controller.fence(node.id)
            node.replace_disk()
            self.world.after(self.world.random.choice((0.5, 3.0)), node.start)

    def may_lose(self, node: Node) -> bool:
        """Whether all that lies on a broker's disk lies on two others, which are alive, too."""
        if not node.alive:
            return False
        for name in self.names:
            found = self.registration(name)
            if node.id not in found.replicas:
                continue
            if found.is_reassigning or set(found.isr) != set(found.replicas):
                return False
            if not all(self.nodes[id].alive for id in found.replicas):
                return False
        return True

    def strand_an_expansion(self) -> None:
        """Have a follower leave the ISR and come back, and the answer to its leader's proposal not arrive.

        The controller has accepted, so the follower may be elected; it gets no records any more, and is elected.
        """
        name = self.any_name()
        registration = self.registration(name)
        leader = self.nodes.get(registration.leader)
        followers = [id for id in registration.isr if id != registration.leader]
        if leader is None or len(registration.replicas) < 3 or not followers:
            return
        follower = followers[0]
        apart = {pair for other in self.nodes for pair in ((follower, other), (other, follower))} - {(follower,) * 2}
        lag = self.lag_ms / 1000
        world, life = self.world, leader.life

        def cut(pairs: set[tuple[int, int]], seconds: float) -> None:
            world.cut |= pairs
            world.after(seconds, lambda: world.cut.difference_update(pairs))

        def watch(until: float) -> None:
            partition = leader.partition(name) if leader.alive and leader.life == life else None
            if partition is None or partition.in_sync is None or world.now > until:
                return
            state = partition.in_sync.state
            if not (isinstance(state, PendingExpandIsr) and state.new_replica == follower):
                world.after(0.0005, lambda: watch(until))
                return
            cut({(CONTROLLER, leader.id)}, 3.0)
            cut(set(apart), lag + 1.0)
            world.after(
                lag + 0.6, lambda: [self._stop(self.nodes[id], "kill", 3.0) for id in self.nodes if id != follower]
            )

        cut(set(apart), 2.5 * lag + 0.2)
        world.after(2.5 * lag + 0.25, lambda: watch(world.now + 4.0))

    def delete_records(self) -> None:
        """Ask for what was acknowledged to be deleted, up to some offset."""
        name = self.any_name()
        known = sorted(self.oracles[name].acknowledged)
        if not known:
            return
        offset = self.world.random.choice(known)
        self.deleted_to[name] = max(self.deleted_to[name], offset)
        part = DeleteRecordsPartition(partition_index=name.partition, offset=offset)
        topics = [DeleteRecordsTopic(name=name.topic, partitions=[part])]

        def then(response: Any) -> None:
            found = None if response is None else response.topics[0].partitions[0]
            if found is not None and not found.error_code:
                self.deletions.append((self.world.now, name, found.low_watermark))

        self._ask(self._leader(name), DeleteRecordsRequest(topics=topics, timeout_ms=1000), DELETE_VERSION, then)

    def _stop(self, node: Node, how: str, lasting: float) -> None:
        # Where a log starts is written with the next checkpoint, so a broker that is killed before may not know it.
        self.deletions = [one for one in self.deletions if self.world.now - one[0] > _CHECKPOINT]
        super()._stop(node, how, lasting)

    def check_copies(self, name: TopicPartition, offset: int) -> None:
        if not self.was_reassigned:
            super().check_copies(name, offset)

    def check_start(self, name: TopicPartition, start: int) -> None:
        logs = [node.partition(name).log for node in self.replicas(name)]
        starts = [log.log_start_offset for log in logs]
        promised = max((low for _, where, low in self.deletions if where == name), default=0)
        assert min(starts) >= promised or self.was_reassigned, "what was deleted is there again"
        if not self.retains:
            asked = self.deleted_to[name]
            assert start <= asked, f"the log of {name} starts at {start}; {asked} was asked for"
            return
        for log in logs:
            is_right = log.log_start_offset <= self.deleted_to[name] or log.size > _RETAINED - _SEGMENT
            assert is_right, "too much was deleted"

    def _is_quiet(self) -> bool:
        return super()._is_quiet() and all(producer.is_idle for producer in self.producers)

    def heal(self) -> None:
        """Heal, and restart those whose flush has failed: nothing else helps them."""
        self.world.run(8.0)
        for node in self.nodes.values():
            found = [node.partition(name) for name in self.names] if node.alive else []
            logs = [partition.log for partition in found if partition is not None]
            if any(log.is_offline and not log.health.can_be_reopened for log in logs):
                self._stop(node, "kill", 0.1)
        super().heal()

    def check(self) -> None:
        assert any(producer.committed for producer in self.producers), "no transaction was committed"
        super().check()

    def check_partition(self, name: TopicPartition) -> None:
        super().check_partition(name)
        self.readers[name.partition].check_end()
