"""All transactional ids in memory; `write` is the only way to change one, and the log comes first.

At start the log is read back a piece at a time, while requests are already answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from barnabas import errors
from barnabas.broker.groups.partitioner import partition_for
from barnabas.broker.transactions.transaction_log import decode_key, decode_value, encode_key, encode_value
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import ONGOING
from barnabas.broker.transactions.transactions_topic import Record, TransactionStorage

#: What clients are told when an append failed: errors that they know how to handle from a coordinator.
_TRANSLATED: dict[type[errors.KafkaError], type[errors.KafkaError]] = {
    errors.UnknownTopicOrPartitionError: errors.CoordinatorNotAvailableError,
    errors.NotEnoughReplicasError: errors.CoordinatorNotAvailableError,
    errors.KafkaTimeoutError: errors.CoordinatorNotAvailableError,
    errors.NotLeaderOrFollowerError: errors.NotCoordinatorError,
    errors.KafkaStorageError: errors.NotCoordinatorError,
    errors.RecordTooLargeError: errors.UnknownServerError,
    errors.RecordBatchTooLargeError: errors.UnknownServerError,
}


class TransactionStore:
    """Transactional id → its metadata, on the port `storage`."""

    __slots__ = ("_failed", "_loading", "_next_offset", "_storage", "_touched", "_warn", "by_id", "ongoing")

    def __init__(self, storage: TransactionStorage, warn: Callable[[str], None]):
        self._storage = storage
        self._warn = warn
        self.by_id: dict[str, TransactionMetadata] = {}
        #: The ids with an open transaction.
        self.ongoing: dict[str, None] = {}
        self._loading: deque[int] = deque()
        self._failed: set[int] = set()
        self._next_offset = 0
        #: The ids that the partition being read holds.
        self._touched: dict[str, None] = {}

    # --- where ids are

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that holds the id."""
        return partition_for(transactional_id, self._storage.partition_count)

    def ensure_topic(self, now_ms: int) -> None:
        """Create `__transaction_state` if it does not exist. Raises KafkaError."""
        self._storage.ensure(now_ms)

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """The id's metadata, None if it is new. Raises CoordinatorLoadInProgressError, NotCoordinatorError."""
        if self._loading or self._failed:
            partition = self.partition_of(transactional_id)
            if partition in self._loading:
                raise errors.CoordinatorLoadInProgressError
            if partition in self._failed:
                raise errors.NotCoordinatorError(f"__transaction_state-{partition} could not be loaded")
        return self.by_id.get(transactional_id)

    # --- changing

    def write(self, metadata: TransactionMetadata, now_ms: int) -> None:
        """Put the metadata into the log, then into memory. Raises KafkaError; then nothing has changed."""
        transactional_id = metadata.transactional_id
        self._append(
            self.partition_of(transactional_id), [(encode_key(transactional_id), encode_value(metadata))], now_ms
        )
        self.put(metadata)

    def put(self, metadata: TransactionMetadata) -> None:
        """Put metadata that the log has, or need not have, into memory."""
        self.by_id[metadata.transactional_id] = metadata
        if metadata.state == ONGOING:
            self.ongoing[metadata.transactional_id] = None
        else:
            self.ongoing.pop(metadata.transactional_id, None)

    def remove(self, partition: int, transactional_ids: Sequence[str], now_ms: int) -> None:
        """Write tombstones, then forget the ids. Raises KafkaError when nothing was written."""
        self._append(
            partition, [(encode_key(transactional_id), None) for transactional_id in transactional_ids], now_ms
        )
        for transactional_id in transactional_ids:
            del self.by_id[transactional_id]

    def _append(self, partition: int, records: list[Record], now_ms: int) -> None:
        try:
            self._storage.ensure(now_ms)
            self._storage.append(partition, records, now_ms)
        except errors.KafkaError as error:
            told = _TRANSLATED.get(type(error))
            if told is None:
                raise
            raise told(f"__transaction_state-{partition} cannot be written: {error}") from error

    # --- loading

    @property
    def loading(self) -> bool:
        """Whether some ids are not known yet."""
        return bool(self._loading)

    def start_loading(self) -> None:
        """Line up every partition that has records."""
        self._loading.extend(filter(self._holds_records, range(self._storage.partition_count)))

    def _holds_records(self, partition: int) -> bool:
        try:
            return self._storage.end_offset(partition) > 0
        except errors.KafkaError:
            # Recovering, or damaged: reading it will tell.
            return True

    def load(self, budget: int) -> list[TransactionMetadata]:
        """Take over about `budget` records; gives what partitions that are complete now hold."""
        complete: list[TransactionMetadata] = []
        while self._loading and budget > 0:
            partition = self._loading[0]
            try:
                found, next_offset = self._storage.read(partition, self._next_offset)
                for record in found:
                    self._replay(record.key, record.value)
            except errors.NotLeaderOrFollowerError:
                # Its log is being recovered.
                return complete
            except errors.KafkaError as error:
                self._warn(f"Loading __transaction_state-{partition} failed at offset {self._next_offset}: {error}")
                # Half of a partition must not pass for its state.
                for transactional_id in self._touched:
                    self._forget(transactional_id)
                self._failed.add(partition)
                self._finish()
                continue
            budget -= max(len(found), 1)
            if next_offset == self._next_offset:
                complete += [self.by_id[transactional_id] for transactional_id in self._touched]
                self._finish()
            else:
                self._next_offset = next_offset
        return complete

    def _replay(self, key: bytes, value: bytes | None) -> None:
        transactional_id = decode_key(key)
        if transactional_id is None:
            self._warn("A record of a kind that is not known in __transaction_state is ignored")
        elif value is None:
            self._touched.pop(transactional_id, None)
            self._forget(transactional_id)
        else:
            self._touched[transactional_id] = None
            self.put(decode_value(transactional_id, value))

    def _forget(self, transactional_id: str) -> None:
        self.by_id.pop(transactional_id, None)
        self.ongoing.pop(transactional_id, None)

    def _finish(self) -> None:
        self._loading.popleft()
        self._next_offset = 0
        self._touched = {}
