"""How far an application is, as its group's committed offsets tell others; and what of repartition topics is done with.

Spark's checkpoint is what counts for the query. The group is for everything else: consumer lag, an application of the
same name with a new checkpoint, Kafka Streams in Java that takes over. An offset is committed with the query's id as
its metadata, so who goes on without the checkpoint knows whose decisions may be ahead of it (`starting_offsets`).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOGGER = logging.getLogger("barnabas.streams")

#: What the metadata of committed offsets begins with; then comes the query's id.
METADATA = "barnabas-streams:"


class Cluster(Protocol):
    """What is asked of the brokers: some of AdminClient's methods."""

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> object:
        """Commit."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> object:
        """Delete."""

    def close(self) -> None:
        """Let go of the connections."""


class GroupOffsets:
    """Commits where a query stands, and deletes what it has read of repartition topics. Not for several threads.

    What fails is told once and tried again with the next batch. `purge_every` is in seconds; Kafka's
    `repartition.purge.interval.ms`. `make_admin` returns an AdminClient.
    """

    def __init__(
        self,
        make_admin: Callable[[], Cluster],
        group: str,
        repartition_topics: frozenset[str],
        purge_every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_admin = make_admin
        self._admin: Cluster | None = None
        self._group = group
        self._repartition_topics = repartition_topics
        self._purge_every, self._clock = purge_every, clock
        self._purged_at = clock()
        self._committed: Offsets = {}
        self._purged: Offsets = {}
        self._problem = ""

    def follow(self, query: StreamingQuery) -> None:
        """Commit where the query stands by its last progress, and delete what is due."""
        progress = query.lastProgress
        if progress is not None:
            self.commit(from_json(json.loads(progress.sources[0].endOffset)), str(query.id))
        if self._clock() - self._purged_at >= self._purge_every:
            self._purged_at = self._clock()
            self._purge()

    def commit(self, offsets: Offsets, query: str) -> None:
        """Commit offsets unless they are committed already."""
        if offsets == self._committed:
            return
        metadata = f"{METADATA}{query}"
        wanted = {partition: OffsetAndMetadata(offset, metadata=metadata) for partition, offset in offsets.items()}
        if self._try("commit offsets", lambda admin: admin.alter_consumer_group_offsets(self._group, wanted)):
            self._committed = offsets

    def commit_decided(self, decided: Callable[[str], Offsets], query: str) -> None:
        """Commit up to where the last decision of a query that has ended goes: its progress may not tell of that.

        `decided` says so for the query's id. What fails is told; the next run of the application finds it out itself.
        """
        try:
            ends = decided(query)
        except KafkaError as error:
            LOGGER.warning("%s: could not read the decisions of the query %s: %s", self._group, query, error)
            return
        further = {each: end for each, end in ends.items() if end > self._committed.get(each, -1)}
        if further:
            self.commit(self._committed | further, query)

    def _purge(self) -> None:
        """Delete records before the committed offsets: a batch that is repeated begins there or later."""
        before = {
            partition: offset
            for partition, offset in self._committed.items()
            if partition.topic in self._repartition_topics and offset > self._purged.get(partition, 0)
        }
        if before and self._try("delete records of repartition topics", lambda admin: admin.delete_records(before)):
            self._purged |= before

    def _try(self, what: str, ask: Callable[[Cluster], object]) -> bool:
        try:
            if self._admin is None:
                self._admin = self._make_admin()
            ask(self._admin)
        except Exception as error:  # noqa: BLE001 - the query goes on without it
            problem = f"could not {what}: {error!r}"
            if problem != self._problem:
                LOGGER.warning("%s: %s; it is tried again", self._group, problem)
            self._problem = problem
            return False
        self._problem = ""
        return True

    def close(self) -> None:
        """Let go of the connections."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def admin_of(settings: Mapping[str, str]) -> Callable[[], AdminClient]:
    """Return what makes an admin client of these settings when it is first needed."""
    return lambda: AdminClient(settings)
