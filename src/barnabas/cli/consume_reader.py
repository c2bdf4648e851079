"""Reads what `consume` prints: from where to where, when to end, and what to commit."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.cli.output import note
from barnabas.cli.record_format import write_formatted
from barnabas.cli.signals import StopSignals
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.client.position_syntax import OFFSET, TIME, Position, Range, resolve
from barnabas.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError, WakeupError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.cli.record_format import Formatter
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.consumer.consumer_records import ConsumerRecords
    from barnabas.records.decoder import ConsumerRecord

POLL_TIMEOUT = 0.5
COMMIT_INTERVAL = 1.0


class Output(Protocol):
    """Where the records go."""

    def write(self, data: bytes) -> None:
        """Take bytes. Raises `BrokenPipeError` when the reader is gone."""

    def check(self) -> None:
        """Raise `BrokenPipeError` when the reader is gone."""


class Reader(ConsumerRebalanceListener):
    """One run of `consume`: polls, writes, commits what was written, and knows when it is done."""

    def __init__(
        self,
        consumer: Consumer,
        format_record: Formatter,
        output: Output,
        *,
        count: int | None,
        commits: bool,
        quiet: bool,
    ) -> None:
        self._consumer = consumer
        self._format = format_record
        self._output = output
        self._left = count
        self._commits = commits
        self._quiet = quiet
        self._topics: Sequence[str] = ()
        self._ends: dict[TopicPartition, int] | None = None
        self._finished: set[TopicPartition] = set()
        self._pending: dict[TopicPartition, OffsetAndMetadata] = {}
        self._next_commit = 0.0
        self._has_joined = False
        self._printed = 0
        self._has_said_waiting = False

    def read_partitions(
        self, topics: Sequence[str], numbers: Collection[int] | None, start: Position, stop: Position | None
    ) -> int:
        """Print the records between two places; without a second one go on until a signal. Gives the exit code."""
        self._topics = topics
        partitions = self._find_partitions(topics, numbers)
        bounds = self._bounds(partitions)
        starts = self._resolve(start, bounds)
        self._ends = None if stop is None else self._resolve(stop, bounds)
        self._has_joined = True
        self._note_clipping(start, bounds, starts)
        self._consumer.assign(partitions)
        for partition, offset in starts.items():
            self._consumer.seek(partition, offset)
        return self._read()

    def read_group(self, topics: Sequence[str], *, ends: bool) -> int:
        """Print what the group has not read yet, and commit it; with `ends` only what is there now."""
        self._topics = topics
        self._find_partitions(topics, None)
        self._ends = {} if ends else None
        self._consumer.subscribe(topics, self)
        return self._read()

    # Where.

    def _find_partitions(self, topics: Sequence[str], numbers: Collection[int] | None) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for topic in dict.fromkeys(topics):
            there = {info.partition for info in self._consumer.partitions_for(topic)}
            if not there:
                raise UnknownTopicOrPartitionError(f"there is no topic {topic!r}")
            missing = set(numbers or ()) - there
            if missing:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic!r} has the partitions 0 to {max(there)}, none numbered {min(missing)}"
                )
            found.extend(TopicPartition(topic, number) for number in sorted(numbers or there))
        return found

    def _bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Range]:
        first = self._consumer.beginning_offsets(partitions)
        end = self._consumer.end_offsets(partitions)
        return {partition: Range(first[partition], end[partition]) for partition in partitions}

    def _resolve(self, position: Position, bounds: dict[TopicPartition, Range]) -> dict[TopicPartition, int]:
        at_time: dict[TopicPartition, int] = {}
        if position.kind == TIME:
            found = self._consumer.offsets_for_times(dict.fromkeys(bounds, position.value))
            at_time = {partition: entry.offset for partition, entry in found.items() if entry is not None}
        return {partition: resolve(position, known, at_time.get(partition)) for partition, known in bounds.items()}

    def _note_clipping(
        self, start: Position, bounds: dict[TopicPartition, Range], starts: dict[TopicPartition, int]
    ) -> None:
        for partition, offset in starts.items():
            if start.kind == OFFSET and offset != start.value:
                first, end = bounds[partition]
                self._note(f"{partition} has the offsets {first} to before {end}: beginning at {offset}")

    # The loop.

    def _read(self) -> int:
        with StopSignals(self._consumer.wakeup) as signals:
            try:
                while not signals.received and not self._is_done():
                    self._step()
            finally:
                self._commit_rest()
        if self._ends is not None and not self._printed and not signals.received:
            self._note(f"{self._names()}: no records there")
        return signals.code

    def _step(self) -> None:
        try:
            records = self._consumer.poll(POLL_TIMEOUT, max_records=self._left)
        except WakeupError:
            return
        if records:
            self._print(records)
        else:
            self._output.check()
            self._say_waiting()
        self._drop_finished()
        if self._pending and time.monotonic() >= self._next_commit:
            self._next_commit = time.monotonic() + COMMIT_INTERVAL
            self._consumer.commit_async(dict(self._pending), self._on_commit)
            self._pending.clear()

    def _print(self, records: ConsumerRecords) -> None:
        wanted: list[ConsumerRecord] = []
        reached = dict(records.next_offsets)
        for partition in records.partitions():
            found = records.records(partition)
            end = self._ends.get(partition) if self._ends is not None else None
            if end is not None and found[-1].offset >= end:
                found = [record for record in found if record.offset < end]
                reached[partition] = OffsetAndMetadata(end)
            wanted += found
        printed = write_formatted(self._output.write, self._format, wanted)
        self._printed += printed
        if self._left is not None:
            self._left -= printed
        if self._commits:
            self._pending.update(reached)

    def _is_done(self) -> bool:
        if self._left == 0:
            return True
        return self._ends is not None and self._has_joined and not self._ends.keys() - self._finished

    def _drop_finished(self) -> None:
        for partition, end in (self._ends or {}).items():
            if partition not in self._finished and self._position(partition) >= end:
                self._finished.add(partition)
                self._consumer.pause(partition)

    def _position(self, partition: TopicPartition) -> int:
        try:
            return self._consumer.position(partition, timeout=0)
        except KafkaTimeoutError:
            return -1

    def _say_waiting(self) -> None:
        assigned = self._consumer.assignment()
        if self._has_said_waiting or self._ends is not None or not assigned:
            return
        if any(self._consumer.current_lag(partition) != 0 for partition in assigned):
            return
        self._has_said_waiting = True
        if self._printed:
            self._note(f"{self._printed} records; waiting for more (Ctrl-C ends)")
        elif any(known.end > known.first for known in self._bounds(assigned).values()):
            self._note(f"{self._names()}: nothing new; waiting for records (Ctrl-C ends)")
        else:
            self._note(f"{self._names()} {'is' if len(self._topics) == 1 else 'are'} empty; "
                       "waiting for records (Ctrl-C ends)")  # fmt: skip

    def _names(self) -> str:
        return ", ".join(self._topics)

    def _note(self, text: str) -> None:
        if not self._quiet:
            note(text)

    # Commits.

    def _commit_rest(self) -> None:
        if not self._pending:
            return
        try:
            self._consumer.commit(self._pending)
        except WakeupError:
            # The signal came after the last poll; it has done what it should.
            self._consumer.commit(self._pending)
        self._pending.clear()

    @staticmethod
    def _on_commit(offsets: object, error: KafkaError | None) -> None:
        if error is not None:
            note(f"offsets were not committed: {error}")

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """With an end to reach, it is where these partitions end now."""
        self._has_joined = True
        if self._ends is not None and partitions:
            self._ends.update(self._consumer.end_offsets(partitions))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what was printed of them, while they are ours."""
        theirs = {partition: self._pending.pop(partition) for partition in partitions if partition in self._pending}
        if theirs:
            self._consumer.commit(theirs)
        self._forget(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """They are others' now, who read again what was not committed."""
        for partition in partitions:
            self._pending.pop(partition, None)
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            if self._ends is not None:
                self._ends.pop(partition, None)
            self._finished.discard(partition)
