"""The records of one partition from one share fetch, until all that were acquired are handed out."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.consumer.fetching.completed_fetch import new_decoder
from barnabas.client.consumer.share.acknowledgements import REJECT, RELEASE, Range, ranges_of, without
from barnabas.errors import CorruptRecordError, RecordDeserializationError
from barnabas.records.batch_header import read_header

if TYPE_CHECKING:
    from barnabas.client.consumer.fetching.fetch_config import FetchConfig
    from barnabas.client.consumer.share.share_fetch import ShareInFlightBatch
    from barnabas.protocol.messages.share_fetch_response import PartitionData
    from barnabas.protocol.topic_partition import TopicIdPartition
    from barnabas.records.arrow import ColumnBuilder

_ALL = 2**63 - 1


class AcquisitionLock(NamedTuple):
    """By whom and until when records are kept for this consumer, in monotonic seconds.

    From `ends_at` on they may belong to others; from `stale_at` on they are not handed out, but given back.
    """

    node_id: int
    #: The number of the session.
    session: int
    ends_at: float
    stale_at: float


class ShareCompletedFetch:
    """What a broker sent for one partition: bytes of batches, and which offsets it acquired for this consumer."""

    __slots__ = ("_acquired", "_config", "_data", "_decoder", "lock", "partition", "size_in_bytes")

    def __init__(
        self,
        partition: TopicIdPartition,
        lock: AcquisitionLock,
        response: PartitionData,
        config: FetchConfig,
    ) -> None:
        self.partition = partition
        self.lock = lock
        self._config = config
        self._data = response.records if response.records is not None else b""
        self.size_in_bytes = len(self._data)
        acquired = sorted((one.first_offset, one.last_offset, one.delivery_count) for one in response.acquired_records)
        # First and last offset, and how often it was delivered, this time included.
        self._acquired: deque[tuple[int, int, int]] = deque(acquired)
        self._decoder: Any = None

    @property
    def is_consumed(self) -> bool:
        """Whether nothing is left."""
        return not self._acquired

    @property
    def acquired(self) -> list[Range]:
        """The offsets that are left."""
        return [(first, last) for first, last, _ in self._acquired]

    @property
    def count(self) -> int:
        """How many offsets are left."""
        return sum(last - first + 1 for first, last, _ in self._acquired)

    def take(self, batch: ShareInFlightBatch, wanted: int, *, is_strict: bool) -> int:
        """Move records into the batch, until it has `wanted` more; how many they are.

        What the broker acquired together stays together, so there may be more, unless `is_strict`. Raises
        `CorruptRecordError` and `RecordDeserializationError` where nothing comes before the records in question; the
        next call goes on behind them, and the batch says that they are rejected or released.
        """
        taken = 0
        while self._acquired and taken < wanted:
            first, last, count = self._acquired.popleft()
            try:
                records = self._decode(first, last, wanted - taken if is_strict else _ALL, count)
            except (CorruptRecordError, RecordDeserializationError) as error:
                self._acquired.appendleft((first, last, count))
                if taken:
                    break
                if self._pass_over(batch, error):
                    raise
                continue
            reached = last + 1 if self._decoder.exhausted else min(self._decoder.next_offset, last + 1)
            if reached <= last:
                self._acquired.appendleft((reached, last, count))
            taken += len(records)
            dense = len(records) == reached - first
            ranges = [(first, reached - 1)] if dense else ranges_of(record.offset for record in records)
            batch.add(records, ranges, without([(first, reached - 1)], ranges))
            if reached <= last:
                # The limit is reached, or the next record cannot be read.
                break
        return taken

    def take_arrow(self, batch: ShareInFlightBatch, builder: ColumnBuilder) -> int:
        """Move records into a `ColumnBuilder`, as far as there is room; how many. Raises `CorruptRecordError`."""
        before = builder.row_count
        while self._acquired and not builder.is_full:
            first, last, count = self._acquired.popleft()
            rows = builder.row_count
            try:
                reached = self._append_to(builder, first, last)
            except CorruptRecordError as error:
                self._acquired.appendleft((first, last, count))
                if rows:
                    break
                if self._pass_over(batch, error):
                    raise
                continue
            found = builder.row_count - rows
            if not found and not builder.is_full:
                # The rest of the range has no records.
                reached = last + 1
            if reached <= last:
                self._acquired.appendleft((reached, last, count))
            ranges = [(first, reached - 1)] if found == reached - first else self._offsets(first, reached - 1)
            batch.add((), ranges, without([(first, reached - 1)], ranges))
        return builder.row_count - before

    def _append_to(self, builder: ColumnBuilder, first: int, last: int) -> int:
        name, checks = self.partition, self._config.check_crcs
        reached = builder.append(self._data, name.topic, name.partition, first, end_offset=last + 1, check_crcs=checks)
        return min(max(reached, first), last + 1)

    def _decode(self, first: int, last: int, most: int, delivery_count: int) -> Any:
        config = self._config
        if self._decoder is None:
            self._decoder = self._new_decoder(first)
        stay_bytes = config.key_deserializer is None and config.value_deserializer is None
        return self._decoder.take_acquired(first, last, most, delivery_count, stay_bytes)

    def _new_decoder(self, offset: int, *, as_bytes: bool = False) -> Any:
        config = self._config.as_bytes() if as_bytes else self._config
        return new_decoder(self._data, self.partition.topic_partition, offset, config, None)

    def _offsets(self, first: int, last: int) -> list[Range]:
        """Return the offsets that have records, where not all have one."""
        records = self._new_decoder(first, as_bytes=True).take_acquired(first, last, _ALL, 0, False)
        return ranges_of(record.offset for record in records)

    def _pass_over(self, batch: ShareInFlightBatch, error: CorruptRecordError | RecordDeserializationError) -> bool:
        """Go on behind what cannot be read: one record, which is released, or a whole batch, which is rejected.

        Tells whether anything of it was acquired.
        """
        first = self._acquired[0][0]
        if isinstance(error, RecordDeserializationError):
            error.record = next(iter(self._new_decoder(error.offset, as_bytes=True).take(1)), None)
            bad, kind = (error.offset, error.offset), RELEASE
        else:
            bad, kind = self._corrupt_batch(first), REJECT
        self._decoder = None
        gone = without(self.acquired, without(self.acquired, [bad]))
        batch.add_unreadable((offset for run in gone for offset in range(run[0], run[1] + 1)), kind)
        before = without(self.acquired, [(bad[0], _ALL)])
        batch.add((), (), before)
        left = [(without([(one[0], one[1])], [(0, bad[1])]), one[2]) for one in self._acquired]
        self._acquired = deque((begin, end, count) for ranges, count in left for begin, end in ranges)
        return bool(gone)

    def _corrupt_batch(self, first: int) -> Range:
        """Return the offsets of the first batch that cannot be read; all that are left where even its header is bad."""
        decoder = self._new_decoder(first, as_bytes=True)
        with suppress(CorruptRecordError):
            # It stops before the batch.
            decoder.take(1)
        position = 0
        try:
            while (header := read_header(self._data, position)) is not None:
                if header.next_offset > decoder.next_offset:
                    return header.base_offset, header.last_offset
                position += header.size_in_bytes
        except CorruptRecordError:
            pass
        return first, _ALL
