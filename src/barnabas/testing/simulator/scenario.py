"""A run with one broker: what there is, drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.testing.simulator.broker import SimulatedBroker
from barnabas.testing.simulator.faults.plan import Faults
from barnabas.testing.simulator.parts import OFFSETS_PARTITIONS
from barnabas.testing.simulator.play import Play
from barnabas.testing.simulator.workloads.foreign_members import ForeignMembers
from barnabas.testing.simulator.workloads.metered_topic import MeteredTopic
from barnabas.testing.simulator.workloads.recreated_topic import RecreatedTopic
from barnabas.testing.simulator.workloads.shared_queue import SharedQueue
from barnabas.testing.simulator.workloads.shortened_topics import AgedTopic, KeyedTopic, TrimmedTopic
from barnabas.testing.simulator.workloads.streams_application import StreamsApplication

if TYPE_CHECKING:
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.parts import Servers
    from barnabas.testing.simulator.workloads.workload import Workload


class Scenario(Play):
    """One broker, and the workloads that go by it."""

    #: What some of the seeds have besides.
    WORKLOADS: ClassVar[tuple[type[Workload], ...]] = (
        ForeignMembers,
        TrimmedTopic,
        AgedTopic,
        KeyedTopic,
        MeteredTopic,
        RecreatedTopic,
        SharedQueue,
        StreamsApplication,
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        shares = self.world.stream("workloads")
        self.transaction_version = shares.choice((1, 2, 2))
        drawn = [kind for kind in self.WORKLOADS if shares.random() < kind.SHARE]
        self.workloads = [kind(self) for kind in self.asked_for(self.WORKLOADS, drawn)]
        self.broker = SimulatedBroker(self.world, self.network, self._broker_settings())
        self.faults = Faults(self)

    @property
    def servers(self) -> Servers:
        """See `ServedParts`."""
        return self.broker

    def boot(self) -> None:
        """See `Play`."""
        self.broker.start()

    @property
    def losses(self) -> list[dict[TopicPartition, int]]:
        """See `Play`."""
        return self.broker.power_losses

    def _broker_settings(self) -> dict[str, Any]:
        random = self.random
        settings: dict[str, Any] = {
            "group.initial.rebalance.delay.ms": random.choice((0, 0, 500)),
            "group.consumer.min.session.timeout.ms": 6000,
            "group.consumer.session.timeout.ms": 6000,
            "group.consumer.min.heartbeat.interval.ms": 500,
            "group.consumer.heartbeat.interval.ms": random.choice((500, 2000)),
            "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
            "transaction.state.log.num.partitions": 2,
            "log.roll.ms": random.choice((1000, 5000, 100_000)),
            "log.segment.bytes": 1 << 20,
            "log.index.interval.bytes": random.choice((0, 100, 4096)),
            "log.retention.ms": -1,
            # Recovery begins at the recovery points that were written last; with the default there are mostly none.
            "log.flush.offset.checkpoint.interval.ms": random.choice((500, 2000, 60_000)),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        }
        for workload in self.workloads:
            settings.update(workload.SETTINGS)
        if self.flushes:
            settings["log.flush.interval.messages"] = 1
        return settings
