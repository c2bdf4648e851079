"""A `ReplicatedCluster` with the rest of a broker's life: transactions, deletion, retention, reassignments, clocks."""

from __future__ import annotations

from typing import Any, ClassVar

from barnabas.broker.replication.partition_state import PendingExpandIsr
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.replicated_cluster import FAULTS, NAME, Node, ReplicatedCluster
from tests.support.replicated_controller import CONTROLLER
from tests.support.replicated_transactions import CommittedReader, TransactionalProducer

DELETE_VERSION = 2
_RETAINED = 9000
_SEGMENT = 4000
#: After so many seconds the start of a log is in its checkpoint (`LogMaintenance`; Apache Kafka: a minute).
_CHECKPOINT = 1.5


class RicherCluster(ReplicatedCluster):
    """Its load and faults, and more of both; four brokers or five, three replicas."""

    broker_settings: ClassVar[dict[str, str]] = {
        "transaction.partition.verification.enable": "false",
        "log.retention.check.interval.ms": "1000",
    }
    replica_count = 3
    faults = (*FAULTS, "reassign", "reassign", "clock", "delete", "delete", "strand")

    def __init__(self, seed: int, brokers: int = 4) -> None:
        self.deleted_to = 0
        #: When it was answered that records were deleted, up to where.
        self.deletions: list[tuple[float, int]] = []
        self.was_reassigned = False
        #: Less than a broker's session: who lags is given up before who is cut off, in half of the histories.
        self.lag_ms = (600, 4000)[seed % 2]
        super().__init__(seed, brokers)

    def draw_topic_configs(self) -> dict[str, str]:
        self.retains = self.world.random.random() < 0.4
        return {"retention.bytes": str(_RETAINED)} if self.retains else {}

    def more_load(self) -> None:
        self.producers = [TransactionalProducer(self, NAME.topic, 7000 + number) for number in range(2)]
        self.reader = CommittedReader(self, NAME.topic, self.producers)
        for producer in self.producers:
            producer.begin()
        self.reader.read()

    def more_faults(self, kind: str, node: Node) -> bool:
        if kind == "reassign":
            self.reassign(node)
        elif kind == "clock":
            # Forward for good, as after a suspension; back, as a clock that is set.
            self.world.clock_ms += self.world.random.choice((-3_600_000, 60_000, 3_600_000))
        elif kind == "delete":
            self.delete_records()
        elif kind == "strand":
            self.strand_an_expansion()
        else:
            return False
        return True

    def reassign(self, node: Node) -> None:
        """Put another broker in the place of a replica, or take one away that can be missed."""
        registration, random = self.controller.registration, self.world.random
        others = [id for id in self.nodes if id not in registration.replicas]
        if others and not registration.is_reassigning:
            leaves = random.choice(registration.replicas)
            target = tuple(others[0] if id == leaves else id for id in registration.replicas)
            self.was_reassigned = True
            self.controller.reassign(target)

    def strand_an_expansion(self) -> None:
        """Have a follower leave the ISR and come back, and the answer to its leader's proposal not arrive.

        The controller has accepted, so the follower may be elected; it gets no records any more, and is elected.
        """
        registration = self.controller.registration
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
            partition = leader.partition if leader.alive and leader.life == life else None
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
        known = sorted(self.oracles.acknowledged)
        if not known:
            return
        offset = self.world.random.choice(known)
        self.deleted_to = max(self.deleted_to, offset)
        part = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name=NAME.topic, partitions=[part])]

        def then(response: Any) -> None:
            found = None if response is None else response.topics[0].partitions[0]
            if found is not None and not found.error_code:
                self.deletions.append((self.world.now, found.low_watermark))

        self._ask(self._leader(), DeleteRecordsRequest(topics=topics, timeout_ms=1000), DELETE_VERSION, then)

    def _stop(self, node: Node, how: str, lasting: float) -> None:
        # Where a log starts is written with the next checkpoint, so a broker that is killed before may not know it.
        self.deletions = [one for one in self.deletions if self.world.now - one[0] > _CHECKPOINT]
        super()._stop(node, how, lasting)

    def check_copies(self, offset: int) -> None:
        if not self.was_reassigned:
            super().check_copies(offset)

    def check_start(self, start: int) -> None:
        starts = [node.partition.log.log_start_offset for node in self.replicas]
        promised = max((low for _, low in self.deletions), default=0)
        assert min(starts) >= promised or self.was_reassigned, "what was deleted is there again"
        if not self.retains:
            assert start <= self.deleted_to, f"the log starts at {start}; {self.deleted_to} was asked for"
            return
        for node in self.replicas:
            log = node.partition.log
            assert log.log_start_offset <= self.deleted_to or log.size > _RETAINED - _SEGMENT, "too much was deleted"

    def _is_quiet(self) -> bool:
        return super()._is_quiet() and all(producer.is_idle for producer in self.producers)

    def heal(self) -> None:
        """Heal, and restart those whose flush has failed: nothing else helps them."""
        self.world.run(8.0)
        for node in self.nodes.values():
            partition = node.partition if node.alive else None
            if partition is not None and partition.log.is_offline and not partition.log.health.can_be_reopened:
                self._stop(node, "kill", 0.1)
        super().heal()

    def check(self) -> None:
        super().check()
        self.reader.check_end()
