"""Forgets transactional ids that nobody has used for a long time (KIP-98, transactional.id.expiration.ms)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from barnabas import errors
from barnabas.broker.transactions.settings import TransactionSettings
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import DEAD, RESTING, check_transition
from barnabas.broker.transactions.transaction_store import TransactionStore


class TransactionalIdExpiration:
    """A sweep over all ids every now and then, a piece at a time; tombstones go to the log first."""

    __slots__ = ("_due_at", "_settings", "_store", "_to_check", "_warn")

    def __init__(self, settings: TransactionSettings, store: TransactionStore, warn: Callable[[str], None]):
        self._settings = settings
        self._store = store
        self._warn = warn
        self._due_at = inf
        self._to_check: list[str] = []

    @property
    def sweeping(self) -> bool:
        """Whether a sweep is under way."""
        return bool(self._to_check)

    def schedule(self, now: float) -> None:
        """Begin a sweep one interval from now."""
        self._due_at = now + self._settings.expiration_interval_ms / 1000

    def next_deadline(self) -> float:
        """When the next sweep begins, in monotonic seconds."""
        return self._due_at

    def step(self, budget: int, now: float, now_ms: int) -> None:
        """Begin a sweep if one is due; look at up to `budget` ids."""
        if self._due_at <= now:
            self._to_check = list(self._store.by_id)
            self.schedule(now)
        piece, self._to_check = self._to_check[-budget:], self._to_check[:-budget]
        by_partition: dict[int, list[str]] = {}
        for transactional_id in piece:
            metadata = self._store.by_id.get(transactional_id)
            if metadata is not None and self._is_expired(metadata, now_ms):
                check_transition(transactional_id, metadata.state, DEAD)
                by_partition.setdefault(self._store.partition_of(transactional_id), []).append(transactional_id)
        for partition, expired in by_partition.items():
            try:
                self._store.remove(partition, expired, now_ms)
            except errors.KafkaError as error:
                self._warn(f"{len(expired)} expired transactional ids could not be removed: {error}")

    def _is_expired(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        oldest = now_ms - self._settings.transactional_id_expiration_ms
        return metadata.state in RESTING and metadata.last_update_ms <= oldest
