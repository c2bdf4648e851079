"""Reads topics from their beginning up to a fixed offset: changelogs, to restore a store, and global topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.offsets import OffsetSpec
from barnabas.client.consumer.consumer import Consumer
from barnabas.config.definitions import known_to
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams.state.store import ChangelogRecord, StateStore

LOGGER = logging.getLogger("barnabas.streams")

#: Seconds without progress before a restoration gives up: an open transaction keeps readers from what lies behind it.
STALLED = 120.0

_POLL = 0.2

#: Seconds between two lines in the log about a restoration.
_TOLD_EVERY = 5.0


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
        if self._admin is None:
            self._admin = AdminClient(known_to("admin", self._client))
        spec = dict.fromkeys(partitions, int(OffsetSpec.LATEST))
        found = self._admin.list_offsets(spec, isolation_level="read_committed")
        return {partition: found[partition].offset for partition in spec}

    def restore(self, store: StateStore, partition: TopicPartition, end: int, start: int | None = None) -> None:
        """Bring the changes of a changelog from `start` (None: the first) to `end` into a store. Raises as `read`."""
        for records in self.read(partition, end, start):
            store.restore(
                [ChangelogRecord(each.key, each.value, each.timestamp, list(each.headers)) for each in records]
            )

    def read(self, partition: TopicPartition, end: int, start: int | None = None) -> Iterator[list[Any]]:
        """Yield the records from `start` (None: the first) to `end`, which may not be stable yet.

        Raises KafkaTimeoutError after two minutes without progress.
        """
        consumer = self._positioned(partition, start)
        begin = position = consumer.position(partition)
        told = moved = self._clock()
        while position < end:
            records = [record for record in consumer.poll(timeout=_POLL) if record.offset < end]
            if records:
                yield records
            before, position = position, consumer.position(partition)
            now = self._clock()
            if position > before:
                moved = now
            if now - moved > STALLED:
                raise KafkaTimeoutError(
                    f"{partition} could not be read from offset {position} to {end} for {STALLED:.0f} s: does the "
                    "topic exist, has it a leader, and is a transaction open in it?"
                )
            if now - told > _TOLD_EVERY:
                told = now
                LOGGER.info("Restoring from %s: at offset %d of %d, begun at %d", partition, position, end, begin)

    def _positioned(self, partition: TopicPartition, start: int | None) -> Consumer:
        if self._consumer is None:
            settings = {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "fetch.max.wait.ms": "10"}
            fixed = {"isolation.level": "read_committed", "allow.auto.create.topics": "false"}
            self._consumer = Consumer({**settings, **self._client, **fixed})
        self._consumer.assign([partition])
        if start is None:
            self._consumer.seek_to_beginning(partition)
        else:
            self._consumer.seek(partition, start)
        return self._consumer

    def close(self) -> None:
        """Let go of the connections."""
        if self._consumer is not None:
            self._consumer.close()
        if self._admin is not None:
            self._admin.close()
