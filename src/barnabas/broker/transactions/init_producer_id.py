"""What InitProducerId makes of a transactional id on which nothing is open (TransactionCoordinator)."""

from __future__ import annotations

from collections.abc import Callable

from barnabas import errors
from barnabas.broker.transactions.transaction_metadata import (
    TransactionMetadata,
    is_epoch_exhausted,
)
from barnabas.protocol.producer_identity import NO_PRODUCER_EPOCH

#: The producer id and epoch that a client says it has (KIP-360).
Identity = tuple[int, int]


def check_identity(metadata: TransactionMetadata, expected: Identity | None) -> None:
    """Raise ProducerFencedError if the client's identity is none that this id had last."""
    if expected is None or metadata.client_producer_epoch == NO_PRODUCER_EPOCH:
        return
    producer_id, epoch = expected
    if producer_id == metadata.client_producer_id:
        return
    # It may repeat the request that gave it a new id after its last epoch, whose answer it never saw.
    if producer_id == metadata.previous_producer_id and is_epoch_exhausted(epoch):
        return
    raise errors.ProducerFencedError(
        f"{metadata.transactional_id!r} belongs to producer id {metadata.client_producer_id}, not {producer_id}"
    )


def next_identity(
    metadata: TransactionMetadata,
    expected: Identity | None,
    timeout_ms: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TransactionMetadata:
    """Return the metadata with the epoch, or the id, that the client is to get.

    Raises ProducerFencedError for a client that another one has followed.
    """
    epoch, last_epoch = metadata.producer_epoch, metadata.last_producer_epoch
    if is_epoch_exhausted(epoch) and (expected is None or expected[1] == epoch):
        last = NO_PRODUCER_EPOCH if expected is None else epoch
        return metadata.initialized(new_producer_id(), 0, last, timeout_ms, now_ms)
    if expected is None:
        return metadata.initialized(metadata.producer_id, epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if expected[1] == epoch or epoch == NO_PRODUCER_EPOCH:
        return metadata.initialized(metadata.producer_id, epoch + 1, epoch, timeout_ms, now_ms)
    if expected[1] == last_epoch:
        # Repeated: a new producer in between would have cleared the last epoch.
        return metadata.initialized(metadata.producer_id, epoch, last_epoch, timeout_ms, now_ms)
    raise errors.ProducerFencedError(f"epoch {expected[1]} of {metadata.transactional_id!r} is over: it is at {epoch}")
