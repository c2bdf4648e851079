"""Reads topics from their beginning up to a fixed offset: changelogs, to restore a store, and global topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import cast

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.consumer_record import ConsumerRecord
from barnabas.config.config_def import known_to
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.store import StateStore

LOGGER = logging.getLogger("barnabas.streams")

#: Seconds without progress before a restoration gives up: an open transaction keeps readers from what lies behind it.
STALLED = 120.0

_POLL = 0.2

#: Seconds between two lines in the log about a restoration.
_TOLD_EVERY = 2.0

_SETTINGS = {
    "enable.auto.commit": "false",
    "fetch.max.wait.ms": "10",
    "max.partition.fetch.bytes": str(4 << 20),
    "max.poll.records": "10000",
}
_FIXED = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "allow.auto.create.topics": "false"}


class ChangelogReader:
    """Reads committed records of one partition after the other. Not for several threads."""

    def __init__(self, client: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        """`client` are settings of a consumer."""
        self._client = dict(client)
        self._clock = clock
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None

    def stable_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return up to where each partition is stable now."""
        return self._listed(partitions, OffsetSpec.LATEST)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has."""
        return self._listed(partitions, OffsetSpec.EARLIEST)

    def _listed(self, partitions: Iterable[TopicPartition], which: OffsetSpec) -> dict[TopicPartition, int]:
        spec = dict.fromkeys(partitions, int(which))
        found = self._admin_client().list_offsets(spec, isolation_level="read_committed")
        return {partition: found[partition].offset for partition in spec}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the id of each topic, in hexadecimal; a topic that was made anew has another one."""
        found = self._admin_client().describe_topics(sorted(topics))
        return {str(name): (topic.topic_id or b"").hex() for name, topic in found.items()}

    def restore(
        self,
        store: StateStore,
        partition: TopicPartition,
        end: int,
        start: int | None = None,
        restored: Callable[[int, int], None] = lambda position, records: None,
    ) -> None:
        """Bring the changes of a changelog from `start` (None: the first) to `end` into a store. Raises as `read`.

        After each piece `restored` is told up to where the store has it, and of how many records. Records without a key
        are passed over, as Kafka does.
        """
        for records, position in self.read(partition, end, start):
            keyed = [record for record in records if record.key is not None]
            if len(keyed) < len(records):
                LOGGER.warning("%s has %d records without a key before offset %d; they are skipped",
                               partition, len(records) - len(keyed), position)  # fmt: skip
            store.restore(cast("list[ChangelogRecord]", keyed))  # they have its fields
            restored(position, len(keyed))

    def read(
        self, partition: TopicPartition, end: int, start: int | None = None
    ) -> Iterator[tuple[list[ConsumerRecord[bytes, bytes]], int]]:
        """Yield records from `start` (None: the first) to `end`, which may not be stable yet, and up to where they go.

        Where the start is gone it begins at the first offset. Raises KafkaTimeoutError after two minutes without
        progress.
        """
        consumer = self._positioned(partition, start)
        progress = _Progress(partition, consumer.position(partition), end, self._clock)
        while progress.position < end:
            polled = consumer.poll(timeout=_POLL)
            progress.moved_to(min(consumer.position(partition), end))
            records = list(polled)
            if records and records[-1].offset >= end:
                records = [record for record in records if record.offset < end]
            if records:
                yield records, progress.position
        progress.ended()

    def _positioned(self, partition: TopicPartition, start: int | None) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer({**_SETTINGS, **self._client, **_FIXED})
        self._consumer.assign([partition])
        if start is None:
            self._consumer.seek_to_beginning(partition)
        else:
            self._consumer.seek(partition, start)
        return self._consumer

    def _admin_client(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(known_to("admin", self._client))
        return self._admin

    def close(self) -> None:
        """Let go of the connections."""
        if self._consumer is not None:
            self._consumer.close()
        if self._admin is not None:
            self._admin.close()


class _Progress:
    """How far a reader has come, and what the log tells of it."""

    def __init__(self, partition: TopicPartition, begin: int, end: int, clock: Callable[[], float]) -> None:
        self.position = begin
        self._partition, self._begin, self._end, self._clock = partition, begin, end, clock
        self._began = self._told = self._moved = clock()

    def moved_to(self, position: int) -> None:
        """Take the position. Raises KafkaTimeoutError when it has been the same for too long."""
        before, self.position, now = self.position, position, self._clock()
        if position > before:
            self._moved = now
        if now - self._moved > STALLED:
            raise KafkaTimeoutError(
                f"{self._partition} could not be read from offset {position} to {self._end} for {STALLED:.0f} s: does "
                "the topic exist, has it a leader, and is a transaction open in it?"
            )
        if now - self._told > _TOLD_EVERY and position < self._end:
            self._told = now
            rate = (position - self._begin) / (now - self._began)
            LOGGER.info(
                "Restoring from %s: at offset %d of %d (%.0f%%), %.0f offsets/s, %.0f s left", self._partition,
                position, self._end, 100 * (position - self._begin) / (self._end - self._begin), rate,
                (self._end - position) / rate if rate else inf,
            )  # fmt: skip

    def ended(self) -> None:
        """Tell how long it took, if it was told that it goes on."""
        if self._told > self._began:
            took = self._clock() - self._began
            LOGGER.info("Restored %s from offset %d to %d in %.1f s", self._partition, self._begin, self._end, took)
