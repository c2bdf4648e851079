"""An application of Kafka Streams whose members the coordinator gives tasks to (KIP-1071).

Members come and go, stall before they give up what they have to, are cut off, frozen and killed; some have an older
topology. Each task belongs to one member in an epoch, nothing is another's while its holder is still accepted, epochs
never go back, and once all is well two new members have all tasks and copies, and the internal topics are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.admin import ConfigResource
from barnabas.client.admin.groups import GroupState
from barnabas.client.admin.new_topic import NewTopic
from barnabas.errors import KafkaError
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.patience import PATIENCE
from barnabas.testing.simulator.workloads.reign import of_coordinator
from barnabas.testing.simulator.workloads.streams_member import (
    CHANGELOG,
    COUNTING,
    GROUP,
    INPUT,
    READING,
    REPARTITION,
    TOPOLOGY_EPOCH,
    Hands,
    StreamsMember,
)
from barnabas.testing.simulator.workloads.workload import Workload

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts
    from barnabas.testing.simulator.workloads.reign import Reign
    from barnabas.testing.simulator.world import World

PARTITIONS = 3
_OLD_TOPOLOGY = TOPOLOGY_EPOCH - 1
ALL_TASKS = frozenset((part, number) for part in (READING, COUNTING) for number in range(PARTITIONS))
WITH_STATE = frozenset(task for task in ALL_TASKS if task[0] == COUNTING)


class Epochs:
    """The epochs of the group and of its topology, as they were described."""

    def __init__(self, world: World, reign: Reign) -> None:
        self._world = world
        self._reign = reign
        self._seen = {"group": -1, "assignment": -1, "topology": -1}

    @property
    def has_topology(self) -> bool:
        """Whether the group's topology is in the log."""
        return self._seen["topology"] == TOPOLOGY_EPOCH

    def look(self, admin: AdminClient) -> Any:
        """Describe the group, and check that nothing went back since the last answer; None if there is no answer."""
        before = dict(self._seen)
        try:
            found = admin.describe_streams_groups([GROUP], timeout=5.0)[GROUP]
        except KafkaError as problem:
            self._world.counts[f"describe streams: {type(problem).__name__}"] += 1
            return None
        epochs = {"group": found.group_epoch, "assignment": found.assignment_epoch, "topology": found.topology_epoch}
        for name, epoch in epochs.items():
            if epoch < before[name] and self._reign.is_sure:
                self._world.violate(f"the {name} epoch of {GROUP} is {epoch}, and was {before[name]}")
            self._seen[name] = max(self._seen[name], epoch)
        self._world.counts["streams groups described"] += 1
        return found


class Worker(Actor):
    """A process with one member after the other."""

    def __init__(self, application: Application, number: int, *, hands: Hands, epochs: Epochs) -> None:
        super().__init__(application, number)
        self._hands = hands
        self._epochs = epochs

    def live(self, life: str) -> None:
        """See `Actor`."""
        member = StreamsMember(self.world, self.network, self._hands, self.random, life)
        while not self.is_stopping:
            is_old = self._epochs.has_topology and self.random.random() < 0.15
            member.begin(topology_epoch=_OLD_TOPOLOGY if is_old else TOPOLOGY_EPOCH)
            until = self.world.now + self.random.uniform(2, 16)
            while not self.is_stopping and self.world.now < until:
                if not member.beat():
                    self.world.counts["streams members put out"] += 1
                    break
                self.clients.pause(0.1 + self.random.random() * 0.6)
            else:
                if self.random.random() < 0.7:
                    member.leave()
            self.pause(1.0)
        member.close()


class Onlooker(Actor):
    """Describes the group now and then."""

    def __init__(self, application: Application, number: int, *, epochs: Epochs) -> None:
        super().__init__(application, number)
        self._epochs = epochs

    def live(self, life: str) -> None:
        """See `Actor`."""
        with self.clients.admin(bootstrap_servers=BOOTSTRAP, client_id=life, request_timeout_ms=2000) as admin:
            while not self.is_stopping:
                self._epochs.look(admin)
                self.pause(2.0)


class StreamsApplication(Workload):
    """Three or four workers and one who looks on; nothing where the power takes epochs that were told."""

    SHARE = 0.15
    SETTINGS: ClassVar[dict[str, Any]] = {
        "group.streams.min.session.timeout.ms": 4000,
        "group.streams.session.timeout.ms": 4000,
        "group.streams.min.heartbeat.interval.ms": 500,
        "group.streams.heartbeat.interval.ms": 500,
        "group.streams.min.assignment.interval.ms": 0,
        "group.streams.num.standby.replicas": 1,
    }

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        reign = of_coordinator(parts, GROUP)
        self._hands = Hands(self.world, reign)
        self._epochs = Epochs(self.world, reign)

    def topics(self) -> list[NewTopic]:
        """See `Workload`."""
        return [NewTopic(INPUT, PARTITIONS, self.parts.replicas)]

    def cast(self) -> None:
        """See `Workload`."""
        if self.parts.ledger.loses_unflushed:
            return
        configs = {
            "streams.initial.rebalance.delay.ms": str(self.random.choice((0, 0, 1000))),
            "streams.assignment.interval.ms": str(self.random.choice((0, 0, 500))),
        }
        with self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            admin.incremental_alter_configs({ConfigResource.group(GROUP): configs})
        for number in range(self.random.randint(3, 4)):
            self.parts.add(Worker, f"streams{number}", hands=self._hands, epochs=self._epochs)
        self.parts.add(Onlooker, "streams-onlooker", epochs=self._epochs)

    def check(self) -> None:
        """See `Workload`: two new members come to have everything, and the topics are as the topology wants them."""
        if self.parts.ledger.loses_unflushed:
            return
        members = [
            StreamsMember(self.world, self.parts.network, self._hands, self.random, name)
            for name in ("streams-one", "streams-other")
        ]
        with self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            if self._settle(members, admin):
                self._check_topics(admin)
        for member in members:
            member.close()

    def _settle(self, members: list[StreamsMember], admin: AdminClient) -> bool:
        give_up_at = self.world.now + PATIENCE
        while True:
            for member in members:
                if not member.beat():
                    member.begin()
            found = self._epochs.look(admin)
            if found is not None and found.state is GroupState.STABLE and self._has_everything(members):
                return True
            if self.world.now > give_up_at:
                owned = {member.id: member.owned for member in members}
                self.world.violate(f"no progress: {GROUP} is {found}, and its members have {owned}")
                return False
            self.world.sleep(0.3)

    @staticmethod
    def _has_everything(members: list[StreamsMember]) -> bool:
        """Each task is worked on, and each with state has a copy in the other process."""
        one, other = (member.owned for member in members)
        return (
            one.active | other.active == ALL_TASKS
            and one.active & WITH_STATE == other.standby
            and other.active & WITH_STATE == one.standby
        )

    def _check_topics(self, admin: AdminClient) -> None:
        found = admin.describe_topics([REPARTITION, CHANGELOG], timeout=30.0)
        for name in (REPARTITION, CHANGELOG):
            partitions = len(found[name].partitions)
            if partitions != PARTITIONS:
                self.world.violate(f"{name} has {partitions} partitions, and its topology wants {PARTITIONS}")
