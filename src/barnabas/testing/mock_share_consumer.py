"""`MockShareConsumer`: a share consumer without a broker, for the tests of programs that read queues."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NamedTuple, Self

from barnabas.client.arguments import as_partition
from barnabas.client.consumer.consumer_record import ConsumerRecord, K, V
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.share.acknowledgements import AcknowledgeType, as_acknowledge_type
from barnabas.clock import wall_clock_ms
from barnabas.errors import IllegalArgumentError, IllegalStateError, KafkaError, WakeupError
from barnabas.network.metric_group import Measured, MetricGroup
from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition
from barnabas.testing.mock_telemetry import MockTelemetry

if TYPE_CHECKING:
    from barnabas.client.consumer.share.share_polling import AcknowledgementCommitCallback

_Place = tuple[str, int, int]


class Acknowledged(NamedTuple):
    """What a program has said of a record, and sent."""

    topic: str
    partition: int
    offset: int
    type: AcknowledgeType
    delivery_count: int


class MockShareConsumer(MockTelemetry, Measured, Generic[K, V]):
    """Has the methods of `ShareConsumer`, and hands out the records that the test gave it, as a queue does.

    A record that is released comes again, with the next delivery count, until `delivery_count_limit`; one that is
    renewed comes again with the same one. `acknowledged` has what was sent, in order. `schedule_poll_task` has
    something happen inside a later `poll`, which never waits; setting `poll_exception` makes the next `poll` raise it,
    and `commit_error` every commit fail with it: the records are delivered again then. `end_locks` frees all records
    as their broker does in time. Only `wakeup` may be called from other threads.
    """

    def __init__(
        self,
        acknowledgement_mode: str = "implicit",
        *,
        max_poll_records: int = 500,
        delivery_count_limit: int = 5,
        acquisition_lock_timeout: float = 30.0,
    ) -> None:
        super().__init__()
        if acknowledgement_mode not in ("implicit", "explicit"):
            raise IllegalArgumentError(f"acknowledgement_mode is {acknowledgement_mode!r}, not implicit or explicit")
        self.poll_exception: Exception | None = None
        self.commit_error: KafkaError | None = None
        self.max_poll_records = max_poll_records
        self.closed = False
        self.last_poll_timeout: float | None = None
        #: What was sent, in order.
        self.acknowledged: list[Acknowledged] = []
        self._is_explicit = acknowledgement_mode == "explicit"
        self._limit = delivery_count_limit
        self._lock_timeout = acquisition_lock_timeout
        self._topics: set[str] = set()
        self._waiting: deque[ConsumerRecord[K, V]] = deque()
        self._held: dict[_Place, ConsumerRecord[K, V]] = {}
        self._said: dict[_Place, AcknowledgeType] = {}
        self._renewed: list[ConsumerRecord[K, V]] = []
        self._next_offsets: dict[TopicPartition, int] = {}
        self._callback: AcknowledgementCommitCallback | None = None
        self._tasks: deque[Callable[[], object]] = deque()
        self._is_woken = False

    # What to read

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """As `ShareConsumer.subscribe`."""
        self._check_open()
        self._topics = {topics} if isinstance(topics, str) else set(topics)

    def unsubscribe(self) -> None:
        """As `ShareConsumer.unsubscribe`: what was not acknowledged is another member's."""
        self._check_open()
        self._topics = set()
        self.end_locks()

    def subscription(self) -> set[str]:
        """As `ShareConsumer.subscription`."""
        return set(self._topics)

    # Reading

    def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Return the records that are free, of the topics subscribed to; runs one scheduled task first, never waits.

        Raises `poll_exception`, `WakeupError`, `IllegalStateError` where explicit acknowledgements are missing, and
        what the task raises.
        """
        self._check_open()
        self.last_poll_timeout = timeout
        if self._tasks:
            self._tasks.popleft()()
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("wakeup() was called")
        error, self.poll_exception = self.poll_exception, None
        if error is not None:
            raise error
        if self._is_explicit and len(self._said) < len(self._held):
            raise IllegalStateError(
                f"{len(self._held) - len(self._said)} records of the last poll() are not acknowledged; each has to be "
                "before the next poll()"
            )
        self._send()
        found, self._renewed = self._renewed, []
        if not found:
            free = [one for one in self._waiting if one.topic in self._topics][: self.max_poll_records]
            taken = {_place(one) for one in free}
            self._waiting = deque(one for one in self._waiting if _place(one) not in taken)
            found = free
        self._held = {_place(one): one for one in found}
        by_partition: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        for one in found:
            by_partition.setdefault(TopicPartition(one.topic, one.partition), []).append(one)
        return ConsumerRecords(by_partition, {})

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """As `ShareConsumer.__iter__`, but ends when `poll` has nothing and no task is left."""
        while True:
            records = self.poll()
            yield from records
            if not records and not self._tasks:
                return

    def wakeup(self) -> None:
        """As `ShareConsumer.wakeup`; from any thread."""
        self._is_woken = True

    # Acknowledgements

    def acknowledge(self, record: ConsumerRecord[K, V], type: AcknowledgeType | str = AcknowledgeType.ACCEPT) -> None:
        """As `ShareConsumer.acknowledge`."""
        self.acknowledge_offset((record.topic, record.partition), record.offset, type)

    def acknowledge_offset(
        self,
        partition: TopicPartition | tuple[str, int],
        offset: int,
        type: AcknowledgeType | str = AcknowledgeType.ACCEPT,
    ) -> None:
        """As `ShareConsumer.acknowledge_offset`."""
        self._check_open()
        name = as_partition(partition)
        if not self._is_explicit:
            raise IllegalStateError("Records are acknowledged implicitly: make the mock with 'explicit'")
        if (name.topic, name.partition, offset) not in self._held:
            raise IllegalStateError(f"The record at offset {offset} of {name} is not among those of the last poll()")
        self._said[name.topic, name.partition, offset] = as_acknowledge_type(type)

    def commit_sync(self, timeout: float | None = None) -> dict[TopicIdPartition, KafkaError | None]:
        """As `ShareConsumer.commit_sync`; answered at once, with `commit_error` where that is set."""
        self._check_open()
        return {_with_id(partition): self.commit_error for partition in self._send()}

    def commit_async(self) -> None:
        """As `ShareConsumer.commit_async`; the callback is called before it returns."""
        self._check_open()
        self._send()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """As `ShareConsumer.set_acknowledgement_commit_callback`."""
        self._check_open()
        self._callback = callback

    def acquisition_lock_timeout(self) -> float | None:
        """Return what the mock was made with."""
        return self._lock_timeout

    def _send(self) -> list[TopicPartition]:
        """Send what is to be said; returns the partitions."""
        said = self._said if self._is_explicit else dict.fromkeys(self._held, AcknowledgeType.ACCEPT)
        self._said = {}
        offsets: dict[TopicPartition, set[int]] = {}
        for place, kind in said.items():
            record = self._held.pop(place)
            offsets.setdefault(TopicPartition(*place[:2]), set()).add(place[2])
            if self.commit_error is not None:
                self._free(record)
                continue
            self.acknowledged.append(Acknowledged(*place, kind, record.delivery_count or 1))
            if kind is AcknowledgeType.RENEW:
                self._renewed.append(record)
            elif kind is AcknowledgeType.RELEASE:
                self._free(record)
        for partition, of_partition in offsets.items() if self._callback is not None else ():
            assert self._callback is not None, "it was asked"
            self._callback({_with_id(partition): of_partition}, self.commit_error)
        return list(offsets)

    def _free(self, record: ConsumerRecord[K, V]) -> None:
        count = record.delivery_count or 1
        if count < self._limit:
            self._waiting.appendleft(_delivered(record, count + 1))

    # The rest

    @property
    def client_id(self) -> str:
        """A name."""
        return "mock-share-consumer"

    def metric_groups(self) -> list[MetricGroup]:
        """No metrics."""
        return []

    def close(self, timeout: float = 30.0) -> None:
        """Send what explicit acknowledgements there are, free all other records; a second call does nothing."""
        if self.closed:
            return
        if self._is_explicit:
            self._send()
        self.end_locks()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("This MockShareConsumer is closed")

    # What tests call

    def add_record(self, record: ConsumerRecord[K, V]) -> None:
        """Have a record delivered, for the first time where it has no delivery count."""
        name = TopicPartition(record.topic, record.partition)
        self._waiting.append(record if record.delivery_count else _delivered(record, 1))
        self._next_offsets[name] = max(self._next_offsets.get(name, 0), record.offset + 1)

    def add(self, topic: str, partition: int, *values: V, key: K | None = None) -> None:
        """`add_record` for values, with the offsets that follow and the present time."""
        first = self._next_offsets.get(TopicPartition(topic, partition), 0)
        for offset, value in enumerate(values, first):
            self.add_record(ConsumerRecord(topic, partition, offset, wall_clock_ms(), 0, key, value))

    def schedule_poll_task(self, task: Callable[[], object]) -> None:
        """Run this inside the next `poll` that has no earlier task to run."""
        self._tasks.append(task)

    def end_locks(self) -> None:
        """Free all records that are not acknowledged, as when their locks have ended: they come again."""
        held, self._held, self._said = list(self._held.values()) + self._renewed, {}, {}
        self._renewed = []
        for record in reversed(held):
            self._free(record)


def _place(record: ConsumerRecord[K, V]) -> _Place:
    return record.topic, record.partition, record.offset


def _with_id(partition: TopicPartition) -> TopicIdPartition:
    """Return the partition with an id that is always the same for a topic's name."""
    return TopicIdPartition(hashlib.md5(partition.topic.encode(), usedforsecurity=False).digest(), *partition)


def _delivered(record: ConsumerRecord[K, V], count: int) -> ConsumerRecord[K, V]:
    """Return the same record as delivered so often."""
    return ConsumerRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        record.headers,
        record.leader_epoch,
        record.serialized_key_size,
        record.serialized_value_size,
        count,
    )
