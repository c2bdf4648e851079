"""A run with a cluster: three brokers, one or three controllers, drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.testing.simulator.administration import ClusterAdminActor
from barnabas.testing.simulator.broker import HOST
from barnabas.testing.simulator.cluster import simulated_controller
from barnabas.testing.simulator.cluster.cluster_audit import replicas_agree, what_is_missing
from barnabas.testing.simulator.cluster.cluster_faults import ClusterPlan
from barnabas.testing.simulator.cluster.simulated_controller import SimulatedController
from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
from barnabas.testing.simulator.patience import PATIENCE
from barnabas.testing.simulator.play import Play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine

CLUSTER_ID = "simulated-cluster-0000"
_FIRST_CONTROLLER = 101


class ClusterScenario(Play):
    """Members of a KRaft cluster, and the applications of `Play`: topics of three replicas, acks=all."""

    replicas = 3
    administrator = ClusterAdminActor

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # So much happens between six machines.
        self.world.most_events = 60_000
        names = {_FIRST_CONTROLLER + n: f"controller{n + 1}" for n in range(self.random.choice((1, 3, 3)))}
        voters = ",".join(f"{one}@{name}:{simulated_controller.PORT}" for one, name in names.items())
        quorum = {"controller.quorum.voters": voters, "controller.listener.names": "CONTROLLER"}
        settings = {**quorum, **self._cluster_settings()}
        self.controllers: Sequence[SimulatedController] = [
            SimulatedController(self.world, self.network, name, {"node.id": one, **settings})
            for one, name in names.items()
        ]
        own = self._broker_settings()
        self.brokers: Sequence[SimulatedMember] = [
            SimulatedMember(self.world, self.network, f"broker{one}", HOST, {"node.id": one, **settings, **own})
            for one in (1, 2, 3)
        ]
        self.faults = ClusterPlan(self)

    def _cluster_settings(self) -> dict[str, Any]:
        random = self.random
        return {
            "broker.session.timeout.ms": random.choice((3000, 9000)),
            "broker.heartbeat.interval.ms": random.choice((500, 2000)),
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
        }

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

    @property
    def nodes(self) -> list[ClusterMachine]:
        """All machines."""
        return [*self.controllers, *self.brokers]

    @property
    def image(self) -> MetadataImage | None:
        """What the active controller has committed; None while there is none, or several take themselves for it."""
        active = [one.node for one in self.controllers if one.is_active and one.node is not None]
        return active[0].controller.committed_image if len(active) == 1 else None

    # --- the way of a run

    def boot(self) -> None:
        """See `Play`."""
        for controller in self.controllers:
            controller.format(CLUSTER_ID)
        for node in self.nodes:
            node.start()

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
        while missing := what_is_missing(self.image, self.brokers):
            if self.world.now > give_up_at:
                self.world.violate(f"no progress: {missing}")
                return
            self.world.sleep(0.5)
        image = self.image
        assert image is not None, "nothing is missing"
        for difference in replicas_agree(image, self.brokers):
            self.world.violate(difference)
