"""All transactional ids in memory, and the way a change of one gets into `__transaction_state`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from barnabas import anatomy, errors
from barnabas.broker.coordinator.coordinator_errors import translated
from barnabas.broker.coordinator.coordinator_log import CoordinatorLog
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.coordinator.partition_storage import StoredRecord
from barnabas.broker.instant import Instant
from barnabas.broker.transactions.transaction_log import decode_key, decode_value, encode_key, encode_value
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import NAMES, ONGOING

#: Any client can invent transactional ids, and each is kept for transactional.id.expiration.ms. So many take some
#: hundred megabytes.
MAX_IDS = 200_000


class TransactionStateManager:
    """Transactional id → its metadata. A change is in the log before it is made here."""

    __slots__ = ("_by_partition", "_log", "_reported_full", "_warn", "by_id", "ongoing")

    def __init__(self, log: CoordinatorLog, warn: Callable[[str], None]):
        self._log = log
        self._warn = warn
        self._reported_full = False
        self.by_id: dict[str, TransactionMetadata] = {}
        #: The ids with an open transaction.
        self.ongoing: dict[str, None] = {}
        #: Partition of `__transaction_state` → its ids.
        self._by_partition: dict[int, dict[str, None]] = {}

    # --- where ids are

    def partition_of(self, transactional_id: str) -> int:
        """Give the partition of `__transaction_state` that holds the id."""
        return self._log.partition_of(transactional_id)

    def ids_in(self, partition: int) -> list[str]:
        """Give the ids that this partition of `__transaction_state` holds."""
        return list(self._by_partition.get(partition, ()))

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__transaction_state` if it does not exist. Raises `KafkaError`."""
        self._log.ensure_topic(now_ms)

    def after_commit(self, transactional_id: str, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Call `tell` when all that was written of an id is committed, or with why that will not be."""
        self._log.storage.after_commit(self.partition_of(transactional_id), tell)

    def check_room(self) -> None:
        """Raise `PolicyViolationError` when there are `MAX_IDS` already."""
        if len(self.by_id) < MAX_IDS:
            self._reported_full = False
            return
        problem = (
            f"The broker keeps {len(self.by_id)} transactional ids and takes no new one until some expire "
            "(transactional.id.expiration.ms)"
        )
        if not self._reported_full:
            self._reported_full = True
            self._warn(problem)
        raise errors.PolicyViolationError(f"{problem}.")

    # --- changing

    def write(self, metadata: TransactionMetadata, at: Instant) -> None:
        """Put the metadata into the log, then into memory. Raises `KafkaError`; then nothing has changed."""
        draft = Draft()
        draft.put((encode_key(metadata.transactional_id), encode_value(metadata)), lambda _: self.put(metadata))
        self._commit(metadata.transactional_id, draft, at)

    def remove(self, transactional_ids: Sequence[str], at: Instant) -> None:
        """Write tombstones for ids of one partition, and forget them. Raises `KafkaError`; then nothing has changed."""
        draft = Draft((encode_key(transactional_id), None) for transactional_id in transactional_ids)
        for transactional_id in transactional_ids:
            draft.afterwards(partial(self._forget, transactional_id))
        self._commit(transactional_ids[0], draft, at)

    def _commit(self, transactional_id: str, draft: Draft, at: Instant) -> None:
        try:
            self._log.commit(transactional_id, draft, at)
        except errors.KafkaError as error:
            name = f"{self._log.storage.name}-{self.partition_of(transactional_id)}"
            answered = translated(error, f"{name} cannot be written")
            if answered is error:
                raise
            raise answered from error

    def put(self, metadata: TransactionMetadata) -> None:
        """Put metadata that the log has, or need not have, into memory."""
        transactional_id = metadata.transactional_id
        if transactional_id not in self.by_id:
            self._by_partition.setdefault(self.partition_of(transactional_id), {})[transactional_id] = None
        self.by_id[transactional_id] = metadata
        if anatomy.active is not None:
            self._tell_state(anatomy.active, metadata)
        if metadata.state == ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)

    def _tell_state(self, recorder: anatomy.Recorder, metadata: TransactionMetadata) -> None:
        whose = metadata.transactional_id, NAMES[metadata.state], metadata.producer_id, metadata.producer_epoch
        names = ",".join(f"{topic}-{index}" for topic, index in sorted(metadata.partitions))
        recorder.record(anatomy.events.TransactionState(*whose, len(metadata.partitions), names))

    def _forget(self, transactional_id: str) -> None:
        if self.by_id.pop(transactional_id, None) is not None:
            del self._by_partition[self.partition_of(transactional_id)][transactional_id]
            self.ongoing.pop(transactional_id, None)

    # --- the log, read back

    def replay(self, partition: int, record: StoredRecord) -> None:
        """Take over one record. Raises `KafkaError` for one that cannot be read; an unknown kind is ignored."""
        if record.ends_transaction is not None:
            return
        transactional_id = decode_key(record.key)
        if transactional_id is None:
            self._warn("A record of a kind that is not known in __transaction_state is ignored")
        elif record.value is None:
            self._forget(transactional_id)
        else:
            self.put(decode_value(transactional_id, record.value))

    def forget(self, partition: int) -> None:
        """Drop all ids of the partition."""
        for transactional_id in self.ids_in(partition):
            self._forget(transactional_id)
        self._by_partition.pop(partition, None)
