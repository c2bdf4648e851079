"""Markers in the partitions of this broker, and what follows from one in `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.broker.transactions.transaction_metadata import TopicIndex
from barnabas.protocol.kinds import ControlRecordType
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker

if TYPE_CHECKING:
    from barnabas.broker.groups.group_coordinator import GroupCoordinator
    from barnabas.broker.replica_manager import ReplicaManager

#: This broker leads every partition of `__transaction_state` and has never lost one: the epoch does not grow.
COORDINATOR_EPOCH = 0


class PartitionMarkers:
    """MarkerWriter on the broker's partitions; also what WriteTxnMarkers goes through."""

    __slots__ = ("_group_coordinator", "_replica_manager")

    def __init__(self, replica_manager: ReplicaManager, group_coordinator: Callable[[], GroupCoordinator]):
        self._replica_manager = replica_manager
        self._group_coordinator = group_coordinator

    def write(self, partition: TopicIndex, producer_id: int, epoch: int, commit: bool, now_ms: int) -> None:
        """Raises UnknownTopicOrPartitionError, InvalidProducerEpochError, KafkaStorageError.

        And CoordinatorLoadInProgressError as long as the offsets of the partition are being loaded.
        """
        log = self._replica_manager.partition(*partition).log
        entry = log.producer_state.producers.get(producer_id)
        # Somebody may have ended a hanging transaction there in the name of a later coordinator.
        coordinator_epoch = COORDINATOR_EPOCH if entry is None else max(COORDINATOR_EPOCH, entry.coordinator_epoch)
        self.write_as(coordinator_epoch, partition, producer_id, epoch, commit, now_ms)

    def write_as(
        self, coordinator_epoch: int, partition: TopicIndex, producer_id: int, epoch: int, commit: bool, now_ms: int
    ) -> None:
        """As `write`; raises TransactionCoordinatorFencedError for an epoch older than one seen there."""
        topic, index = partition
        if topic == GROUP_METADATA_TOPIC:
            self._group_coordinator().check_partition(index)
        marker = build_end_txn_marker(
            EndTxnMarker(ControlRecordType.COMMIT if commit else ControlRecordType.ABORT, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=now_ms,
        )
        self._replica_manager.append(self._replica_manager.partition(topic, index), marker, now_ms, COORDINATOR)
        if topic == GROUP_METADATA_TOPIC:
            self._group_coordinator().complete_transaction(index, producer_id, commit)

    def check_marker_epoch(self, partition: TopicIndex, producer_id: int, epoch: int) -> None:
        """Raises InvalidProducerEpochError unless the epoch ends a transaction of the second protocol.

        There a marker has a later epoch than the records (KIP-890); an equal one is the repetition of a marker.
        """
        entry = self._replica_manager.partition(*partition).log.producer_state.producers.get(producer_id)
        if entry is None or epoch > entry.producer_epoch:
            return
        if epoch < entry.producer_epoch or entry.current_txn_first_offset >= 0:
            raise errors.InvalidProducerEpochError(
                f"epoch {epoch} of producer {producer_id} does not follow {entry.producer_epoch}, the one of its "
                f"records in {partition[0]}-{partition[1]}"
            )
