"""What producers may append: duplicates, sequence numbers, epochs and transactions (KIP-98, KIP-360).

Kafka's UnifiedLog.analyzeAndValidateProducerState. Nothing is changed but what is remembered of earlier batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.append_origin import CLIENT
from barnabas.broker.log.earlier_batches import earlier_batches
from barnabas.broker.log.log_health import READING

if TYPE_CHECKING:
    from barnabas.broker.log.log_health import LogHealth
    from barnabas.broker.log.log_segments import LogSegments
    from barnabas.broker.log.log_validator import ValidatedRecords
    from barnabas.broker.log.producer_append_info import (
        BatchMetadata,
        CompletedTxn,
        ProducerAppendInfo,
        ProducerStateEntry,
    )
    from barnabas.broker.log.producer_state_manager import ProducerStateManager
    from barnabas.records.batch_header import BatchHeader


def check_producers(
    records: ValidatedRecords, origin: int, state: ProducerStateManager, segments: LogSegments, health: LogHealth
) -> tuple[dict[int, ProducerAppendInfo], list[CompletedTxn], BatchMetadata | None]:
    """Check batches against what a log knows of their producers (`state`), before any of them is written.

    Gives the producers' new state, the transactions that end here, and the earlier batch where a client sends one
    again; then nothing is to be written. Raises what `ProducerAppendInfo.append` raises, and `KafkaStorageError`.
    """
    producers: dict[int, ProducerAppendInfo] = {}
    completed = []
    for header, batch in zip(records.headers, records.batches, strict=True):
        producer_id = header.producer_id
        if producer_id >= 0:
            entry = state.producers.get(producer_id)
            if entry is not None and origin == CLIENT:
                repeated = _find_duplicate(entry, header, segments, health)
                if repeated is not None:
                    return {}, [], repeated
            info = producers.get(producer_id)
            if info is None:
                info = producers[producer_id] = state.prepare_update(producer_id, origin)
            transaction = info.append(records.buffer, header, batch.last_offset - header.last_offset_delta)
            if transaction is not None:
                completed.append(transaction)
    return producers, completed, None


def _find_duplicate(
    entry: ProducerStateEntry, header: BatchHeader, segments: LogSegments, health: LogHealth
) -> BatchMetadata | None:
    numbers = header.producer_epoch, header.base_sequence, header.last_sequence
    found = entry.find_duplicate(*numbers)
    if found is None and entry.may_lack(header.producer_epoch, header.base_sequence):
        try:
            entry.remember(earlier_batches(segments, entry))
        except OSError as error:
            raise health.failed("looking for a repeated batch", error, READING) from error
        found = entry.find_duplicate(*numbers)
    return found
