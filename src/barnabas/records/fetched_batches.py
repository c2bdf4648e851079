"""From fetched bytes to the records of each batch: what is common to all readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError
from barnabas.protocol.kinds import ControlRecordType
from barnabas.records.batch_header import COMPRESSION_MASK, HEADER_SIZE, BatchHeader, check_crc, read_header
from barnabas.records.compression import MAX_DECOMPRESSED_SIZE, codec_name, decompress
from barnabas.records.control_record import parse_control_type
from barnabas.records.cursor import first_key
from barnabas.records.legacy import upgrade

if TYPE_CHECKING:
    from barnabas.records.types import AbortedTransactions, Buffer


def open_batch(
    buffer: Buffer, header: BatchHeader, max_size: int = MAX_DECOMPRESSED_SIZE
) -> tuple[BatchHeader, bytes | memoryview]:
    """Return a batch's header and its records, uncompressed, in magic 2; magic 0 and 1 are converted.

    Raises `CorruptRecordError`, and `DecompressionError` where the records take more than `max_size` bytes.
    """
    if header.magic < 2:
        return upgrade(buffer, header, max_size)
    payload = memoryview(buffer)[header.position + HEADER_SIZE : header.position + header.size_in_bytes]
    if not header.attributes & COMPRESSION_MASK:
        return header, payload
    return header, decompress(codec_name(header.attributes), payload, max_size)


class AbortedFilter:
    """Tells which batches belong to aborted transactions, for consumers of isolation level read_committed.

    Batches must be shown in order. Source: the fetch response's list of aborted transactions and the markers (KIP-98).
    """

    __slots__ = ("_aborted_producers", "_waiting")

    def __init__(self, aborted_transactions: AbortedTransactions) -> None:
        ordered = sorted(((offset, producer) for producer, offset in aborted_transactions), reverse=True)
        self._waiting = ordered
        self._aborted_producers: set[int] = set()

    def is_aborted(self, buffer: Buffer, header: BatchHeader) -> bool:
        """Whether the batch is data of an aborted transaction."""
        if not header.has_producer_id:
            return False
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._aborted_producers.add(self._waiting.pop()[1])
        if header.producer_id not in self._aborted_producers:
            return False
        if header.is_control:
            if control_type(buffer, header) == ControlRecordType.ABORT:
                self._aborted_producers.discard(header.producer_id)
            return False
        return header.is_transactional


def control_type(buffer: Buffer, header: BatchHeader) -> int:
    """Return the type of a control batch, -1 where compaction has emptied it."""
    if header.record_count == 0:
        return -1
    header, payload = open_batch(buffer, header)
    return parse_control_type(first_key(payload, header.record_count, header.last_offset_delta))


def open_batches(
    data: Buffer,
    *,
    fetch_offset: int = 0,
    end_offset: int | None = None,
    check_crcs: bool = True,
    max_size: int = MAX_DECOMPRESSED_SIZE,
    aborted_transactions: AbortedTransactions | None = None,
) -> Iterator[tuple[BatchHeader, bytes | memoryview | None]]:
    """Return the complete batches of a fetch that hold offsets from `fetch_offset` up to `end_offset` (exclusive).

    Yields each batch's header and its uncompressed records, or None for the records where the batch is to be passed
    over: a control batch, an aborted one (with `aborted_transactions`, which is read_committed), or one that compaction
    has emptied. Raises `CorruptRecordError`.
    """
    aborted = AbortedFilter(aborted_transactions) if aborted_transactions is not None else None
    position = 0
    while (header := read_header(data, position)) is not None:
        position += header.size_in_bytes
        if end_offset is not None and header.magic == 2 and header.base_offset >= end_offset:
            return
        wanted = header.base_offset + header.last_offset_delta >= fetch_offset
        if check_crcs and wanted:
            check_crc(data, header)
        hidden = aborted is not None and aborted.is_aborted(data, header)
        if not wanted:
            continue
        if hidden or header.is_control or header.record_count == 0:
            yield header, None
        else:
            try:
                opened = open_batch(data, header, max_size)
            except CorruptRecordError as error:
                raise type(error)(f"batch at offset {header.base_offset}: {error}") from None
            yield opened
