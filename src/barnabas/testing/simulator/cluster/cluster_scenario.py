"""A run with a cluster: three or four brokers, under one or three controllers or ZooKeeper, drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.administration import ClusterAdminActor
from barnabas.testing.simulator.cluster.cluster_audit import replicas_agree, what_is_missing
from barnabas.testing.simulator.cluster.cluster_faults import ClusterPlan, ZooKeeperPlan
from barnabas.testing.simulator.cluster.cluster_servers import ClusterServers
from barnabas.testing.simulator.cluster.cluster_watch import ClusterWatch
from barnabas.testing.simulator.cluster.control_planes import QuorumPlane, ZooKeeperPlane
from barnabas.testing.simulator.cluster.operator import Field, Operator
from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
from barnabas.testing.simulator.cluster.unclean_topic import UncleanTopic
from barnabas.testing.simulator.parts import OFFSETS_PARTITIONS
from barnabas.testing.simulator.patience import PATIENCE
from barnabas.testing.simulator.play import Play
from barnabas.testing.simulator.workloads.foreign_members import ForeignMembers
from barnabas.testing.simulator.workloads.metered_topic import MeteredTopic
from barnabas.testing.simulator.workloads.recreated_topic import RecreatedTopic
from barnabas.testing.simulator.workloads.shared_queue import SharedQueue
from barnabas.testing.simulator.workloads.shortened_topics import AgedTopic, KeyedTopic, TrimmedTopic
from barnabas.testing.simulator.workloads.streams_application import StreamsApplication

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
    from barnabas.testing.simulator.cluster.control_planes import Plane
    from barnabas.testing.simulator.workloads.workload import Workload

#: What brokers and controllers go by.
_FOR_ALL = {"default.replication.factor": 3, "min.insync.replicas": 2}
#: They need protocols of groups that a cluster under ZooKeeper does not have.
_OF_GROUPS = (ForeignMembers, SharedQueue, StreamsApplication)


class ClusterScenario(Play):
    """Brokers under a quorum or under ZooKeeper, and the applications of `Play`: topics of three replicas, acks=all."""

    replicas = 3
    WORKLOADS: ClassVar[tuple[type[Workload], ...]] = (
        ForeignMembers,
        SharedQueue,
        StreamsApplication,
        TrimmedTopic,
        AgedTopic,
        KeyedTopic,
        MeteredTopic,
        RecreatedTopic,
    )
    WORKLOAD_SHARE: ClassVar[float] = 0.06
    administrator = ClusterAdminActor

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # So much happens between six machines.
        self.world.most_events = 60_000
        self.ledger.may_be_old = 30.0
        #: Randomness of what there is besides topics and clients.
        self._shape = self.world.stream("shape")
        self.plane: Plane = self._make_plane()
        unclean = [UncleanTopic(self)] if self._shape.random() < UncleanTopic.SHARE else []
        self.workloads = [*unclean, *self._draw_workloads()]
        if self.plane.zookeeper is None:
            self.transaction_version = self.world.stream("transactions").choice((1, 2, 2))
        own = self._broker_settings()
        self.directories = ("/data", "/data2") if self._shape.random() < 0.4 else ("/data",)
        self.brokers: Sequence[SimulatedMember] = [
            SimulatedMember(
                self.world,
                self.network,
                f"broker{one}",
                self.plane,
                {**own, self.plane.id_setting: one},
                self.directories,
            )
            for one in range(1, self._shape.choice((3, 3, 4)) + 1)
        ]
        self.servers = ClusterServers(self.plane, self.brokers)
        lag = own["replica.lag.time.max.ms"] / 1000
        self._watch = ClusterWatch(self.network, self.plane, self.brokers, lag, {UncleanTopic.TOPIC})
        plan = ClusterPlan if self.plane.zookeeper is None else ZooKeeperPlan
        self.faults: ClusterPlan = plan(self)
        #: Topics with one replica: without its broker they have no leader, while their coordinators are at work.
        self.thin: set[str] = set()

    def _has_thin_topics(self) -> bool:
        return self.world.stream("thin topics").random() < self.THIN_SHARE and not self.faults.takes_copies

    #: In how many of the seeds in which no fault takes a copy.
    THIN_SHARE = 0.3

    def replicas_of(self, topic: str) -> int:
        """See `Play`."""
        return 1 if topic in self.thin else self.replicas

    def _draw_workloads(self) -> list[Workload]:
        """Return what the run has besides, mostly nothing: of what one broker has, and where groups have protocols."""
        random = self.world.stream("workloads")
        kinds = [kind for kind in self.WORKLOADS if self.plane.has_group_protocols or kind not in _OF_GROUPS]
        drawn = [kind for kind in kinds if random.random() < self.WORKLOAD_SHARE]
        return [kind(self) for kind in self.asked_for(kinds, drawn)]

    def _make_plane(self) -> Plane:
        return self.make_quorum() if self._shape.random() < self.QUORUMS else self.make_zookeeper()

    #: In how many of the seeds a quorum of controllers decides; ZooKeeper in the others.
    QUORUMS = 0.6

    def make_quorum(self) -> QuorumPlane:
        """Return a quorum of one or three controllers."""
        random = self._shape
        settings = {
            "broker.session.timeout.ms": random.choice((3000, 9000)),
            "broker.heartbeat.interval.ms": random.choice((500, 2000)),
            # Controllers look at what groups are given.
            **SharedQueue.SETTINGS,
        }
        return QuorumPlane(self.world, self.network, random.choice((1, 3, 3)), settings, _FOR_ALL)

    def make_zookeeper(self) -> ZooKeeperPlane:
        """Return a ZooKeeper."""
        sessions = self._shape.choice((3000, 6000))
        return ZooKeeperPlane(self.network, {"zookeeper.session.timeout.ms": sessions, **_FOR_ALL})

    def _broker_settings(self) -> dict[str, Any]:
        random = self.random
        settings: dict[str, Any] = {
            "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.min.isr": 2,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "group.initial.rebalance.delay.ms": random.choice((0, 500)),
            "group.consumer.min.session.timeout.ms": 6000,
            "group.consumer.session.timeout.ms": 6000,
            "group.consumer.min.heartbeat.interval.ms": 500,
            "group.consumer.heartbeat.interval.ms": random.choice((500, 2000)),
            "replica.lag.time.max.ms": random.choice((2000, 10_000)),
            "replica.fetch.wait.max.ms": random.choice((100, 500)),
            "num.replica.fetchers": random.choice((1, 2)),
            "log.roll.ms": random.choice((1000, 5000, 100_000)),
            "log.segment.bytes": 1 << 20,
            "log.index.interval.bytes": random.choice((0, 4096)),
            "log.retention.ms": -1,
            "log.flush.offset.checkpoint.interval.ms": random.choice((500, 2000, 60_000)),
        }
        for workload in self.workloads:
            settings.update(workload.SETTINGS)
        if self.flushes:
            settings["log.flush.interval.messages"] = 1
        return settings

    def _consumer_settings(self, *, has_static_members: bool) -> dict[str, Any]:
        found = super()._consumer_settings(has_static_members=has_static_members)
        # Under ZooKeeper, as in Apache Kafka 3.9, groups have the classic protocol only.
        while not self.plane.has_group_protocols and "group_protocol" in found:
            found = super()._consumer_settings(has_static_members=has_static_members)
        return found

    def cast(self) -> None:
        """See `Play`; and an operator in most of the seeds."""
        super().cast()
        if self._shape.random() < 0.6:
            moved = {**self.topics, **self.output, GROUP_METADATA_TOPIC: 1}
            moved = {name: count for name, count in moved.items() if name not in self.thin}
            partitions = [TopicPartition(name, index) for name, count in moved.items() for index in range(count)]
            self.add(
                Operator,
                "operator",
                field=Field(range(1, len(self.brokers) + 1), partitions, self.replicas, self.directories),
                settings={"request_timeout_ms": 4000, "metadata_max_age_ms": 10_000},
            )

    @property
    def nodes(self) -> list[ClusterMachine]:
        """All machines."""
        return [*self.plane.controllers, *self.brokers]

    # --- the way of a run

    def boot(self) -> None:
        """See `Play`."""
        if self._has_thin_topics():
            self.thin.add("b")
        self.plane.boot()
        for broker in self.brokers:
            broker.start()

    def await_servers(self) -> None:
        """See `Play`."""
        give_up_at = self.world.now + PATIENCE
        while not all(broker.is_in_service for broker in self.brokers):
            if self.world.now > give_up_at:
                self.world.violate("no progress: the brokers do not come into service")
                return
            self.world.sleep(0.1)
        self._watch.begin()

    def check_servers(self) -> None:
        """See `Play`: all replicas are in sync, and the same."""
        give_up_at = self.world.now + PATIENCE
        while missing := what_is_missing(self.plane.partitions, self.brokers):
            if self.world.now > give_up_at:
                self.world.violate(f"no progress: {missing}")
                return
            self.world.sleep(0.5)
        partitions = self.plane.partitions
        assert partitions is not None, "nothing is missing"
        for difference in replicas_agree(partitions, self.brokers):
            self.world.violate(difference)
        for name, registration in partitions:
            wanted = self.replicas_of(name.topic)
            if len(set(registration.replicas)) != wanted:
                self.world.violate(f"{name} is to have {wanted} replicas, and has {registration.replicas}")


class QuorumScenario(ClusterScenario):
    """A cluster under controllers in every seed."""

    QUORUMS = 1.0


class SessionScenario(QuorumScenario):
    """The same, in which a broker that is back waits for the end of its session, as under Apache Kafka."""

    def make_quorum(self) -> QuorumPlane:
        """See `ClusterScenario`."""
        plane = super().make_quorum()
        for controller in plane.controllers:
            controller.waits_for_sessions = True
        return plane


class ZooKeeperScenario(ClusterScenario):
    """A cluster under ZooKeeper in every seed."""

    QUORUMS = 0.0
