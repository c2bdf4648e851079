"""The logs of followed partitions, as `ReplicaFetcher` uses them (what ReplicaFetcherThread overrides)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.follower_records import UnexpectedAppendOffsetError
from barnabas.broker.log.leader_epoch_file_cache import UNDEFINED_EPOCH, EpochEntry
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.partition import Partition
    from barnabas.errors import KafkaStorageError
    from barnabas.protocol.messages.fetch_response import PartitionData
    from barnabas.protocol.topic_partition import TopicPartition


class ReplicaLogs:
    """Implements `FollowerLogs` on the partitions of this broker."""

    __slots__ = ("_logs", "_partition")

    def __init__(self, logs: Logs, partition: Callable[[TopicPartition], Partition]) -> None:
        self._logs = logs
        self._partition = partition

    def log_start_offset(self, name: TopicPartition) -> int:
        """Where the log begins."""
        return self._partition(name).log.log_start_offset

    def log_end_offset(self, name: TopicPartition) -> int:
        """Where the log ends."""
        return self._partition(name).log.log_end_offset

    def high_watermark(self, name: TopicPartition) -> int:
        """Return what the follower knows to be committed."""
        return self._partition(name).log.high_watermark

    def latest_epoch(self, name: TopicPartition) -> int:
        """Return the epoch of the last record, -1 without one."""
        return self._partition(name).log.latest_epoch

    def end_offset_for_epoch(self, name: TopicPartition, epoch: int) -> EpochEntry:
        """Return the largest epoch not above the one given, and where it ends; -1 for both if unknown."""
        log = self._partition(name).log
        if epoch > log.latest_epoch != UNDEFINED_EPOCH:
            # What a leader says of an epoch that this log does not have: all of it is of earlier ones.
            return EpochEntry(log.latest_epoch, log.log_end_offset)
        return log.end_offset_for_epoch(epoch)

    def append(self, name: TopicPartition, data: PartitionData, leader_epoch: int, now_ms: int) -> None:
        """Append the records of a response, take over high watermark and log start. Raises `KafkaError`."""
        partition = self._partition(name)
        try:
            self._append(partition, data, leader_epoch, now_ms)
        except KafkaError:
            raise
        except Exception as problem:
            partition.log.doubt(problem)
            raise

    def _append(self, partition: Partition, data: PartitionData, leader_epoch: int, now_ms: int) -> None:
        log, name = partition.log, partition.log.topic_partition
        records = data.records or b""
        if len(records):
            before = log.log_end_offset
            try:
                log.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
            except UnexpectedAppendOffsetError as error:
                if log.log_start_offset != log.log_end_offset or error.last_offset < log.log_end_offset:
                    raise
                # The leader's log starts within a batch (DeleteRecords): an empty follower takes the batch whole.
                for problem in self._logs.truncate_now({name: error.first_offset}, now_ms, fully=True).values():
                    raise problem from None
                log.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
            if log.log_end_offset != before:
                partition.followed(len(records))
        partition.follow_high_watermark(data.high_watermark)
        if log.log_start_offset < data.log_start_offset <= log.high_watermark:
            log.increment_log_start_offset(data.log_start_offset, "the leader's starts there")
            # The leader will take it for deleted here, and a restarted broker knows the start from its checkpoint only.
            self._logs.checkpoint_soon()

    def flush(self, name: TopicPartition, now_ms: int, done: Callable[[], None]) -> bool:
        """Begin to flush the log if `flush.messages` asks for it; whether that is so. Raises `KafkaError`.

        `done` is called on the loop; where the flush has failed the log is offline then.
        """
        log = self._partition(name).log
        if not log.must_flush:
            return False
        end = log.log_end_offset
        sync = log.prepare_flush(end)

        def finish() -> None:
            log.end_flush(end, sync.error, now_ms)
            done()

        self._logs.storage.submit(sync.run, finish)
        return True

    def truncate_to(
        self,
        offsets: Mapping[TopicPartition, int],
        now_ms: int,
        done: Callable[[Mapping[TopicPartition, KafkaStorageError]], None],
        is_wanted: Callable[[TopicPartition], bool],
        *,
        fully: bool = False,
    ) -> None:
        """Cut logs, or begin them anew; `done` gets what has failed, on the loop, when the disk has it."""
        self._logs.truncate_to(offsets, now_ms, done, is_wanted, fully=fully)

    def truncate_now(
        self, offsets: Mapping[TopicPartition, int], now_ms: int
    ) -> Mapping[TopicPartition, KafkaStorageError]:
        """Cut logs and wait for the disk; gives what has failed."""
        return self._logs.truncate_now(offsets, now_ms)
