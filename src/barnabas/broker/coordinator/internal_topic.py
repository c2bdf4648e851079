"""A topic that the broker itself writes to, as partitions of record batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.cold_range import cold_ranges
from barnabas.broker.log.unified_log import LOG_END
from barnabas.broker.partition import ACKS_ALL
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.topic_admin import TopicAdmin

#: So much is read at once.
_READ_BYTES = 1 << 20


class InternalTopic:
    """What the topics of both coordinators share; the topic is created when it is first needed."""

    __slots__ = ("_count", "_logs", "_replica_manager", "_topics", "name")

    def __init__(
        self, name: str, replica_manager: ReplicaManager, logs: Logs, topics: TopicAdmin, count: Callable[[], int]
    ):
        self.name = name
        self._replica_manager = replica_manager
        self._logs = logs
        self._topics = topics
        self._count = count

    @property
    def partition_count(self) -> int:
        """What the topic has, or would be created with."""
        return self._count()

    def after_commit(self, partition: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Call `tell` when all that a partition has now is committed, or with why that will not be."""
        self._replica_manager.after_commit(TopicPartition(self.name, partition), tell)

    def ensure(self, now_ms: int) -> None:
        """Create the topic if it does not exist. Raises KafkaError when that fails."""
        self._topics.ensure_internal(self.name, now_ms)

    def append_batch(self, partition: int, batch: bytes | bytearray, now_ms: int) -> int:
        """Append one record batch (offsets from 0, as built); gives its base offset. Raises KafkaError.

        A batch that is in the log, and whose flush cannot even begin, takes the log offline: the coordinator's memory
        lacks it, and nothing may follow it before the log was read again (`ReplicaManager.on_log_reopened`). Where
        `flush.messages` is set, the batch waits for its flush when this returns: answers that rest on it do, too
        (`ReplicaManager.when_committed`).
        """
        manager = self._replica_manager
        if manager.used_partition(self.name, partition) is None:
            # NotLeaderOrFollowerError follows while the files are made, upon which clients look for the coordinator.
            manager.prepare(((self.name, partition),), _ignore)
        found = manager.partition(self.name, partition)
        found.check_leader()
        found.check_enough_in_sync(ACKS_ALL)
        log = found.log
        end = log.log_end_offset
        try:
            return manager.append(found, batch, now_ms, COORDINATOR).first_offset
        except errors.KafkaStorageError as error:
            if log.log_end_offset > end:
                raise log.fail("confirming a coordinator's records", error) from error
            raise

    def delete_before(self, partition: int, offset: int) -> None:
        """Let a partition start at an offset: nothing before it is needed. Raises KafkaError."""
        found = self._replica_manager.partition(self.name, partition)
        found.check_leader()
        if found.log.increment_log_start_offset(offset, "its coordinator needs nothing before it"):
            self._logs.checkpoint_soon()

    def read_batches(self, partition: int, offset: int) -> bytes:
        """Whole batches from `offset` on (at least one); empty at the end or when there is no such partition."""
        log = self._logs.get_log(TopicPartition(self.name, partition))
        if log is None:
            return b""
        # A new leader keeps all that it has, so its coordinator reads on to the end.
        start = max(offset, log.log_start_offset)
        found = log.read(start, _READ_BYTES, min_one_message=True, isolation=LOG_END).records
        assert isinstance(found, bytes), "a region comes only to who wants to send it"
        return found

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        """Begin to read beside the loop what `read_batches` would wait for; False if it waits for nothing.

        Raises KafkaError.
        """
        name = TopicPartition(self.name, partition)
        if self._logs.notify_ready(name, done):
            return True
        if not self._logs.is_prepared(name):
            self._logs.prepare([(name, b"")], done)
            return True
        log = self._logs.get_log(name)
        if log is None or log.is_offline:
            return False
        try:
            found = cold_ranges(log, max(offset, log.log_start_offset), _READ_BYTES)
        except OSError:
            # The read meets it, too, and says what it was.
            return False
        if found:
            self._replica_manager.bring_in(found, done)
        return bool(found)

    def may_hold_records(self, partition: int) -> bool:
        """Whether the partition holds records, or is not open yet, so that only reading tells. Raises KafkaError."""
        name = TopicPartition(self.name, partition)
        if name in self._logs.unopened:
            return True
        log = self._logs.get_log(name)
        return log is not None and log.log_end_offset > 0


def _ignore() -> None:
    """Do nothing when something is done."""
