"""What is left in repartition topics that are read within the batch, from before a run: asked of the brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from barnabas.client.admin.partition_offsets import ListedOffset, OffsetSpec
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.offsets import Offsets
from barnabas.streams.spark.batch_stages import Remains
from barnabas.streams.spark.repartition_levels import Levels


class Cluster(Protocol):
    """What is asked of the brokers: some of AdminClient's methods."""

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, isolation_level: str = ...
    ) -> Mapping[TopicPartition, ListedOffset]:
        """Return offsets of partitions."""

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return what a group has committed."""

    def close(self) -> None:
        """Let go of the connections."""


def left_records(make_admin: Callable[[], Cluster], group: str, levels: Levels) -> Remains:
    """Return where the readers of an application begin of which no decision tells, and where the logs end.

    Its group has committed that, or else what there is is to be read. To be asked once no other driver decides any
    more: what is written later is not left from before.
    """
    places = [TopicPartition(topic, number) for topic in levels.inner for number in range(levels.partitions[topic])]
    if not places:
        return Remains({}, {}, are_read=True)
    admin = make_admin()
    try:
        committed = {each: at.offset for each, at in admin.list_consumer_group_offsets(group, places).items()}
        first, ends = (_listed(admin, places, spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
    finally:
        admin.close()
    return Remains({each: committed.get(each, first[each]) for each in places}, ends)


def _listed(admin: Cluster, places: Iterable[TopicPartition], spec: OffsetSpec) -> Offsets:
    return {each: found.offset for each, found in admin.list_offsets(dict.fromkeys(places, int(spec))).items()}
