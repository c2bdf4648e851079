"""Makes images of the committed metadata log (MetadataLoader)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.metadata.metadata_records import decode_record
from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.raft.observed_log import CommittedBatch


class MetadataLoader:
    """Replays what is committed; `publish(image)` is called with what came of one answer, if that is anything new.

    Who reads the log anew publishes nothing before all of it is read: half of the cluster would look like a cluster
    that has lost the other half. Raises `ProtocolError` and `UnsupportedVersionError` for records that cannot be read,
    and `IllegalStateError` for those that contradict each other: the image stays as it was then.
    """

    def __init__(self, publish: Callable[[MetadataImage], None]) -> None:
        self._publish = publish
        self._transaction: MetadataDelta | None = None
        self._replayed = MetadataImage()
        self._is_anew = False
        #: What was published last.
        self.image = MetadataImage()

    def begin_anew(self) -> None:
        """Forget what was replayed: the log comes again, or its snapshot; `caught_up` tells when that is all."""
        self._transaction = None
        self._replayed, self._is_anew = MetadataImage(), True

    def caught_up(self) -> None:
        """Publish what was read anew."""
        if self._is_anew:
            self._is_anew = False
            self._show(self._replayed)

    def load_snapshot(self, end_offset: int, epoch: int, values: list[bytes]) -> None:
        """Begin anew with the records of a snapshot that ends before an offset."""
        self._transaction = None
        delta = MetadataDelta(MetadataImage())
        for value in values:
            delta.replay(decode_record(value))
        self._show(delta.apply(end_offset - 1, epoch))

    def load_batches(self, batches: Sequence[CommittedBatch]) -> None:
        """Go on with committed batches; the records of a transaction count when it ends."""
        delta = MetadataDelta(self._replayed)
        for batch in batches:
            for value in batch.values:
                delta = self._replay(delta, value, batch)
        self._show(delta.apply(batches[-1].last_offset, batches[-1].epoch))

    def _replay(self, delta: MetadataDelta, value: bytes, batch: CommittedBatch) -> MetadataDelta:
        record = decode_record(value)
        if isinstance(record, BeginTransactionRecord):
            self._transaction = MetadataDelta(delta.apply(batch.last_offset, batch.epoch))
        elif isinstance(record, EndTransactionRecord) and self._transaction is not None:
            delta, self._transaction = self._transaction, None
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.replay(record)
        else:
            delta.replay(record)
        return delta

    def _show(self, image: MetadataImage) -> None:
        self._replayed = image
        if not self._is_anew:
            self.image = image
            self._publish(image)
