"""Faults of several steps, each of which waits for what the cluster makes of the one before.

Single faults that come by chance rarely meet as these do: the second falls into the moment that makes it dangerous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.cluster_audit import what_is_missing
from barnabas.testing.simulator.cluster.cluster_parts import ClusterParts
from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.workloads.recreated_topic import RecreatedTopic

if TYPE_CHECKING:
    from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember

#: How often a step looks whether its moment has come, and for how long, in seconds.
_EVERY, _PATIENCE = 0.02, 10.0
#: With a session of so many seconds a broker may be silent while another one is started twice.
_LONG_SESSION = 8.0
#: Requests between nodes, and of clients to coordinators, whose answers decide how something goes on.
_COUNTED_ON = (
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.FETCH,
    ApiKey.VOTE,
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
)


class OfSteps(FaultGroup[ClusterParts]):
    """Faults that are not drawn with the others."""


class DirectedFaults(OfSteps):
    """One at a time: while the steps of one are not over no other begins."""

    _is_at_it = _is_healed = False

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {
            "leader dies as another joins": self._kill_as_one_joins,
            "all in sync die": self._kill_all_in_sync,
            "disk and power": self._take_disk_and_power,
            "reset as it joins": self._reset_as_it_joins,
            "dies at a request": self._die_at_a_request,
            "topic made anew beside a lost directory": self._lose_directory_of_a_topic,
            "directory lost as a log leaves it": self._lose_directory_of_a_move,
        }

    # --- steps

    def _begin(self, what: str) -> bool:
        if self._is_at_it or self._is_healed:
            return False
        self._is_at_it = True
        self._noted(what)
        self._world.counts[f"directed: {what}"] += 1
        return True

    def _end(self) -> None:
        self._is_at_it = False

    def _when(self, holds: Callable[[], bool], then: Callable[[], None]) -> None:
        """Go on when something holds; be done with it all where it does not come to that."""
        give_up_at = self._world.now + _PATIENCE

        def look() -> None:
            if self._is_healed:
                return
            if holds():
                then()
            elif self._world.now < give_up_at:
                self._world.after(_EVERY, look)
            else:
                self._end()

        look()

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        self._world.after(seconds, lambda: None if self._is_healed else then())

    def _down(self, broker: SimulatedMember, seconds: float) -> None:
        if broker.is_running:
            broker.crash("at that moment")
            self._world.after(seconds, broker.start)

    def _separate(self, one: SimulatedMember, others: Iterable[SimulatedMember], seconds: float) -> None:
        for other in others:
            if other is not one:
                self._parts.network.partition(one.process, other.process, seconds)

    @property
    def _isrs(self) -> dict[TopicPartition, set[int]]:
        return {name: set(found.isr) for name, found in self._parts.plane.partitions or ()}

    def _is_whole(self) -> bool:
        """Whether each partition has all its replicas in sync, and no disk is in doubt."""
        parts = self._parts
        dying = any(broker.disk.die_after is not None for broker in parts.brokers)
        in_doubt = dying or parts.network.has_faulty_disk
        return not in_doubt and not what_is_missing(parts.plane.partitions, parts.brokers, only_isr=True)

    @property
    def _session(self) -> float:
        """How long a broker may be silent before controllers take it for dead, in seconds; 0 without controllers."""
        controllers = self._parts.plane.controllers
        return controllers[0].config.get_seconds("broker.session.timeout.ms") if controllers else 0.0

    # --- what they are

    def _kill_as_one_joins(self) -> None:
        """Let a leader die at the moment at which a follower has come into its ISR, which may lead next."""
        brokers, before = self._parts.brokers, self._isrs
        if not self._begin("a leader dies as another joins"):
            return
        self._down(self._random.choice(brokers), self._random.uniform(0.5, 3))

        def joined() -> bool:
            nonlocal before
            now, was = self._isrs, before
            before = now
            self._leading = [
                found.leader
                for name, found in self._parts.plane.partitions or ()
                if now[name] - was.get(name, now[name]) - {found.leader} and found.leader > 0
            ]
            return bool(self._leading)

        def kill() -> None:
            self._down(brokers[self._leading[0] - 1], self._random.uniform(0.5, 4))
            self._end()

        self._when(joined, kill)

    def _kill_all_in_sync(self) -> None:
        """Let a follower lag that everything but the other brokers reaches, and all the others die then."""
        brokers = self._parts.brokers
        if not self._begin("all in sync die"):
            return
        left = self._random.choice(brokers)
        self._separate(left, brokers, 12.0)

        def is_out() -> bool:
            return any(left.number not in isr for isr in self._isrs.values())

        def kill() -> None:
            for broker in brokers:
                if broker is not left:
                    self._down(broker, self._random.uniform(1.5, 4))
            self._end()

        self._when(is_out, lambda: self._after(self._random.uniform(0, 1), kill))

    def _take_disk_and_power(self) -> None:
        """Let a broker lose its disk as another dies, and be back when the last one with the records dies as well."""
        if not self._is_whole() or not self._begin("a disk and a death, then another"):
            return
        lost, killed, *others = self._random.sample(list(self._parts.brokers), len(self._parts.brokers))
        self._down(killed, self._random.uniform(6, 9))
        lost.replace_disk()
        lost.has_lost = True
        self._world.after(0.5, lost.start)
        self._separate(lost, others, 9.0)

        def kill() -> None:
            for broker in others:
                self._down(broker, self._random.uniform(2, 4))
            self._end()

        self._when(
            lambda: lost.is_in_service and not lost.has_lost and self._parts.plane.is_out(lost.number),
            lambda: self._after(0.2, kill),
        )

    def _reset_as_it_joins(self) -> None:
        """Let a follower lose what it has not flushed while the word that it has all is on its way to the controller.

        (One that gets another disk has another directory, and by that the partition another epoch.)
        """
        brokers, network = self._parts.brokers, self._parts.network
        is_long = self._session >= _LONG_SESSION
        if not is_long or not self._is_whole() or not self._begin("a follower is reset as it joins"):
            return
        joining = self._random.choice(brokers)
        others = [broker for broker in brokers if broker is not joining]
        joining.crash("at that moment")

        def start() -> None:
            self._separate(joining, others, 1.5)
            joining.start()
            self._when(lambda: joining.is_in_service, lambda: self._after(0.8, hold_back))

        def hold_back() -> None:
            for broker in others:
                for place in self._parts.plane.places:
                    network.partition(broker.process, place, 4.0, both=False)
            self._after(1.5, reset)

        def reset() -> None:
            if self._parts.plane.is_out(joining.number) and joining.is_running:
                joining.crash("its machine is reset")
                joining.disk.power_loss()
                joining.has_lost = True
                self._separate(joining, others, 5.0)
            self._world.after(0.4, joining.start)
            self._end()

        self._after(1.0, lambda: self._when(lambda: self._parts.plane.is_out(joining.number), start))

    def _lose_directory_of_a_topic(self) -> None:
        """Let a directory with a topic's log be away while the topic is created again, and be back as it was.

        No other broker is reached then, from which a log that is gone would be there again in a moment.
        """
        parts, random = self._parts, self._random
        name, before = TopicPartition(RecreatedTopic.TOPIC, 0), parts.plane.topic_id(RecreatedTopic.TOPIC)
        holders = [broker for broker in parts.brokers if len(broker.directories) > 1 and broker.log(name) is not None]
        if before is None or not holders or not self._is_whole() or not self._begin("a topic beside a lost directory"):
            return
        broker = random.choice(holders)
        broker.lose_directory_of(name)
        broker.directory_comes_back = True
        self._noted(f"{broker.name} loses {broker.disk.lost_directory}, which has {name}")
        if random.random() < 0.8:
            self._down(broker, random.uniform(0.3, 1))

        def is_made_anew() -> bool:
            log = broker.log(name)
            return log is not None and log.topic_id not in (None, before) and log.high_watermark > 0

        def back() -> None:
            if broker.disk.lost_directory:
                broker.return_directory()
                self._separate(broker, parts.brokers, 4.0)
                self._world.after(random.uniform(0.3, 2), broker.start)
                self._world.counts["directed: a directory is back after its topic"] += 1
            self._end()

        self._when(is_made_anew, lambda: self._after(random.uniform(0, 1), back))

    def _lose_directory_of_a_move(self) -> None:
        """Let a directory be lost for good with a log that the controller takes to lie in another one already."""
        parts, random = self._parts, self._random
        movable = [
            (broker, name, registration.directory(broker.number))
            for name, registration in parts.plane.partitions or ()
            for broker in parts.brokers
            if len(broker.directories) > 1 and broker.log(name) is not None
        ]
        if not movable or not self._is_whole() or not self._begin("a directory is lost as a log leaves it"):
            return
        broker, name, before = random.choice(movable)
        broker.begin_move(name)

        def is_known_elsewhere() -> bool:
            known = dict(parts.plane.partitions or ()).get(name)
            return known is not None and known.directory(broker.number) != before

        def lose() -> None:
            if broker.is_moving(name):
                broker.lose_directory_of(name)
                broker.replace_directory()
                broker.has_lost = True
                self._world.after(random.uniform(0.3, 3), broker.start)
                self._world.counts["directed: a directory is lost before the swap"] += 1
            self._end()

        self._when(is_known_elsewhere, lose)

    def _die_at_a_request(self) -> None:
        """Let a node die when a request comes that others count on."""
        node, api = self._random.choice(self._parts.nodes), self._random.choice(_COUNTED_ON)
        if node.is_running:
            node.dies_at = api
            self._noted(f"{node.name} will die at {api.name}")

    def heal(self) -> None:
        """See `FaultGroup`."""
        self._is_healed = True
        for node in self._parts.nodes:
            node.dies_at = None


class DirectedZooKeeperFaults(OfSteps):
    """What makes two controllers, the earlier of which does not know."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {"controller is deposed": self._depose}

    def _depose(self) -> None:
        """Delete the controller's znode, as operators do who want another one; it mostly hears of that late.

        Its session lives on, so what it writes arrives. A broker dies meanwhile, which gives both something to do.
        """
        parts, random = self._parts, self._random
        zookeeper = parts.plane.zookeeper
        assert zookeeper is not None, "these faults are ZooKeeper's"
        active = parts.plane.active(parts.brokers)
        if not active:
            return
        deposed = active[0]
        if random.random() < 0.8:
            parts.network.partition(zookeeper.process, deposed.process, random.uniform(0.5, 3), both=False)
        self._noted(f"{CONTROLLER} of {deposed.name} is deleted")
        self._world.counts["directed: a controller is deposed"] += 1
        zookeeper.depose()
        dying = random.choice([broker for broker in parts.brokers if broker is not deposed])
        if dying.is_running and random.random() < 0.7:
            dying.crash("at that moment")
            self._world.after(random.uniform(0.5, 4), dying.start)
