"""Whether an EndTxn, or an abort by the coordinator itself, may decide a transaction (TransactionCoordinator)."""

from __future__ import annotations

from barnabas import errors
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NAMES,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
)
from barnabas.protocol.producer_identity import MAX_PRODUCER_EPOCH

#: Answers: decide the transaction now; or it was decided so before.
DECIDE, DONE = True, False

_ABORT, _COMMIT = False, True
#: (state, commit) → what a client of the first protocol is answered; all else is INVALID_TXN_STATE.
_FIRST_PROTOCOL = {
    (ONGOING, _COMMIT): DECIDE,
    (ONGOING, _ABORT): DECIDE,
    (COMPLETE_COMMIT, _COMMIT): DONE,
    (COMPLETE_ABORT, _ABORT): DONE,
}
#: (state, commit, is a repetition) → what a client of KIP-890 is answered; all else is INVALID_TXN_STATE. Such a client
#: may abort where nothing is open, for it may not know whether its first Produce has begun a transaction.
_SECOND_PROTOCOL = {
    (ONGOING, _COMMIT, False): DECIDE,
    (ONGOING, _ABORT, False): DECIDE,
    (EMPTY, _ABORT, False): DECIDE,
    (COMPLETE_COMMIT, _ABORT, False): DECIDE,
    (COMPLETE_ABORT, _ABORT, False): DECIDE,
    (COMPLETE_COMMIT, _COMMIT, True): DONE,
    (COMPLETE_ABORT, _ABORT, True): DONE,
}
_PREPARED_RESULT = {PREPARE_COMMIT: _COMMIT, PREPARE_ABORT: _ABORT}


def may_end(metadata: TransactionMetadata, producer_id: int, epoch: int, commit: bool) -> bool:
    """DECIDE or DONE, for a client of the first protocol.

    Raises InvalidPidMappingError, ProducerFencedError, ConcurrentTransactionsError or InvalidTxnStateError.
    """
    if metadata.client_producer_id != producer_id:
        raise _not_its_id(metadata, producer_id)
    if metadata.client_producer_epoch != epoch:
        raise _fenced(metadata, epoch)
    _check_prepared(metadata, commit)
    answer = _FIRST_PROTOCOL.get((metadata.state, commit))
    if answer is None:
        raise _invalid(metadata, commit)
    return answer


def may_end_and_bump(metadata: TransactionMetadata, producer_id: int, epoch: int, commit: bool) -> bool:
    """DECIDE or DONE, for a client whose epoch grows with every transaction (KIP-890).

    The same epoch means the transaction that is open, the epoch before means a repeated request. Raises as `may_end`.
    """
    current = metadata.client_producer_epoch
    is_new_id = metadata.previous_producer_id == producer_id and epoch == MAX_PRODUCER_EPOCH - 1 and current == 0
    if metadata.client_producer_id != producer_id and not is_new_id:
        raise _not_its_id(metadata, producer_id)
    is_repetition = is_new_id or (metadata.state in _MAY_REPEAT and current == epoch + 1)
    if metadata.state in PREPARED:
        # The epoch has grown with the decision: the one before is a repetition, the present one the next transaction,
        # whose producer was answered before all markers were written (KAFKA-18464).
        if current == epoch and metadata.client_producer_id == producer_id:
            raise errors.ConcurrentTransactionsError
        if not is_repetition:
            raise _fenced(metadata, epoch)
    elif current != epoch and not is_repetition:
        raise _fenced(metadata, epoch)
    _check_prepared(metadata, commit)
    answer = _SECOND_PROTOCOL.get((metadata.state, commit, is_repetition))
    if answer is None:
        raise _invalid(metadata, commit)
    return answer


_MAY_REPEAT = PREPARED | {COMPLETE_COMMIT, COMPLETE_ABORT}


def _check_prepared(metadata: TransactionMetadata, commit: bool) -> None:
    decided = _PREPARED_RESULT.get(metadata.state)
    if decided is not None:
        raise errors.ConcurrentTransactionsError if decided == commit else _invalid(metadata, commit)


def _not_its_id(metadata: TransactionMetadata, producer_id: int) -> errors.KafkaError:
    return errors.InvalidPidMappingError(
        f"{metadata.transactional_id!r} belongs to producer id {metadata.client_producer_id}, not {producer_id}"
    )


def _fenced(metadata: TransactionMetadata, epoch: int) -> errors.KafkaError:
    return errors.ProducerFencedError(
        f"epoch {epoch} of {metadata.transactional_id!r} is over: it is at {metadata.client_producer_epoch}"
    )


def _invalid(metadata: TransactionMetadata, commit: bool) -> errors.KafkaError:
    return errors.InvalidTxnStateError(
        f"{metadata.transactional_id!r} is in state {NAMES[metadata.state]} and cannot "
        + ("commit" if commit else "abort")
    )
