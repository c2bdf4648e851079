"""How far an application is, as its group's committed offsets tell others; and what of repartition topics is done with.

Spark's checkpoint is what counts for the query. The group is for everything else: consumer lag, an application of the
same name with a new checkpoint, Kafka Streams in Java that takes over. An offset is committed with the query's id as
its metadata, so who goes on without the checkpoint knows whose decisions may be ahead of it (`starting_offsets`).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.partition_offsets import ListedOffset, OffsetSpec
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOGGER = logging.getLogger("barnabas.streams")

#: What the metadata of committed offsets begins with; then comes the query's id.
METADATA = "barnabas-streams:"


#: In so many turns it is looked whether the markers of a batch have come, and from then on in each tenth.
_LOOKS = 20
#: Once they have, in each of so many: there are late ones, of transactions that wrote nothing there.
_ONCE_THERE = 100


class Standing(NamedTuple):
    """Up to where the tasks have read by the last batch; `turns` have begun or ended, so an even number is a rest.

    `whole` are the topics of which nothing waits for the next batch, as `run_protocol.Run.whole` says.
    """

    read: Offsets
    turns: int
    whole: frozenset[str]


_UNKNOWN = Standing({}, 1, frozenset())


class Cluster(Protocol):
    """What is asked of the brokers: some of AdminClient's methods."""

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> object:
        """Commit."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> object:
        """Delete."""

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, isolation_level: str = ...
    ) -> Mapping[TopicPartition, ListedOffset]:
        """Return offsets of partitions."""

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
        self._standing = _UNKNOWN
        self._read: Offsets = {}
        self._behind_markers: Offsets = {}
        self._looks = 0

    def follow(self, query: StreamingQuery, standing: Callable[[], Standing] = lambda: _UNKNOWN) -> None:
        """Commit where the query stands by its last progress, and delete what is due.

        Of repartition topics `standing` tells more, and all of those that are read within the batch.
        """
        progress = query.lastProgress
        if progress is not None:
            self._note_standing(standing)
            planned = from_json(json.loads(progress.sources[0].endOffset))
            for known in (self._read, self._behind_markers):
                planned |= {each: end for each, end in known.items() if end > planned.get(each, 0)}
            self.commit(planned, str(query.id))
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

    def _note_standing(self, standing: Callable[[], Standing]) -> None:
        """Know what was read of repartition topics; once nothing is computed, as far as the markers behind it.

        Kafka's tools would tell of a lag for ever. What lies behind the records of decided batches is markers, and what
        was aborted, as long as no other batch has begun: of topics that are read within the batch, once what was left
        there is read. Elsewhere the next batch may have to read it, or who takes over. Markers may come late.
        """
        now = standing()
        if now != self._standing:
            self._standing, self._looks = now, 0
            self._read = {each: end for each, end in now.read.items() if each.topic in self._repartition_topics}
            self._behind_markers = {}
        wanted = [each for each in self._read if each.topic in now.whole]
        if now.turns % 2 or not wanted:
            return
        self._looks += 1
        every = _ONCE_THERE if self._behind_markers else 10 if self._looks > _LOOKS else 1
        if self._looks % every:
            return
        found: Offsets = {}
        if self._try("look where repartition topics end", lambda admin: found.update(_ends(admin, wanted))):
            self._behind_markers = (found or self._behind_markers) if standing() == now else {}

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
            partition: min(offset, self._read.get(partition, offset))  # a reader within the batch begins there
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


def _ends(admin: Cluster, partitions: Iterable[TopicPartition]) -> Offsets:
    """Return where partitions end, nothing as long as something is open there."""
    wanted = dict.fromkeys(partitions, int(OffsetSpec.LATEST))
    stable, ends = (
        {each: found.offset for each, found in admin.list_offsets(wanted, isolation_level=level).items()}
        for level in ("read_committed", "read_uncommitted")
    )
    return ends if stable == ends else {}


def admin_of(settings: Mapping[str, str]) -> Callable[[], AdminClient]:
    """Return what makes an admin client of these settings when it is first needed."""
    return lambda: AdminClient(settings)
