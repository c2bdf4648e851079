"""The checks that records from the partition's leader must pass: offsets and epochs are taken as they come."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.broker.log.log_segment import AppendedBatch
from barnabas.broker.log.log_validator import ValidatedRecords
from barnabas.broker.log.offset_index import MAX_RELATIVE_OFFSET
from barnabas.errors import KafkaError
from barnabas.records.batch_header import BatchHeader, check_crc, scan_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.log.filesystem import Buffer


class OffsetsOutOfOrderError(KafkaError):
    """A leader's records do not have growing offsets."""


class UnexpectedAppendOffsetError(KafkaError):
    """A leader's records, from `first_offset` to `last_offset`, begin before the end of the follower's log."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


def validate_follower_records(
    partition: str, data: Buffer, *, log_end_offset: int, leader_epoch: int
) -> ValidatedRecords | None:
    """Return the whole batches that the follower may write, None where there is none.

    A batch of a later epoch than that in which they were fetched is left out, with all behind it: its sender has lost
    the leadership meanwhile, and may have truncated (KAFKA-18723). So is a batch that is cut. Raises
    `CorruptRecordError`, `OffsetsOutOfOrderError` and `UnexpectedAppendOffsetError`.
    """
    headers: list[BatchHeader] = []
    for header in scan_batches(data):
        if header.partition_leader_epoch > leader_epoch:
            break
        check_crc(data, header)
        headers.append(header)
    if not headers:
        return None
    for one, following in pairwise(headers):
        if following.base_offset <= one.last_offset:
            raise OffsetsOutOfOrderError(
                f"the leader's records for {partition} have offset {following.base_offset} behind {one.last_offset}"
            )
    first, last = headers[0].base_offset, headers[-1].last_offset
    if first < log_end_offset:
        raise UnexpectedAppendOffsetError(
            f"the leader's records for {partition} begin at offset {first}, the log ends at {log_end_offset}",
            first,
            last,
        )
    return _records(data, headers)


def split_for_segments(records: ValidatedRecords, most: int) -> Iterator[ValidatedRecords]:
    """Yield the records in pieces that each fit in a segment: at most so many bytes, and one batch at least."""
    if len(records.buffer) <= most and records.last_offset - records.first_offset <= MAX_RELATIVE_OFFSET:
        yield records
        return
    piece: list[BatchHeader] = []
    size = 0
    for header in records.headers:
        if piece and (
            size + header.size_in_bytes > most or header.last_offset - piece[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield _records(records.buffer, piece)
            piece, size = [], 0
        piece.append(header)
        size += header.size_in_bytes
    yield _records(records.buffer, piece)


def _records(data: Buffer, headers: list[BatchHeader]) -> ValidatedRecords:
    """Return the batches with these headers, which follow each other in `data`."""
    start, end = headers[0].position, headers[-1].position + headers[-1].size_in_bytes
    if start or end != len(data):
        data = memoryview(data)[start:end]
        headers = [header._replace(position=header.position - start) for header in headers]
    return ValidatedRecords(
        data,
        headers,
        headers[0].base_offset,
        [AppendedBatch(header.size_in_bytes, header.last_offset, header.max_timestamp) for header in headers],
        max(header.max_timestamp for header in headers),
        sum(header.last_offset_delta + 1 for header in headers),
        -1,
    )
