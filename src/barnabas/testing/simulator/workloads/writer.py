"""A topic of one partition and the application that writes to it: what workloads have that look at one topic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from barnabas.client.admin.new_topic import NewTopic
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.workloads.workload import Workload

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.client.producer.append import RecordMetadata
    from barnabas.client.producer.producer import Producer
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.clients import Clients
    from barnabas.testing.simulator.parts import ServedParts
    from barnabas.testing.simulator.world import World

_NUMBER = "number"
#: Records until the oldest key is written for the last time: its last word may lie where compaction comes.
_RECORDS_TO_A_KEY = 15
_PATIENCE = 120.0
#: No batch expires: what a producer gives up may be stored later, and then a second time (KIP-360).
_FOR_EVER_MS = 3_600_000


class Written:
    """A record that was given to a producer, and the offset and time of its acknowledgement, if there was one."""

    __slots__ = ("acknowledged_at", "key", "number", "offset", "sent_at", "value")

    def __init__(self, number: int, key: bytes | None, value: bytes | None, sent_at: float) -> None:
        self.number = number
        self.key = key
        self.value = value
        self.sent_at = sent_at
        self.offset = -1
        self.acknowledged_at = inf

    @property
    def is_acknowledged(self) -> bool:
        """Whether the producer was told that it is stored."""
        return self.offset >= 0


class Writings:
    """All that was written to one partition, by number."""

    def __init__(self, world: World, clients: Clients, topic: str) -> None:
        self.world = world
        self._clients = clients
        self.partition = TopicPartition(topic, 0)
        self.by_number: dict[int, Written] = {}
        self._numbers = count(1)

    def add(self, key: bytes | None, value: bytes | None) -> Written:
        """Note that a record is about to be sent."""
        written = Written(next(self._numbers), key, value, self.world.now)
        self.by_number[written.number] = written
        return written

    @property
    def acknowledged(self) -> Iterator[Written]:
        """The records that are stored, as the producers were told."""
        return (written for written in self.by_number.values() if written.is_acknowledged)

    def end(self) -> int:
        """Return the offset after the last acknowledged record."""
        return max((written.offset for written in self.acknowledged), default=-1) + 1

    def read(self) -> dict[int, Written]:
        """Return what the partition holds, by offset; each is a record that was sent, once, and where it was told."""
        found: dict[int, Written] = {}
        seen: dict[int, int] = {}
        for record in read_partition(self.world, self._clients, self.partition):
            number = int(dict(record.headers).get(_NUMBER, b"0"))
            written = self.by_number.get(number)
            if written is None or (written.key, written.value) != (record.key, record.value):
                self.world.violate(f"{self.partition} holds a record at {record.offset} that was never sent there")
                continue
            if number in seen:
                self.world.violate(
                    f"{self.partition} holds record {number} twice, at {seen[number]} and {record.offset}"
                )
            seen[number] = record.offset
            found[record.offset] = written
        return found

    def check_there(self, stored: dict[int, Written], wanted: Iterator[Written], why: str) -> None:
        """Demand acknowledged records at the offsets that were told."""
        for written in wanted:
            if stored.get(written.offset) is not written:
                self.world.violate(
                    f"record {written.number} was acknowledged at {written.offset} of {self.partition}, {why}; "
                    "it is not there"
                )


def read_partition(world: World, clients: Clients, partition: TopicPartition) -> list[Any]:
    """Return every record that a new consumer can read."""
    found: list[Any] = []
    with clients.consumer(
        bootstrap_servers=BOOTSTRAP, client_id="auditor", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        end = consumer.end_offsets([partition], timeout=_PATIENCE)[partition]
        consumer.assign([partition])
        consumer.seek_to_beginning()
        give_up_at = world.now + _PATIENCE
        while consumer.position(partition) < end:
            found += consumer.poll(0.2)
            if world.now > give_up_at:
                world.violate(f"no progress: {partition} cannot be read to its end, {end}")
                break
    return found


class Load(NamedTuple):
    """What a writer writes: seconds between its turns at most, bytes of a value or 0 for some, and how many keys."""

    pace: float
    size: int
    keys: int


class Writer(Actor):
    """Writes numbered records, with keys and tombstones if there are `keys`."""

    IN_LOOP = 0.3

    def __init__(
        self,
        application: Application,
        number: int,
        *,
        writings: Writings,
        load: Load,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(application, number)
        self._writings = writings
        self._load = load
        self._settings = settings

    def live(self, life: str) -> None:
        """See `Actor`."""
        while not self.is_stopping:
            producer = self.clients.producer(
                bootstrap_servers=BOOTSTRAP,
                delivery_timeout_ms=_FOR_EVER_MS,
                max_block_ms=20_000,
                metadata_max_age_ms=3000,
                retry_backoff_ms=50,
                linger_ms=self.random.choice((0, 20)),
                **self._settings,
            )
            try:
                self._write(producer)
            except KafkaError as problem:
                self.failed("write", problem)
                producer.close(1.0)
                self.pause(0.5)
            else:
                producer.close(60.0)

    def _write(self, producer: Producer[Any, Any]) -> None:
        while not self.is_stopping:
            for _ in range(self.random.randint(1, 4)):
                self._send(producer)
            self.pause(self._load.pace)

    def _send(self, producer: Producer[Any, Any]) -> None:
        random, world = self.random, self.world
        retired = len(self._writings.by_number) // _RECORDS_TO_A_KEY
        key = b"k%d" % (retired + random.randrange(self._load.keys)) if self._load.keys else None
        value = (
            None
            if self._load.keys and random.random() < 0.15
            else b"." * (self._load.size or random.choice((1, 50, 900)))
        )
        written = self._writings.add(key, value)

        def delivered(metadata: RecordMetadata, error: BaseException | None) -> None:
            if error is None:
                written.offset, written.acknowledged_at = metadata.offset, world.now
                world.counts[f"written to {self._writings.partition.topic}"] += 1

        topic, headers = self._writings.partition.topic, [(_NUMBER, b"%d" % written.number)]
        producer.send(topic, value, key=key, partition=0, headers=headers, on_delivery=delivered)


class OneTopic(Workload):
    """A topic of one partition with a writer; nothing of it where the power takes what was acknowledged."""

    SHARE = 0.12
    TOPIC = ""
    parts: ServedParts
    PACE = 0.5
    SIZE = 0
    KEYS = 0
    REQUEST_TIMEOUT_MS = 4000
    #: Other settings of the writer's producers.
    OF_WRITER: ClassVar[dict[str, Any]] = {}

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        self.writings = Writings(self.world, self.parts.clients, self.TOPIC)

    def configs(self) -> dict[str, str]:
        """Return the topic's settings."""
        return {}

    def topics(self) -> list[NewTopic]:
        """See `Workload`."""
        return [NewTopic(self.TOPIC, 1, self.parts.replicas, configs=self.configs())]

    def cast(self) -> None:
        """See `Workload`."""
        self.parts.add(
            Writer,
            f"writer-{self.TOPIC}",
            writings=self.writings,
            load=Load(self.PACE, self.SIZE, self.KEYS),
            settings={"client_id": self.TOPIC, "request_timeout_ms": self.REQUEST_TIMEOUT_MS, **self.OF_WRITER},
        )

    def check(self) -> None:
        """See `Workload`."""
        if not self.parts.ledger.loses_unflushed:
            self.check_strictly()

    def check_strictly(self) -> None:
        """Hold the topic against what was written, as nothing that was acknowledged may be lost."""
        raise NotImplementedError

    @property
    def log(self) -> UnifiedLog:
        """The log of the partition, where it is led."""
        return self.parts.servers.log(self.writings.partition)
