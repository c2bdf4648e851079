"""What must be true of a cluster at every moment, with any fault: looked at many times a second of virtual time.

A fault of replication does harm only where a second thing happens at the right moment, the death of a leader mostly.
What is demanded here is wrong before that: a replica that counts as in sync and lacks what is committed, two leaders in
one epoch, a controller that acts although another one has its place, a follower whose end no leader waits for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.metadata.partition_registration import NO_LEADER
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.kept_copies import KeptCopies
from barnabas.testing.simulator.cluster.watched_control import WatchedControl

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
    from barnabas.testing.simulator.cluster.control_planes import Plane
    from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
    from barnabas.testing.simulator.network import Network

#: How often it is looked, and how much longer than `replica.lag.time.max.ms` a lagging follower may stay, in seconds.
_EVERY, _LAG_SLACK = 0.05, 4.0
#: How long a leader may have records that it does not begin to flush, in seconds.
_FLUSH_SLACK = 2.0
#: A network that is slower than this may be what a follower waits for.
_CALM_LATENCY = 0.001
#: A partition of one topic, which has no other one's name later.
_Whole = tuple[TopicPartition, bytes]


class _Life(NamedTuple):
    """A broker's process."""

    number: int
    life: int


class ClusterWatch:
    """Looks at the brokers of a run, and at what is decided of their partitions.

    Of `unclean` topics nothing is asked that an unclean election breaks. `max_lag` is `replica.lag.time.max.ms` in
    seconds.
    """

    def __init__(
        self,
        network: Network,
        plane: Plane,
        brokers: Sequence[SimulatedMember],
        max_lag: float,
        unclean: Collection[str] = (),
    ) -> None:
        self._network = network
        self._world = network.world
        self._plane = plane
        self._brokers = brokers
        self._max_lag = max_lag
        self._unclean = unclean
        self._copies = [KeptCopies(broker, unclean) for broker in brokers]
        #: The largest high watermark of all replicas, which none can go behind.
        self._committed: dict[_Whole, int] = {}
        self._leaders: dict[tuple[_Whole, int], int] = {}
        self._epochs: dict[tuple[_Life, _Whole], int] = {}
        self._control_epochs: dict[_Life, int] = {}
        #: Lives whose disk has failed: what a log has lost by that the controller hears later.
        self._spoilt: set[_Life] = set()
        #: Since when a follower has lacked something, cut off from its leader, with nothing else wrong.
        self._lacking: dict[tuple[TopicPartition, int, int], float] = {}
        #: Since when a leader that has to flush has had records that it did not begin to flush.
        self._unflushed: dict[tuple[_Life, _Whole], float] = {}

    def begin(self) -> None:
        """Look from now on."""
        self._world.after(_EVERY, self._look)

    def _look(self) -> None:
        for broker in self._brokers:
            life = _Life(broker.number, broker.lives)
            if broker.has_faulty_disk:
                self._spoilt.add(life)
            for name, partition in self._partitions(broker):
                self._look_at(life, name, partition)
            self._look_at_control(life, broker)
            self._look_at_flushes(life, broker)
        self._look_at_isrs()
        for copies in self._copies:
            for gone in copies.look(self._plane.partitions):
                self._violate(gone)
        self._world.after(_EVERY, self._look)

    @staticmethod
    def _partitions(broker: SimulatedMember) -> Iterator[tuple[_Whole, Partition]]:
        if broker.node is not None:
            for partition in broker.node.state.replica_manager.partitions():
                yield (TopicPartition(partition.topic, partition.index), partition.topic_id), partition

    def _look_at(self, life: _Life, name: _Whole, partition: Partition) -> None:
        """Epochs of a replica never go back, and one replica leads in each."""
        self._committed[name] = max(self._committed.get(name, 0), partition.log.high_watermark)
        epoch = partition.leader_epoch
        if epoch < self._epochs.get((life, name), -1):
            self._violate(f"broker {life.number} goes by leader epoch {epoch} of {name[0]}, after a later one")
        self._epochs[life, name] = epoch
        if partition.is_leader:
            leader = self._leaders.setdefault((name, epoch), life.number)
            if leader != life.number:
                self._violate(f"brokers {leader} and {life.number} have both led {name[0]} in epoch {epoch}")

    def _look_at_control(self, life: _Life, broker: SimulatedMember) -> None:
        """Demand that a broker never goes by a controller again that was one before the last."""
        if broker.member is not None:
            epoch = broker.member.control.image.epoch
            if epoch < self._control_epochs.get(life, 0):
                self._violate(f"broker {life.number} goes by controller epoch {epoch}, after a later one")
            self._control_epochs[life] = epoch
            if isinstance(broker.member.control, WatchedControl):
                self._look_at_obedience(life, broker.member.control)

    def _look_at_obedience(self, life: _Life, control: WatchedControl) -> None:
        """Demand that a broker refuses what was told to an earlier process of it: it names that one's registration."""
        zookeeper = self._plane.zookeeper
        assert zookeeper is not None, "it is told by a controller under ZooKeeper"
        for request in control.take_obeyed():
            told = zookeeper.registered_lives.get(request.broker_epoch, life.life)
            if told < life.life:
                what = type(request).__name__.removesuffix("Request")
                self._violate(
                    f"broker {life.number} obeys in its life {life.life} a {what} that was told to its life {told} "
                    f"(broker epoch {request.broker_epoch})"
                )

    def _look_at_flushes(self, life: _Life, broker: SimulatedMember) -> None:
        """Demand that a leader flushes all it has where only that counts, and not with the next append."""
        is_well = self._is_well(broker)
        for name, partition in self._partitions(broker):
            log, key = partition.log, (life, name)
            has_to = partition.is_leader and log.must_flush and log.recovery_point < log.log_end_offset
            if not has_to or partition.is_flushing or log.troubles or not is_well:
                self._unflushed.pop(key, None)
            elif self._world.now - self._unflushed.setdefault(key, self._world.now) > _FLUSH_SLACK:
                self._violate(
                    f"broker {life.number} leads {name[0]} with flush.messages, and does not flush what it has from "
                    f"{log.recovery_point} to {log.log_end_offset}"
                )

    # --- who is in sync

    def _look_at_isrs(self) -> None:
        partitions = self._plane.partitions
        if partitions is None:
            self._lacking.clear()
            return
        controllers = self._plane.active(self._brokers)
        is_calm = self._is_calm(controllers)
        lacking: dict[tuple[TopicPartition, int, int], float] = {}
        for name, registration in partitions:
            if name.topic not in self._unclean:
                for number in {*registration.isr, registration.leader} - {NO_LEADER}:
                    self._look_at_member(name, number)
            for member in registration.isr:
                if is_calm and member != registration.leader >= 0 and self._lacks(name, registration.leader, member):
                    key = name, registration.leader, member
                    lacking[key] = self._lacking.get(key, self._world.now)
        self._lacking = lacking
        for (name, leader, member), since in lacking.items():
            if self._world.now - since > 1.5 * self._max_lag + _LAG_SLACK:
                self._violate(
                    f"{member} counts as in sync with broker {leader} in {name}, and has reached it for "
                    f"{self._world.now - since:.1f} s no more; replica.lag.time.max.ms are {self._max_lag} s"
                )

    def _look_at_member(self, name: TopicPartition, number: int) -> None:
        """Demand that who counts as in sync has all that is committed, if its disk has kept it."""
        broker = self._brokers[number - 1]
        found = self._partition(broker, name)
        if found is None or broker.has_lost or _Life(number, broker.lives) in self._spoilt:
            return
        end, committed = found.log.log_end_offset, self._committed.get((name, found.topic_id), 0)
        if end < committed:
            self._violate(f"broker {number} leads {name} or is in sync, and ends at {end}; {committed} are committed")

    @staticmethod
    def _partition(broker: SimulatedMember, name: TopicPartition) -> Partition | None:
        return None if broker.node is None else broker.node.state.replica_manager.used_partition(*name)

    # --- who lags

    def _is_calm(self, controllers: Sequence[ClusterMachine]) -> bool:
        """Whether network and controllers are well, so that a change of the ISR is a matter of a moment."""
        network = self._network
        latency = max(network.base_latency, network.jitter)
        return network.loss == 0 and latency <= _CALM_LATENCY and len(controllers) == 1 and self._is_well(*controllers)

    def _is_well(self, node: ClusterMachine) -> bool:
        """Whether a machine works, and reaches all that decides."""
        cut_off, process = self._network.cut_off, node.process
        deciding = [*self._plane.places, *(one.process for one in self._plane.active(self._brokers))]
        return (
            node.is_running
            and process.frozen_until <= self._world.now
            and node.disk.slowness == 0
            and not node.has_faulty_disk
            and all(max(cut_off(process, other), cut_off(other, process)) <= 0 for other in deciding)
        )

    def _lacks(self, name: TopicPartition, leader: int, member: int) -> bool:
        """Whether a follower cannot get from its leader what that has."""
        leading, following = self._brokers[leader - 1], self._brokers[member - 1]
        theirs, ours = self._partition(leading, name), self._partition(following, name)
        return (
            theirs is not None
            and theirs.is_leader
            and ours is not None
            and ours.log.log_end_offset < theirs.log.log_end_offset
            and self._network.cut_off(following.process, leading.process) > 0
            and self._is_well(leading)
        )

    def _violate(self, what: str) -> None:
        self._world.violate(what)
