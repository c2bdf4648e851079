"""Which records of a refused batch break a rule (KIP-467, RecordValidationException)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError, InvalidRecordError, InvalidTimestampError, KafkaError
from barnabas.records.batch_header import LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from barnabas.records.record_batch import read_batches

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.records.record_batch import Record

#: A record of seven bytes must not cost a response of a hundred: no more than so many are named.
MOST_NAMED = 1000
#: Nor may it cost much time: a refused batch is looked through as far as this.
MOST_LOOKED_AT = 100_000


class RecordError(NamedTuple):
    """A record that breaks a rule, by its place in the batch, and what is wrong with it."""

    batch_index: int
    message: str
    is_timestamp: bool


class RejectedRecordsError(InvalidRecordError):
    """A batch was refused for some of its records: INVALID_RECORD."""

    def __init__(self, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class RejectedTimestampsError(InvalidTimestampError):
    """A batch was refused for some of its records, timestamps among the reasons: INVALID_TIMESTAMP."""

    def __init__(self, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


def with_record_errors(
    problem: KafkaError, data: Buffer, header: BatchHeader, partition: str, config: LogConfig, now_ms: int
) -> KafkaError:
    """Find out which records of a batch are meant by `problem`; it is returned as it is where none can be named."""
    batch = memoryview(data)[header.position : header.position + header.size_in_bytes]
    records = (record for found in read_batches(batch) for record in found)
    try:
        found = list(islice(_errors(records, partition, config, now_ms), MOST_NAMED))
    except CorruptRecordError:
        return problem
    if not found:
        return problem
    if any(error.is_timestamp for error in found):
        return RejectedTimestampsError(str(problem), found)
    return RejectedRecordsError(str(problem), found)


def _errors(records: Iterator[Record], partition: str, config: LogConfig, now_ms: int) -> Iterator[RecordError]:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    sets_time = config.message_timestamp_type == LOG_APPEND_TIME
    for index, record in enumerate(islice(records, MOST_LOOKED_AT)):
        timestamp = record.timestamp
        if config.compact and record.key is None:
            yield RecordError(index, f"The compacted topic of {partition} cannot accept a record without a key.", False)
        elif not (sets_time or timestamp == NO_TIMESTAMP or earliest <= timestamp <= latest):
            yield RecordError(
                index, f"Timestamp {timestamp} is out of range; it should be within [{earliest}, {latest}].", True
            )
