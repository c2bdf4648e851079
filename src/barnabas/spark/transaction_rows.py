"""Records of transactions that are open, for a reader who was told which of them will count.

Of a range of offsets, read uncommitted, only what the named transactions have written is taken. Each transaction has a
producer id and an epoch of its own (KIP-890: ending one raises the epoch), so what an attempt that failed, a process
that was thought dead or another application has written there is passed over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.records.batch_header import read_header
from barnabas.spark.client_settings import ClientSettings
from barnabas.spark.fetch_loop import read_ranges
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.records.arrow import ColumnBuilder

#: Producer id and epoch.
Transaction = tuple[int, int]


class WrittenRange(NamedTuple):
    """How a range of a partition is to be read: up to before `committed` what is committed, then these transactions."""

    topic_partition: TopicPartition
    committed: int
    transactions: tuple[Transaction, ...]


def read_written(
    options: SourceOptions, offsets: OffsetRange, written: WrittenRange, topic_ids: Mapping[str, bytes | None]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, in their order. Raises as `read_ranges` does.

    The end of the range may lie beyond the high watermark, as on a leader that is new: it is waited for.
    """
    if offsets.start < written.committed:
        yield from read_ranges(options, [offsets._replace(end=written.committed)], topic_ids)
    begun = offsets._replace(start=max(offsets.start, written.committed))
    if begun.size > 0:
        yield from read_ranges(_uncommitted(options), [begun], topic_ids, _Taking(frozenset(written.transactions)))


def _uncommitted(options: SourceOptions) -> SourceOptions:
    found = copy.copy(options)
    found.client = ClientSettings({**options.client, "isolation.level": "read_uncommitted"})
    found.keep_fetched_ahead = False  # what lies beyond is of the next batch, which names others
    return found


def is_of(producer_id: int, epoch: int, is_control: bool, transactions: frozenset[Transaction]) -> bool:
    """Whether a batch of records was written in one of these transactions."""
    return not is_control and (producer_id, epoch) in transactions


class _Taking:
    """In place of `FetchedData.append_to`: leaves out the batches of others."""

    def __init__(self, transactions: frozenset[Transaction]) -> None:
        self._transactions = transactions

    def __call__(self, data: FetchedData, builder: ColumnBuilder, position: int, end_offset: int) -> int:
        whole, at = memoryview(data.data), 0
        builder.expect(len(whole))
        while (header := read_header(whole, at)) is not None and header.base_offset < end_offset:
            at += header.size_in_bytes
            end = min(header.next_offset, end_offset)
            if end <= position:
                continue
            if is_of(header.producer_id, header.producer_epoch, header.is_control, self._transactions):
                position = builder.append(
                    whole[header.position : at], *data.topic_partition, position, end_offset=end_offset,
                    check_crcs=data.check_crcs,
                )  # fmt: skip
                if position < end:
                    return position
            else:
                position = end
        return position
