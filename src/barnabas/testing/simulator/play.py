"""One run: applications and what happens to them, all drawn from the seed; its servers are a subclass's."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.client.admin.cluster import FeatureUpdate
from barnabas.client.admin.new_topic import NewTopic
from barnabas.client.consumer.consumer import Consumer
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.kinds import UpgradeType
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import CODECS
from barnabas.testing.simulator import patches
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor, Application
from barnabas.testing.simulator.administration import AdminActor
from barnabas.testing.simulator.audit import Audit, read_all
from barnabas.testing.simulator.clients import ThreadClients
from barnabas.testing.simulator.faults.client_faults import STAYS
from barnabas.testing.simulator.ledger import Ledger
from barnabas.testing.simulator.membership import GroupMember
from barnabas.testing.simulator.network import Network
from barnabas.testing.simulator.patience import PATIENCE, Patience
from barnabas.testing.simulator.producing import ProducerActor, TransactionActor
from barnabas.testing.simulator.transforming import TransformActor
from barnabas.testing.simulator.world import Process, World

if TYPE_CHECKING:
    from barnabas.testing.simulator.faults.plan import Plan
    from barnabas.testing.simulator.workloads.workload import Workload

#: The kinds of applications that have a transactional id.
SHARING_AN_ID = (TransactionActor, TransformActor)


class Play:
    """The actors of one run, its faults, and the way from the first record to the verdict.

    A subclass brings the servers and the plan of faults. One of one's own brings actors (`cast`, with `add`); `groups`
    names the groups that have to read everything.
    """

    faults: Plan[Any]
    workloads: Sequence[Workload] = ()
    #: The names of the workloads that every run is to have, and no others; those that the seed draws where it is empty.
    only_workloads: ClassVar[Collection[str]] = ()
    #: The replication factor of the topics.
    replicas = 1
    administrator: type[AdminActor] = AdminActor

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.stream("scenario")
        self.network = Network(self.world)
        self.clients = ThreadClients(self.world, self.network)
        self.ledger = Ledger(self.world)
        #: Whether every record reaches the disk before it is acknowledged; then a loss of power loses nothing.
        self.flushes = self.random.random() < 0.6
        self.topics = {"a": self.random.randint(1, 3), "b": self.random.randint(1, 2)}
        self.output = {"out": self.random.randint(1, 2)}
        #: With 1 a producer keeps its epoch from one transaction to the next (KIP-890 raises it in 2).
        self.transaction_version = 2
        self.applications: list[Application] = []
        self.groups: dict[str, tuple[list[TopicPartition], bool]] = {}

    def asked_for(self, kinds: Sequence[type[Workload]], drawn: Sequence[type[Workload]]) -> Sequence[type[Workload]]:
        """Return the kinds of workloads that were asked for, those that the seed has drawn if none were."""
        known = {kind.__name__: kind for kind in kinds}
        if unknown := [name for name in self.only_workloads if name not in known]:
            raise ValueError(f"no such workloads here: {', '.join(unknown)}; there are: {', '.join(known)}")
        return [known[name] for name in self.only_workloads] or drawn

    @property
    def fault_kinds(self) -> Collection[str]:
        """Which kinds of faults the run has."""
        return self.faults.kinds

    def boot(self) -> None:
        """Start the servers."""
        raise NotImplementedError

    def await_servers(self) -> None:
        """Wait until clients can be sent to all servers."""

    def check_servers(self) -> None:
        """Hold the servers against what must be true of them when all is well again."""

    @property
    def losses(self) -> list[dict[TopicPartition, int]]:
        """What was on the disk when a power was lost that took what was not; see `Audit`."""
        return []

    def replicas_of(self, topic: str) -> int:
        """Return the replication factor of a topic."""
        return self.replicas

    # --- who there is

    def add(self, kind: type[Actor], name: str, **arguments: Any) -> None:
        """Let there be an application; it is started before the faults begin."""
        self.applications.append(Application(kind, name, self.world, self.network, self.ledger, arguments))

    def cast(self) -> None:
        """Add the actors; a scenario of one's own overrides this."""
        random = self.random
        for number in range(random.randint(1, 2)):
            settings = self._producer_settings()
            pace = random.choice((0.4, 0.8, 1.5))
            self.add(ProducerActor, f"producer{number}", topics=self.topics, settings=settings, pace=pace)
        if self.faults.loses_unflushed:
            # Of transactions nothing is left to be said when the power takes parts of them.
            groups = random.randint(1, 2)
        else:
            for number in range(random.randint(0, 2)):
                name = f"transactions{number}"
                settings = self._transactional_settings(name, random.choice((3000, 10_000)))
                self.add(TransactionActor, name, topics=self.topics, settings=settings, pace=1.0)
            groups = random.randint(0, 2)
            if random.random() < 0.5:
                self._cast_transformers()
        for number in range(groups):
            self._cast_group(f"group{number}")
        if random.random() < 0.5 or "bad metadata" in self.faults.kinds:
            self._cast_admin()

    def _cast_admin(self) -> None:
        self.add(
            self.administrator,
            "admin",
            groups={group: partitions for group, (partitions, _) in self.groups.items()},
            transactional_ids=[
                application.name for application in self.applications if application.kind in SHARING_AN_ID
            ],
            settings={"request_timeout_ms": self.random.choice((1500, 4000)), "metadata_max_age_ms": 10_000},
        )

    def _producer_settings(self) -> dict[str, Any]:
        random = self.random
        request_timeout = random.choice((1500, 4000))
        return {
            "linger_ms": random.choice((0, 5, 50)),
            "batch_size": random.choice((200, 16384)),
            "request_timeout_ms": request_timeout,
            "delivery_timeout_ms": request_timeout + random.choice((1000, 20_000, 120_000)),
            "max_block_ms": 20_000,
            "max_in_flight_requests_per_connection": random.choice((1, 2, 5)),
            "compression_type": random.choice(("none", *CODECS)),
            "retry_backoff_ms": random.choice((20, 100)),
            "metadata_max_age_ms": 10_000,
        }

    def _transactional_settings(self, name: str, timeout_ms: int) -> dict[str, Any]:
        return {**self._producer_settings(), "transactional_id": name, "transaction_timeout_ms": timeout_ms}

    def _consumer_settings(self, *, has_static_members: bool) -> dict[str, Any]:
        random = self.random
        # The time that members have to join again is the one between two polls. A static one that misses it stays.
        times = ((6000, 20_000, 20_000), (3000, 3000, 8000)) if has_static_members else ((6000,), (8000, 30_000))
        if random.random() < 0.4:
            protocol: dict[str, Any] = {
                "group_protocol": "consumer",
                "group_remote_assignor": random.choice(("uniform", "range")),
            }
        else:
            protocol = {
                "session_timeout_ms": random.choice(times[0]),
                "heartbeat_interval_ms": random.choice((500, 2000)),
                "partition_assignment_strategy": random.choice(("range", "cooperative-sticky", "roundrobin")),
            }
        return {
            **protocol,
            "max_poll_interval_ms": random.choice(times[1]),
            "request_timeout_ms": random.choice((2000, 5000)),
            "fetch_max_wait_ms": random.choice((200, 500)),
            "max_partition_fetch_bytes": random.choice((1000, 1 << 20)),
            "max_poll_records": random.choice((3, 500)),
            "metadata_max_age_ms": 10_000,
        }

    def _cast_group(self, group: str) -> None:
        random = self.random
        isolation = random.choice(("read_committed", "read_uncommitted"))
        static_share = random.choice((0.0, 0.5))
        consumer_settings = self._consumer_settings(has_static_members=static_share > 0)
        settings = {**consumer_settings, "isolation_level": isolation}
        auto_commits = random.random() < 0.3
        if auto_commits:
            settings["auto_commit_interval_ms"] = random.choice((300, 2000))
        partitions = [TopicPartition(name, index) for name, count in self.topics.items() for index in range(count)]
        self.groups[group] = partitions, isolation == "read_committed"
        loses_members = "lose client" in self.faults.kinds
        # Where members are lost, a group in which no member comes and goes by itself shows who takes over from them.
        stay = random.choice((10.0, STAYS, STAYS)) if loses_members else random.choice((10.0, 40.0))
        for number in range(random.randint(1 + loses_members, 3) + (static_share > 0)):
            self.add(
                GroupMember,
                f"{group}-member{number}",
                group=group,
                topics=self.topics,
                settings=settings,
                auto_commits=auto_commits,
                stay=stay,
                is_static=random.random() < static_share,
            )

    def _cast_transformers(self) -> None:
        static_share = self.random.choice((0.0, 0.0, 0.6))
        consumer_settings = self._consumer_settings(has_static_members=static_share > 0)
        settings = {**consumer_settings, "isolation_level": "read_committed"}
        topics = {"a": self.topics["a"]}
        self.groups["transform"] = [TopicPartition("a", index) for index in range(self.topics["a"])], True
        stay = self.random.choice((8.0, 40.0))
        for number in range(self.random.randint(2, 3)):
            name = f"transform{number}"
            self.add(
                TransformActor,
                name,
                group="transform",
                topics=topics,
                settings=settings,
                stay=stay,
                is_static=self.random.random() < static_share,
                output=self.output,
                producing=self._transactional_settings(name, 10_000),
                hurries_from=self.world.now + self.faults.duration,
            )

    # --- what happens

    def run(self) -> World:
        """Play it from beginning to end."""
        patches.install(self.world)
        logging.getLogger("barnabas").addHandler(_HistoryHandler(self.world))
        self.boot()
        self.world.spawn("controller", Process("controller"), self._control)
        self.world.run()
        return self.world

    def _control(self) -> None:
        world = self.world
        counts = {**self.topics, **self.output}
        topics = [NewTopic(name, count, self.replicas_of(name)) for name, count in counts.items()]
        self.await_servers()
        with self.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            admin.create_topics([*topics, *(topic for workload in self.workloads for topic in workload.topics())])
            if self.transaction_version == 1:
                admin.update_features({"transaction.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)})
        self.cast()
        for workload in self.workloads:
            workload.cast()
            world.counts[f"workload {type(workload).__name__}"] += 1
        for application in self.applications:
            application.start()
        self.faults.begin()
        if self.groups:
            world.spawn("observer", Process("observer"), self._observe)
        world.sleep(self.faults.duration)
        self.faults.heal()
        world.note("controller", "all faults are over")
        # What failed in a flush in progress is found out by the next step of the broker's maintenance.
        world.sleep(3.0)
        self.faults.repair()
        members = [application for application in self.applications if issubclass(application.kind, GroupMember)]
        if self._stop([application for application in self.applications if application not in members]):
            self._judge(members)
        world.is_over = True

    def _stop(self, applications: list[Application]) -> bool:
        for application in applications:
            application.is_stopping = True
        give_up_at = self.world.now + PATIENCE
        while not all(application.is_done for application in applications):
            if self.world.now > give_up_at:
                late = ", ".join(application.name for application in applications if not application.is_done)
                self.world.violate(f"no progress: {late} did not come to an end")
                return False
            self.world.sleep(0.5)
        return True

    def _judge(self, members: list[Application]) -> None:
        strict = not self.faults.loses_unflushed
        inputs = [TopicPartition(name, index) for name, count in self.topics.items() for index in range(count)]
        awaited = self._audit(inputs)
        for workload in self.workloads:
            workload.check()
        if self.world.is_over or not self._await_groups(awaited) or not self._await_owners(members):
            return
        if not self._stop(members):
            return
        outputs = [TopicPartition(name, index) for name, count in self.output.items() for index in range(count)]
        audit = self._audit(inputs + outputs)
        audit.check(strict=strict)
        audit.check_groups(self.groups, awaited, strict=strict)
        self.check_servers()

    def _audit(self, partitions: list[TopicPartition]) -> Audit:
        everything = read_all(self.world, self.clients, partitions, "read_uncommitted", PATIENCE)
        committed = read_all(self.world, self.clients, partitions, "read_committed", PATIENCE)
        return Audit(self.ledger, self.losses, everything, committed)

    def _await_groups(self, audit: Audit) -> bool:
        """Wait until every group has committed all that it can see."""
        world = self.world
        for group, (partitions, is_committed) in self.groups.items():
            wanted = audit.last_offsets(partitions, is_committed)
            patience = Patience(world)
            with self._observer(group) as consumer:
                while True:
                    found = self._committed(consumer, group, partitions)
                    behind = {str(tp): (found.get(tp), last) for tp, last in wanted.items() if found.get(tp, 0) <= last}
                    if not behind:
                        break
                    if patience.is_over(sum(found.values())):
                        world.violate(f"no progress: group {group} has not committed all (committed, last): {behind}")
                        return False
                    world.sleep(0.5)
        return True

    def _await_owners(self, members: list[Application]) -> bool:
        """Wait until each partition belongs to one member of each group, as the members see it."""
        give_up_at = self.world.now + PATIENCE
        while True:
            owners = {group: dict.fromkeys(partitions, 0) for group, (partitions, _) in self.groups.items()}
            for actor in (actor for member in members for actor in member.lives if not actor.is_over):
                assert isinstance(actor, GroupMember)
                for partition in actor.sessions:
                    owners[actor.group][partition] += 1
            wrong = {f"{group} {tp}": n for group, found in owners.items() for tp, n in found.items() if n != 1}
            if not wrong:
                return True
            if self.world.now > give_up_at:
                self.world.violate(f"no progress: these do not come to belong to one member: {wrong}")
                return False
            self.world.sleep(0.5)

    def _observer(self, group: str) -> Consumer:
        return self.clients.consumer(
            bootstrap_servers=BOOTSTRAP, client_id=f"observer-{group}", group_id=group, enable_auto_commit=False
        )

    def _committed(self, consumer: Consumer, group: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        at_least = self.ledger.committed_of(group, partitions)
        try:
            found = consumer.committed(partitions, timeout=5.0)
        except KafkaTimeoutError:
            return {}
        offsets = {tp: entry.offset for tp, entry in found.items() if entry is not None}
        for partition in partitions:
            self.ledger.commit_observed(group, partition, offsets.get(partition, 0), at_least[partition])
        return offsets

    def _observe(self) -> None:
        """Ask now and then what is committed: it never goes back."""
        consumers = {group: self._observer(group) for group in self.groups}
        random = self.world.stream("observer")
        while not self.faults.is_over:
            for group, consumer in consumers.items():
                self._committed(consumer, group, self.groups[group][0])
                self.world.sleep(random.random() * 2)
        for consumer in consumers.values():
            consumer.close()


class _HistoryHandler(logging.Handler):
    """Writes what the clients log into the history; an unexpected error is a violation."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world
        logging.getLogger("barnabas").setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        text = record.getMessage()
        self._world.note(record.name, text)
        if record.exc_info and record.levelno >= logging.ERROR:
            self._world.violate(f"{record.name}: {self.formatter_text(record)}")

    def formatter_text(self, record: logging.LogRecord) -> str:
        """Return the message with its traceback."""
        return logging.Formatter().format(record)
