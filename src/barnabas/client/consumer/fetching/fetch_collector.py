"""Hands fetched records out, and deals with what brokers said instead."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from barnabas import anatomy
from barnabas.client.consumer.consumer_records import EMPTY, ConsumerRecords
from barnabas.client.consumer.offsets import FetchPosition, OffsetAndMetadata
from barnabas.errors import (
    NONE,
    CorruptRecordError,
    KafkaError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
    UnknownLeaderEpochError,
    UnknownServerError,
    for_code,
    name_of,
)
from barnabas.network.log_context import client_logger, current_client

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.fetching.completed_fetch import CompletedFetch, Found
    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.client.consumer.fetching.fetcher import Fetcher
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.protocol.messages.fetch_response import PartitionData
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.records.arrow import ColumnBuilder

log = client_logger("barnabas.consumer")

_TO_BE_IGNORED: Final = frozenset({UnknownLeaderEpochError.code, UnknownServerError.code})


class FetchCollector:
    """Takes records from the `Fetcher`'s completed fetches and moves the positions on. Application's thread."""

    def __init__(self, fetcher: Fetcher, subscriptions: SubscriptionState, metadata: ConsumerMetadata) -> None:
        self._fetcher = fetcher
        self._subscriptions = subscriptions
        self._metadata = metadata
        self._next_in_line: CompletedFetch | None = None
        # The time that the call in progress knows of.
        self._now = 0.0
        # Where the positions stood that the call in progress has moved on.
        self._before: dict[TopicPartition, FetchPosition] = {}

    def begin_call(self) -> None:
        """Count what was collected before as handed out."""
        if self._before:
            self._before = {}

    def take_back(self) -> None:
        """Go back to where the call in progress began: what it collected does not reach the application."""
        self._fetcher.begin_anew()
        self._next_in_line = None
        self._subscriptions.repair()
        for partition, position in self._before.items():
            if self._subscriptions.is_assigned(partition):
                self._subscriptions.seek_unvalidated(partition, position)

    @property
    def has_available_fetches(self) -> bool:
        """Whether `collect_fetch` may find records."""
        line = self._next_in_line
        if line is not None and not line.is_consumed and self._subscriptions.is_fetchable(line.partition):
            return True
        return any(self._subscriptions.is_fetchable(fetch.partition) for fetch in self._fetcher.completed_fetches)

    def collect_fetch(self, max_records: int, now: float) -> ConsumerRecords:
        """At most `max_records` records, of as many partitions as it takes; the positions are then past them.

        Data of partitions that are no longer assigned, or whose position was changed, is dropped; data of paused ones
        is kept. Raises what is wrong with a partition once everything before it is handed out.
        """
        self._now = now
        found: dict[TopicPartition, Any] = {}
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        paused: deque[CompletedFetch] = deque()
        left = max_records
        try:
            while left > 0 and (fetch := self._advance(paused)) is not None:
                records = self._fetch_records(fetch, left, offsets)
                if records:
                    left -= len(records)
                    if fetch.partition in found:
                        found[fetch.partition].extend(records)
                    else:
                        found[fetch.partition] = records
        except KafkaError:
            # What is in hand goes out first; the error comes again with the next call.
            if not found and not offsets:
                self._drop_failed()
                raise
        finally:
            self._fetcher.completed_fetches.extendleft(reversed(paused))
        return ConsumerRecords(found, offsets) if found or offsets else EMPTY

    def collect_arrow(self, builder: ColumnBuilder, now: float) -> bool:
        """Move all data that has arrived into a `ColumnBuilder`, until it is full; tells whether there was any."""
        self._now = now
        paused: deque[CompletedFetch] = deque()
        if not builder.row_count:
            builder.expect(sum(fetch.size_in_bytes for fetch in self._fetcher.completed_fetches))
        try:
            while not builder.is_full and (fetch := self._advance(paused)) is not None:
                rows = builder.row_count
                before = fetch.next_offset
                fetch.take_arrow(builder)
                self._count(fetch, builder.row_count - rows)
                if fetch.next_offset > before:
                    self._move_on(fetch, before)
                if fetch.is_consumed:
                    self._finish(fetch)
                elif fetch.next_offset == before:
                    break
        except KafkaError:
            if not builder.row_count:
                self._drop_failed()
                raise
        finally:
            self._fetcher.completed_fetches.extendleft(reversed(paused))
        return bool(builder.row_count)

    def collect_raw(self, now: float) -> list[FetchedData]:
        """All data that has arrived, as it came; the positions are then past it."""
        self._now = now
        found: list[FetchedData] = []
        paused: deque[CompletedFetch] = deque()
        try:
            while (fetch := self._advance(paused)) is not None:
                raw = fetch.take_raw()
                if raw.end_offset > raw.offset:
                    self._move_on(fetch, raw.offset)
                    found.append(raw)
                self._finish(fetch)
        except KafkaError:
            if not found:
                self._drop_failed()
                raise
        finally:
            self._fetcher.completed_fetches.extendleft(reversed(paused))
        return found

    def _advance(self, paused: deque[CompletedFetch]) -> CompletedFetch | None:
        """Return the fetch to take records from, its error dealt with if it has one."""
        completed = self._fetcher.completed_fetches
        while True:
            fetch = self._next_in_line
            if fetch is None:
                if not completed:
                    return None
                fetch = completed[0]
                self._fetcher.began(fetch)
                if fetch.response.error_code == NONE:
                    self._next_in_line = completed.popleft()
                    continue
                self._handle_error(fetch)
                completed.popleft()
            elif fetch.is_consumed:
                self._end(fetch)
            elif self._is_stale(fetch):
                log.debug("Dropping data of %s from offset %s", fetch.partition, fetch.next_offset)
                self._end(fetch)
            elif self._subscriptions.is_fetchable(fetch.partition):
                return fetch
            else:
                paused.append(fetch)
                self._next_in_line = None

    def _drop_failed(self) -> None:
        """Forget the answer whose error is being raised; data that cannot be read stays until the position moves."""
        completed = self._fetcher.completed_fetches
        if self._next_in_line is None and completed and completed[0].response.error_code != NONE:
            completed.popleft()

    def _finish(self, fetch: CompletedFetch) -> None:
        self._fetcher.metrics.on_consumed(fetch.partition.topic, fetch.size_in_bytes, self._now)
        self._subscriptions.move_partition_to_end(fetch.partition)
        self._end(fetch)

    def _end(self, fetch: CompletedFetch) -> None:
        self._fetcher.on_fetch_end(fetch, self._now)
        self._next_in_line = None

    def _is_stale(self, fetch: CompletedFetch) -> bool:
        if fetch.seek_id != self._subscriptions.seek_id(fetch.partition):
            return True
        position = self._subscriptions.valid_position(fetch.partition)
        return position is not None and position.offset != fetch.next_offset

    def _fetch_records(
        self, fetch: CompletedFetch, max_records: int, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> Found:
        before = fetch.next_offset
        try:
            records = fetch.fetch_records(max_records)
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"{fetch.partition} cannot be read at offset {fetch.next_offset}: {error}. Seek past it to go on"
            ) from error
        self._count(fetch, len(records))
        if fetch.next_offset > before:
            offsets[fetch.partition] = self._move_on(fetch, before)
        if fetch.is_consumed:
            self._finish(fetch)
        return records

    def _count(self, fetch: CompletedFetch, records: int) -> None:
        fetch.handed_out += records
        self._fetcher.metrics.handed_out(fetch.partition.topic, records, self._now)

    def _move_on(self, fetch: CompletedFetch, before: int) -> OffsetAndMetadata:
        partition = fetch.partition
        assert fetch.next_offset > before >= fetch.fetch_offset
        position = self._subscriptions.valid_position(partition)
        leader = position.current_leader if position is not None else self._metadata.leader_and_epoch(partition)
        epoch = fetch.leader_epoch
        if position is not None:
            self._before.setdefault(partition, position)
        self._subscriptions.set_position(partition, FetchPosition(fetch.next_offset, epoch, leader))
        if anatomy.active is not None:
            moved = anatomy.events.PositionMoved(current_client(), *partition, fetch.next_offset)
            anatomy.active.record(moved)
        if before == fetch.fetch_offset or fetch.is_consumed:
            # What comes between the first part and the last is neither the largest lag nor the smallest lead.
            self._fetcher.note_distances(partition, self._now)
        return OffsetAndMetadata(fetch.next_offset, "", epoch)

    # --- errors

    def _handle_error(self, fetch: CompletedFetch) -> None:
        partition, code = fetch.partition, fetch.response.error_code
        self._subscriptions.move_partition_to_end(partition)
        if self._is_stale(fetch):
            return
        self._fetcher.back_off(partition)
        if for_code(code).refresh_metadata or code == OffsetNotAvailableError.code:
            # The metadata was old, or the leader is not ready yet: the next fetch will go right.
            self._subscriptions.preferred_read_replicas.clear(partition)
            log.debug("Fetching %s: %s, asking for new metadata", partition, name_of(code))
            self._metadata.request_update(reset_equivalent_backoff=False)
        elif code == OffsetOutOfRangeError.code:
            self._handle_out_of_range(fetch)
        elif code == TopicAuthorizationError.code:
            error = TopicAuthorizationError(f"Not authorized to read topic {partition.topic!r}")
            error.resources = (partition.topic,)
            raise error
        elif code not in _TO_BE_IGNORED:
            raise for_code(code, f"Fetching {partition} from offset {fetch.fetch_offset} failed: {for_code(code)}")

    def _handle_out_of_range(self, fetch: CompletedFetch) -> None:
        partition = fetch.partition
        replica = self._subscriptions.preferred_read_replicas.clear(partition)
        if replica is not None:
            log.info("Offset %s of %s is not on replica %s, asking the leader", fetch.fetch_offset, partition, replica)
            return
        if self._subscriptions.has_default_offset_reset_policy:
            log.info("Offset %s of %s is out of range, resetting it", fetch.fetch_offset, partition)
            self._subscriptions.request_offset_reset(partition)
            return
        error = OffsetOutOfRangeError(
            f"Offset {fetch.fetch_offset} of {partition} is out of range{_range_of(fetch.response)}. "
            "auto.offset.reset is none, so seek() to an offset that the log has (beginning_offsets() and "
            "end_offsets() tell)"
        )
        error.partitions = (partition,)
        raise error

    def drop_all(self) -> None:
        """Forget everything that is buffered."""
        if self._next_in_line is not None:
            self._end(self._next_in_line)
        while self._fetcher.completed_fetches:
            self._fetcher.on_fetch_end(self._fetcher.completed_fetches.popleft(), self._now)


def _range_of(response: PartitionData) -> str:
    """Return what the response tells of the log; brokers leave it out of most errors."""
    if response.log_start_offset < 0 or response.high_watermark < 0:
        return ""
    return f": the log begins at {response.log_start_offset} and ends at {response.high_watermark}"
