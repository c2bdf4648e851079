"""What a pass over a log knows of its transactions, so that aborted records and idle markers go (KIP-98)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from barnabas.protocol.kinds import ControlRecordType
from barnabas.records.fetched_batches import control_type

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.transaction_index import AbortedTxn, TransactionIndex
    from barnabas.records.batch_header import BatchHeader

_EMPTY = -1


class CleanedTransactionMetadata:
    """Follows the transactions of a log, whose batches must be shown in order (CleanedTransactionMetadata).

    An aborted transaction of which batches were seen is written to `cleaned_index`, that of the segment being made.
    """

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "_seen", "cleaned_index")

    def __init__(self, cleaned_index: TransactionIndex | None = None) -> None:
        self.cleaned_index = cleaned_index
        self._aborted: list[tuple[int, AbortedTxn]] = []
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._ongoing_committed: set[int] = set()
        self._seen: set[int] = set()

    def add_aborted_transactions(self, transactions: list[AbortedTxn]) -> None:
        """Add entries of transaction indexes; one that spans segments may come more than once."""
        for transaction in transactions:
            heappush(self._aborted, (transaction.first_offset, transaction))

    def can_discard(self, buffer: Buffer, header: BatchHeader) -> bool:
        """Whether the batch says nothing any more: records that were aborted, or a marker without records before it.

        A marker stays as long as there is a batch of its transaction, be it an empty one.
        """
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            transaction = heappop(self._aborted)[1]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)
        if header.is_control:
            return self._on_control_batch(buffer, header)
        return header.is_transactional and self._on_transactional_batch(header.producer_id)

    def _on_transactional_batch(self, producer_id: int) -> bool:
        if producer_id in self._ongoing_aborted:
            self._seen.add(producer_id)
            return True
        self._ongoing_committed.add(producer_id)
        return False

    def _on_control_batch(self, buffer: Buffer, header: BatchHeader) -> bool:
        kind = control_type(buffer, header)
        producer_id = header.producer_id
        if kind == ControlRecordType.ABORT:
            transaction = self._ongoing_aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            if self.cleaned_index is not None:
                self.cleaned_index.append(transaction)
            return False
        if kind == ControlRecordType.COMMIT:
            had_batches = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not had_batches
        return kind == _EMPTY
