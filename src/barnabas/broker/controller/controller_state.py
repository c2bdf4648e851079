"""What the controller goes by: the image that its records make, committed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.partition_indexes import PartitionIndexes
from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.metadata.metadata_version import METADATA_VERSION, MetadataVersion
from barnabas.errors import IllegalStateError, StaleBrokerEpochError
from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.clear_elr_record import ClearElrRecord
from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord
from barnabas.protocol.messages.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.broker.metadata.metadata_image import BrokerRegistration
    from barnabas.protocol.message import Message


class Replayed(NamedTuple):
    """What all records up to some offset make; immutable, so that going back to it costs nothing.

    `registration_offsets` says where the newest registration of each broker stands in the log. `before_transaction` is
    what held before a transaction (KIP-868) that has not ended yet.
    """

    image: MetadataImage = MetadataImage()
    registration_offsets: Mapping[int, int] = {}
    before_transaction: Replayed | None = None

    @property
    def stable(self) -> Replayed:
        """What readers may be told: without a transaction that has not ended."""
        return self.before_transaction or self


def replayed(old: Replayed, records: Sequence[Message], base_offset: int, epoch: int) -> Replayed:
    """Return what the records of one batch make.

    Raises `IllegalStateError` for records that do not fit to what there is.
    """
    state, delta = old, MetadataDelta(old.image)
    offsets: dict[int, int] = dict(old.registration_offsets)
    for offset, record in enumerate(records, base_offset):
        if isinstance(record, BeginTransactionRecord):
            if state.before_transaction is not None:
                raise IllegalStateError(f"a transaction begins at offset {offset} of the metadata log, within another")
            before = Replayed(delta.apply(offset - 1, epoch), dict(offsets))
            state = before._replace(before_transaction=before)
            delta = MetadataDelta(before.image)
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            before_it = state.before_transaction
            if before_it is None:
                raise IllegalStateError(f"a transaction ends at offset {offset} of the metadata log, and none began")
            if isinstance(record, AbortTransactionRecord):
                delta, offsets = MetadataDelta(before_it.image), dict(before_it.registration_offsets)
            state = state._replace(before_transaction=None)
        else:
            delta.replay(record)
            if isinstance(record, RegisterBrokerRecord):
                offsets[record.broker_id] = offset
            elif isinstance(record, UnregisterBrokerRecord):
                offsets.pop(record.broker_id, None)
    image = delta.apply(base_offset + len(records) - 1, epoch)
    return Replayed(image, offsets, state.before_transaction)


class ControllerState:
    """The newest state, which may not be committed; managers read it, and only the QuorumController changes it."""

    def __init__(self) -> None:
        self.replayed = Replayed()
        self.indexes = PartitionIndexes()

    @property
    def image(self) -> MetadataImage:
        """The newest image."""
        return self.replayed.image

    @property
    def metadata_version(self) -> MetadataVersion:
        """The finalized metadata.version. Raises `IllegalStateError` before there is one."""
        level = self.image.features.get(METADATA_VERSION)
        if level is None:
            raise IllegalStateError("the metadata log has no metadata.version yet")
        return MetadataVersion(level)

    @property
    def is_elr_enabled(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.image.features.get("eligible.leader.replicas.version", 0) > 0

    def registration(self, broker_id: int) -> BrokerRegistration | None:
        """Return a broker that is registered."""
        return self.image.brokers.get(broker_id)

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a broker that is registered."""
        found = self.image.brokers.get(broker_id)
        return None if found is None else found.epoch

    def is_active(self, broker_id: int) -> bool:
        """Whether partitions may be led by a broker."""
        found = self.image.brokers.get(broker_id)
        return found is not None and found.is_active

    def check_broker_epoch(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """Return the broker of that epoch. Raises `StaleBrokerEpochError` for any other."""
        found = self.image.brokers.get(broker_id)
        if found is None:
            raise StaleBrokerEpochError(f"No broker registration found for broker id {broker_id}")
        if found.epoch != epoch:
            raise StaleBrokerEpochError(f"Expected broker epoch {found.epoch}, but got broker epoch {epoch}")
        return found

    def go_to(self, new: Replayed, records: Sequence[Message]) -> None:
        """Take over what came of the records of one batch."""
        old, self.replayed = self.replayed, new
        if any(isinstance(record, AbortTransactionRecord) for record in records):
            self.indexes = PartitionIndexes.of(new.image)
            return
        for topic_id in _topics_of(records, new.image):
            before, after = old.image.topics.get(topic_id), new.image.topics.get(topic_id)
            if before is not after:
                self.indexes.change(before, after)

    def restart(self, new: Replayed, *, is_active: bool) -> None:
        """Go by another state from now on; only an active controller needs the indexes."""
        self.replayed = new
        self.indexes = PartitionIndexes.of(new.image) if is_active else PartitionIndexes()


def _topics_of(records: Sequence[Message], image: MetadataImage) -> dict[bytes, None]:
    found: dict[bytes, None] = {}
    for record in records:
        if isinstance(record, ClearElrRecord):
            if not record.topic_name:
                found.update(dict.fromkeys(image.topics))
            elif record.topic_name in image.topic_ids:
                found[image.topic_ids[record.topic_name]] = None
        else:
            topic_id = getattr(record, "topic_id", None)
            if topic_id is not None:
                found[topic_id] = None
    return found
