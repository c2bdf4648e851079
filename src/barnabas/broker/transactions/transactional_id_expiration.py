"""Forgets transactional ids that no producer has used for a long time (KIP-98, transactional.id.expiration.ms)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas import errors
from barnabas.broker.coordinator.expiry_sweep import Sweep
from barnabas.broker.instant import Instant
from barnabas.broker.transactions.transaction_coordinator_config import TransactionSettings
from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
from barnabas.broker.transactions.transaction_state import DEAD, RESTING, check_transition
from barnabas.broker.transactions.transaction_state_manager import TransactionStateManager


class TransactionalIdExpiration:
    """Sweeps over all ids (transaction.remove.expired.transaction.cleanup.interval.ms)."""

    __slots__ = ("_settings", "_store", "_warn", "sweep")

    def __init__(self, settings: TransactionSettings, store: TransactionStateManager, warn: Callable[[str], None]):
        self._settings = settings
        self._store = store
        self._warn = warn
        self.sweep = Sweep(settings.expiration_interval_ms, lambda: store.by_id, self._visit)

    def _visit(self, transactional_ids: Sequence[str], at: Instant) -> None:
        by_partition: dict[int, list[str]] = {}
        for transactional_id in transactional_ids:
            metadata = self._store.by_id.get(transactional_id)
            if metadata is not None and self._is_expired(metadata, at.now_ms):
                check_transition(transactional_id, metadata.state, DEAD)
                by_partition.setdefault(self._store.partition_of(transactional_id), []).append(transactional_id)
        for expired in by_partition.values():
            try:
                self._store.remove(expired, at)
            except errors.KafkaError as error:
                self._warn(f"{len(expired)} expired transactional ids could not be removed: {error}")

    def _is_expired(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        oldest = now_ms - self._settings.transactional_id_expiration_ms
        return metadata.state in RESTING and metadata.last_update_ms <= oldest
