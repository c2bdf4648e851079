"""A topic that a share group takes from: each record is accepted once, or has another end that can be named.

Members accept, release, reject and renew, stall until their locks are over, come and go; the faults of the run cut them
off, freeze and kill them. How often a record was delivered tells one delivery from the next: no two members may see the
same one, and what is taken of a member must not be another's since.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from barnabas.admin import ConfigResource
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.patience import Patience
from barnabas.testing.simulator.workloads.reign import Reign
from barnabas.testing.simulator.workloads.writer import OneTopic

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.share.share_consumer import ShareConsumer
    from barnabas.protocol.topic_partition import TopicIdPartition
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts

TOPIC, GROUP = "queue", "takers"
#: Seconds of a lock, and how often a record is delivered at most.
LOCK, LIMIT = 3.0, 10
#: So many deliveries of a record may have been lost on their way to a member.
LOST = 4
ACCEPT, REJECT = "accept", "reject"
KINDS = (ACCEPT, ACCEPT, ACCEPT, ACCEPT, "release", REJECT, "renew")


class Delivery(NamedTuple):
    """What a member was handed: the record at `offset`, for the `times`-th time."""

    life: str
    offset: int
    times: int
    at: float
    #: Which process of a broker served the queue.
    era: object


class Said(NamedTuple):
    """What a member said of a record, and when it asked for that."""

    delivery: Delivery
    kind: str
    asked_at: float


class Deliveries:
    """All that members were handed of the queue, and what became of it."""

    def __init__(self, parts: ServedParts) -> None:
        self._world = parts.world
        self._reign = Reign(parts, TopicPartition(TOPIC, 0))
        self.by_offset: dict[int, list[Delivery]] = {}
        #: By offset what the broker has taken for good, and the last delivery of which it was asked to.
        self.taken: dict[int, Said] = {}
        self.asked: dict[int, Delivery] = {}

    @property
    def _is_settled(self) -> bool:
        """Whether no member can still have what it got of an earlier process of the broker, or of another one."""
        return self._reign.has_lasted(LOCK + 2.0)

    def handed_out(self, life: str, offset: int, count: int) -> Delivery:
        """Check a record that a member was handed; one that it renewed comes to it again as the same delivery."""
        delivery = Delivery(life, offset, count, self._world.now, self._reign.era)
        before = self.by_offset.setdefault(offset, [])
        self._world.counts["records that a queue delivered"] += 1
        if count > 1:
            self._world.counts["records that a queue delivered again"] += 1
        if not 1 <= count <= LIMIT:
            self._violate(f"{delivery} is more than the {LIMIT} deliveries that the group allows")
        if self._is_settled:
            twice = [one for one in before if one.times == count and one.life != life and one.era == delivery.era]
            if twice:
                self._violate(f"{delivery}, which is in two hands: {twice[0]}")
            taken = self.taken.get(offset)
            if taken is not None and taken.delivery.times < count:
                self._violate(f"{delivery}, which was taken for good before: {taken}")
        before.append(delivery)
        return delivery

    def asks(self, said: Said) -> None:
        """Note what a member is about to say."""
        if said.kind in (ACCEPT, REJECT):
            before = self.asked.get(said.delivery.offset, said.delivery)
            self.asked[said.delivery.offset] = max(before, said.delivery, key=lambda one: one.times)

    def was_taken(self, said: Said) -> None:
        """Check what the broker has taken: no one else had the record since.

        Of one that has come to its end already the broker takes everything, as Kafka's does, and nothing follows.
        """
        self._world.counts[f"records of a queue: {said.kind}"] += 1
        mine = said.delivery
        others = [one for one in self.by_offset[mine.offset] if one.times > mine.times and one.life != mine.life]
        since = [one for one in others if one.at < said.asked_at and one.times < LIMIT - LOST]
        ended = self.asked.get(mine.offset, mine).times > mine.times
        if since and not ended and self._is_settled:
            self._violate(f"{said} was taken, and another had it since: {since[0]}")
        if said.kind in (ACCEPT, REJECT):
            self.taken[mine.offset] = said

    def check_end(self, offset: int) -> None:
        """Demand that a record that is not delivered any more has an end that can be named."""
        seen = self.by_offset.get(offset)
        if not seen:
            self._violate(f"the record at {offset} was never handed out")
        elif offset not in self.asked and max(one.times for one in seen) < LIMIT - LOST:
            self._violate(f"the record at {offset} is gone: it was last seen by {seen[-1]}, and was not accepted")

    def _violate(self, what: str) -> None:
        self._world.violate(f"queue: {what}")


class Taker(Actor):
    """A member of the group, as often as it likes."""

    IN_LOOP = 0.3

    def __init__(
        self, application: Application, number: int, *, topic: str, deliveries: Deliveries, settings: dict[str, Any]
    ) -> None:
        super().__init__(application, number)
        self._topic = topic
        self._deliveries = deliveries
        self._settings = settings
        # By offset what was said and is not answered, the oldest first.
        self._said: dict[int, deque[Said]] = {}

    def live(self, life: str) -> None:
        """See `Actor`."""
        while not self.is_stopping:
            self._said.clear()
            consumer = self.clients.share_consumer(
                bootstrap_servers=BOOTSTRAP,
                group_id=GROUP,
                share_acknowledgement_mode="explicit",
                **self._settings,
            )
            consumer.subscribe([self._topic])
            consumer.set_acknowledgement_commit_callback(self._answered)
            try:
                self._take(consumer)
            except KafkaError as problem:
                self.failed("take", problem)
            try:
                consumer.close(5.0)
            except KafkaError as problem:
                self.failed("close the queue", problem)
            self.pause(1.0)

    def _take(self, consumer: ShareConsumer[Any, Any]) -> None:
        random, until = self.random, self.world.now + self.random.uniform(3, 20)
        hurries = random.random() < 0.5
        while not self.is_stopping and self.world.now < until:
            records = list(consumer.poll(0.5))
            handed_out = [
                (record, self._deliveries.handed_out(self.life, record.offset, record.delivery_count))
                for record in records
            ]
            if random.random() < 0.08:
                # It may be too late then.
                self.clients.pause(LOCK * random.uniform(0.3, 1.5))
            for record, delivery in handed_out:
                self._say(consumer, record, delivery)
            if random.random() < 0.2:
                consumer.commit_sync(4.0)
            elif random.random() < 0.3:
                consumer.commit_async()
            if not hurries:
                self.pause(0.4)

    def _say(self, consumer: ShareConsumer[Any, Any], record: ConsumerRecord[Any, Any], delivery: Delivery) -> None:
        kind = self.random.choice(KINDS)
        said = Said(delivery, kind, self.world.now)
        self._deliveries.asks(said)
        self._said.setdefault(record.offset, deque()).append(said)
        consumer.acknowledge(record, kind)

    def _answered(self, offsets: dict[TopicIdPartition, set[int]], error: KafkaError | None) -> None:
        for offset in sorted(one for numbers in offsets.values() for one in numbers):
            waiting = self._said.get(offset)
            # Offsets without records are answered for as well.
            said = waiting.popleft() if waiting else None
            if said is not None and error is None:
                self._deliveries.was_taken(said)
        if error is not None:
            self.world.counts[f"a queue does not take: {type(error).__name__}"] += 1


class SharedQueue(OneTopic):
    """A writer, and a share group of two or three."""

    TOPIC = TOPIC
    PACE = 0.3
    SHARE = 0.2
    SETTINGS: ClassVar[dict[str, Any]] = {
        "group.share.min.session.timeout.ms": 6000,
        "group.share.session.timeout.ms": 6000,
        "group.share.min.heartbeat.interval.ms": 500,
        "group.share.heartbeat.interval.ms": 500,
        "group.share.min.record.lock.duration.ms": 1000,
        "share.coordinator.state.topic.num.partitions": 2,
        "share.coordinator.state.topic.replication.factor": 3,
        "share.coordinator.state.topic.min.isr": 2,
        "share.coordinator.snapshot.update.records.per.snapshot": 20,
    }

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        self._deliveries = Deliveries(parts)

    def cast(self) -> None:
        """See `Workload`. Where the power takes states that were told, records come again."""
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(int(LOCK * 1000)),
            "share.delivery.count.limit": str(LIMIT),
        }
        with self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            admin.incremental_alter_configs({ConfigResource.group(GROUP): configs})
        super().cast()
        if self.parts.ledger.loses_unflushed:
            return
        for number in range(self.random.randint(2, 3)):
            settings = {
                "max_poll_records": self.random.choice((2, 5, 50)),
                "fetch_max_wait_ms": 200,
                "request_timeout_ms": self.random.choice((2000, 5000)),
                "default_api_timeout_ms": 5000,
                "max_poll_interval_ms": 8000,
                "metadata_max_age_ms": 10_000,
                "share_acquire_mode": self.random.choice(("batch_optimized", "batch_optimized", "record_limit")),
            }
            self.parts.add(Taker, f"taker{number}", topic=self.TOPIC, deliveries=self._deliveries, settings=settings)

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        stored = self.writings.read()
        self.writings.check_there(stored, self.writings.acknowledged, "and a queue keeps its topic")
        if self._take_the_rest():
            for offset in stored:
                self._deliveries.check_end(offset)

    def _take_the_rest(self) -> bool:
        """Accept what is left, until the group has nothing to deliver."""
        patience = Patience(self.world)
        partition = self.writings.partition
        taken = 0
        with (
            self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin,
            self.parts.clients.share_consumer(
                bootstrap_servers=BOOTSTRAP, group_id=GROUP, client_id="rest"
            ) as consumer,
        ):
            consumer.subscribe([self.TOPIC])
            while True:
                for record in consumer.poll(0.5):
                    said = Said(
                        self._deliveries.handed_out("rest", record.offset, record.delivery_count),
                        ACCEPT,
                        self.world.now,
                    )
                    self._deliveries.asks(said)
                    taken += 1
                found = admin.list_share_group_offsets({GROUP: None}, timeout=30.0)[GROUP].get(partition)
                if found is not None and found.lag == 0:
                    return True
                if patience.is_over(taken):
                    self.world.violate(f"no progress: the queue's group stands at {found} of {self.writings.end()}")
                    return False
