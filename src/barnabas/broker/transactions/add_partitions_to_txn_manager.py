"""Transactional records may only reach partitions of which the coordinator knows that they are written to (KIP-890).

What the coordinator does not know it would never end: the partition's last stable offset would stand still for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.transactions.transaction_metadata import TV_2

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.partition import Partition
    from barnabas.broker.transactions.verification import Verification
    from barnabas.config.config import Config

#: What a version of Produce or TxnOffsetCommit means for partitions that are not in the transaction yet: the client
#: expects an error that it has known from the beginning; it knows TRANSACTION_ABORTABLE; the broker adds the partition.
INVALID_STATE, ABORTABLE, ADD = range(3)

#: Errors that pass by themselves. Producers do not expect them from a partition; this one they retry, and look for no
#: other leader.
_PASSING = (
    errors.ConcurrentTransactionsError,
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
)
#: So many producers that were turned away are remembered.
_MAX_TURNED_AWAY = 10_000


class TransactionalBatch(NamedTuple):
    """What is to be written where."""

    partition: Partition
    producer_id: int
    epoch: int
    base_sequence: int


class AddPartitionsToTxnManager:
    """Asks the coordinator before the first records of a transaction reach a partition.

    `transaction.partition.verification.enable` is read each time: it may change while the broker runs.
    """

    __slots__ = ("_config", "_turned_away", "retries", "verification")

    def __init__(self, verification: Verification, config: Config):
        self.verification = verification
        self._config = config
        longest = min(
            config.get_int("add.partitions.to.txn.retry.backoff.max.ms"), config.get_int("request.timeout.ms")
        )
        #: Seconds between two questions about the same partitions, and how long they are asked.
        self.retries = (config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000, longest / 1000)
        #: (partition, producer id, epoch) → the lowest sequence number that was turned away. What follows it must not
        #: get in before it, although the log has no state of the producer yet.
        self._turned_away: dict[tuple[Partition, int, int], int] = {}

    def check(
        self, transactional_id: str, batches: Sequence[TransactionalBatch], mode: int, at: Instant
    ) -> dict[Partition, errors.KafkaError]:
        """Return what stands in the way of each batch; nothing for those that may be appended.

        `mode` is INVALID_STATE, ABORTABLE or ADD. Raises `VerificationNeededError` (`verified`).
        """
        if len({(batch.producer_id, batch.epoch) for batch in batches}) > 1:
            error = errors.InvalidPidMappingError("Transactional records contained more than one producer id.")
            return dict.fromkeys((batch.partition for batch in batches), error)
        new = [batch for batch in batches if not _is_open(batch)]
        refused = {batch.partition: out for batch in new if (out := self._out_of_order(batch, mode)) is not None}
        asked = [batch for batch in new if batch.partition not in refused]
        if asked and (mode == ADD or self._config["transaction.partition.verification.enable"]):
            problems = self._ask(transactional_id, asked, mode, at)
            self._remember(asked, problems)
            refused.update(problems)
        return refused

    def _out_of_order(self, batch: TransactionalBatch, mode: int) -> errors.KafkaError | None:
        if batch.base_sequence <= 0 or batch.producer_id in batch.partition.log.producer_state.producers:
            # The log knows the producer, and which sequence number comes next.
            return None
        key = (batch.partition, batch.producer_id, batch.epoch)
        # With an epoch per transaction, a transaction's first number is 0.
        expected = 0 if mode == ADD else self._turned_away.get(key, batch.base_sequence)
        if batch.base_sequence <= expected:
            return None
        return errors.OutOfOrderSequenceError(
            f"producer {batch.producer_id} sent sequence number {batch.base_sequence} first; {expected} is to come"
        )

    def _ask(
        self, transactional_id: str, batches: list[TransactionalBatch], mode: int, at: Instant
    ) -> dict[Partition, errors.KafkaError]:
        names = frozenset((batch.partition.topic, batch.partition.index) for batch in batches)
        producer_id, epoch = batches[0].producer_id, batches[0].epoch
        verification = self.verification
        try:
            if mode == ADD:
                verification.add_partitions(transactional_id, producer_id, epoch, names, at, version=TV_2)
                return {}
            missing = verification.verify_partitions(transactional_id, producer_id, epoch, names)
        except errors.KafkaError as error:
            return dict.fromkeys((batch.partition for batch in batches), translated(error))
        refusal = errors.TransactionAbortableError if mode == ABORTABLE else errors.InvalidTxnStateError
        return {
            batch.partition: refusal("The partition was not added to the transaction.")
            for batch in batches
            if (batch.partition.topic, batch.partition.index) in missing
        }

    def _remember(self, batches: list[TransactionalBatch], problems: dict[Partition, errors.KafkaError]) -> None:
        for batch in batches:
            key = (batch.partition, batch.producer_id, batch.epoch)
            if batch.partition not in problems:
                self._turned_away.pop(key, None)
            elif batch.base_sequence >= 0:
                known = self._turned_away.setdefault(key, batch.base_sequence)
                self._turned_away[key] = min(known, batch.base_sequence)
        while len(self._turned_away) > _MAX_TURNED_AWAY:
            del self._turned_away[next(iter(self._turned_away))]


def _is_open(batch: TransactionalBatch) -> bool:
    entry = batch.partition.log.producer_state.producers.get(batch.producer_id)
    return entry is not None and entry.current_txn_first_offset >= 0 and entry.producer_epoch == batch.epoch


def translated(error: errors.KafkaError) -> errors.KafkaError:
    """Return the coordinator's error in the terms of Produce."""
    if isinstance(error, errors.ProducerFencedError):
        return errors.InvalidProducerEpochError(str(error))
    if isinstance(error, _PASSING):
        return errors.NotEnoughReplicasError(
            f"The partition cannot be verified to be in the transaction yet: {errors.name_of(error.code)}"
        )
    return error
