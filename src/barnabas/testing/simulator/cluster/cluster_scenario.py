"""A run with a cluster: three or four brokers, under one or three controllers or ZooKeeper, drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.administration import ClusterAdminActor
from barnabas.testing.simulator.cluster.cluster_audit import replicas_agree, what_is_missing
from barnabas.testing.simulator.cluster.cluster_faults import ClusterPlan, ZooKeeperPlan
from barnabas.testing.simulator.cluster.control_planes import QuorumPlane, ZooKeeperPlane
from barnabas.testing.simulator.cluster.operator import Field, Operator
from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
from barnabas.testing.simulator.cluster.unclean_topic import UncleanTopic
from barnabas.testing.simulator.patience import PATIENCE
from barnabas.testing.simulator.play import Play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
    from barnabas.testing.simulator.cluster.control_planes import Plane

#: What brokers and controllers go by.
_FOR_ALL = {"default.replication.factor": 3, "min.insync.replicas": 2}


class ClusterScenario(Play):
    """Brokers under a quorum or under ZooKeeper, and the applications of `Play`: topics of three replicas, acks=all."""

    replicas = 3
    administrator = ClusterAdminActor

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # So much happens between six machines.
        self.world.most_events = 60_000
        self.ledger.may_be_old = 30.0
        #: Randomness of what there is besides topics and clients.
        self._shape = self.world.stream("shape")
        self.plane: Plane = self._make_plane()
        self.workloads = [UncleanTopic(self)] if self._shape.random() < UncleanTopic.SHARE else []
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
        plan = ClusterPlan if self.plane.zookeeper is None else ZooKeeperPlan
        self.faults = plan(self)

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
            **_FOR_ALL,
        }
        return QuorumPlane(self.world, self.network, random.choice((1, 3, 3)), settings)

    def make_zookeeper(self) -> ZooKeeperPlane:
        """Return a ZooKeeper."""
        sessions = self._shape.choice((3000, 6000))
        return ZooKeeperPlane(self.network, {"zookeeper.session.timeout.ms": sessions, **_FOR_ALL})

    def _broker_settings(self) -> dict[str, Any]:
        random = self.random
        settings: dict[str, Any] = {
            "offsets.topic.num.partitions": 2,
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
            if len(set(registration.replicas)) != self.replicas:
                self.world.violate(f"{name} is to have {self.replicas} replicas, and has {registration.replicas}")


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
