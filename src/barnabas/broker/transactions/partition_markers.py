"""Markers in the partitions of this broker, and what follows from one in `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import anatomy, errors
from barnabas.broker.instant import Instant
from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.broker.transactions.transaction_metadata import TopicIndex
from barnabas.protocol.kinds import ControlRecordType
from barnabas.protocol.producer_identity import MAX_PRODUCER_EPOCH
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker

if TYPE_CHECKING:
    from barnabas.broker.groups.group_coordinator import GroupCoordinator
    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.transactions.marker import Marker, MarkerAnswer


class PartitionMarkers:
    """MarkerWriter on the partitions that this broker leads; also what WriteTxnMarkers goes through."""

    __slots__ = ("_group_coordinator", "_replica_manager")

    def __init__(self, replica_manager: ReplicaManager, group_coordinator: Callable[[], GroupCoordinator]):
        self._replica_manager = replica_manager
        self._group_coordinator = group_coordinator

    def write(self, marker: Marker, at: Instant, answer: MarkerAnswer) -> None:
        """Write the marker; answers None when it is committed, or the error of `append`."""
        if self._replica_manager.is_open(*marker.partition):
            self._write(marker, at, answer)
        else:
            # After a start; what opening it asks of the disk is not for the loop to wait for.
            self._replica_manager.prepare([marker.partition], lambda: self._write(marker, at, answer))

    def _write(self, marker: Marker, at: Instant, answer: MarkerAnswer) -> None:
        name = TopicPartition(*marker.partition)
        try:
            log = self._replica_manager.partition(*name).log
            entry = log.producer_state.producers.get(marker.producer_id)
            # An administrator may have ended a hanging transaction there in the name of a later coordinator.
            if entry is not None and entry.coordinator_epoch > marker.coordinator_epoch:
                marker = marker._replace(coordinator_epoch=entry.coordinator_epoch)
            self.append(marker, at.now_ms)
        except errors.KafkaError as error:
            answer(error)
        else:
            # One that is lost with this leader has to be written by the next.
            self._replica_manager.after_commit(name, answer)

    def append(self, marker: Marker, now_ms: int) -> None:
        """Append the marker to its partition's log.

        Raises `UnknownTopicOrPartitionError`, `InvalidProducerEpochError`, `KafkaStorageError`,
        `TransactionCoordinatorFencedError` for a coordinator epoch older than one seen there, and
        `CoordinatorLoadInProgressError` as long as the offsets of the partition are being loaded.
        """
        topic, index = marker.partition
        if topic == GROUP_METADATA_TOPIC:
            self._group_coordinator().check_partition(index)
        control_record = build_end_txn_marker(
            EndTxnMarker(
                ControlRecordType.COMMIT if marker.commit else ControlRecordType.ABORT, marker.coordinator_epoch
            ),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
        )
        partition = self._replica_manager.partition(topic, index)
        partition.check_leader()
        entry = partition.log.producer_state.producers.get(marker.producer_id)
        began = -1 if entry is None else entry.current_txn_first_offset
        offset = self._replica_manager.append(partition, control_record, now_ms, COORDINATOR).first_offset
        if anatomy.active is not None:
            told = marker.producer_id, marker.producer_epoch, "commit" if marker.commit else "abort", offset, began
            anatomy.active.record(anatomy.events.MarkerWritten(topic, index, *told))
        if topic == GROUP_METADATA_TOPIC:
            self._group_coordinator().complete_transaction(index, marker.producer_id, marker.commit)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition that this broker has had a use for."""
        return self._replica_manager.used_partition(topic, index)

    def check_marker_epoch(self, partition: TopicIndex, producer_id: int, epoch: int) -> None:
        """Raise `InvalidProducerEpochError` unless the epoch ends a transaction of the second protocol.

        There a marker has a later epoch than the records (KIP-890); an equal one is the repetition of a marker, or the
        last epoch that there is.
        """
        entry = self._replica_manager.partition(*partition).log.producer_state.producers.get(producer_id)
        if entry is None or epoch > entry.producer_epoch:
            return
        is_open = entry.current_txn_first_offset >= 0 and epoch != MAX_PRODUCER_EPOCH
        if epoch < entry.producer_epoch or is_open:
            raise errors.InvalidProducerEpochError(
                f"epoch {epoch} of producer {producer_id} does not follow {entry.producer_epoch}, the one of its "
                f"records in {partition[0]}-{partition[1]}"
            )
