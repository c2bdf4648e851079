"""Where an application begins that has no checkpoint: its group's committed offsets, as Kafka Streams does.

A query of ours commits after its batches, so one that died may have decided more than its group knows: the decision log
says where its tasks stand, exactly. What is missing is settled by `auto.offset.reset`. Either is committed before the
query starts, so that a first batch that is repeated begins at the same place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.consumer.auto_offset_reset_strategy import (
    EARLIEST,
    LATEST_TIMESTAMP,
    NONE,
    AutoOffsetResetStrategy,
)
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import NoOffsetForPartitionError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import LOST
from barnabas.spark.exactly_once.decision_log import DecisionReader
from barnabas.spark.exactly_once.driver_steps import SinkPlace, repair
from barnabas.spark.offsets import Offsets
from barnabas.streams.durations import as_ms
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.group_offsets import METADATA
from barnabas.streams.spark.read_positions import positions_of
from barnabas.streams.topology.nodes import ProcessorTopology, SourceNode


def reset_policies(subtopologies: Iterable[ProcessorTopology], default: str) -> dict[str, AutoOffsetResetStrategy]:
    """Return the policy of each topic that is read. Raises ConfigError for one that is not known."""
    found: dict[str, AutoOffsetResetStrategy] = {}
    for topology in subtopologies:
        for topic, name in topology.source_by_topic.items():
            node = topology.nodes[name]
            given = node.auto_offset_reset if isinstance(node, SourceNode) else None
            policy = _policy(default if given is None else given)
            found[topic] = EARLIEST if topic in topology.repartition_topics else policy
    return found


def _policy(given: Any) -> AutoOffsetResetStrategy:
    if isinstance(given, AutoOffsetResetStrategy):
        return given
    if isinstance(given, timedelta):
        return AutoOffsetResetStrategy("by_duration", as_ms(given, "auto_offset_reset"))
    return AutoOffsetResetStrategy.parse(given)


def commit_missing(
    admin: AdminClient,
    group: str,
    counts: Mapping[str, int],
    policies: Mapping[str, AutoOffsetResetStrategy],
    decided: Callable[[str], Offsets],
    now_ms: int,
) -> Offsets:
    """Commit an offset for each partition that has none, or not all that was decided; returns those.

    `decided` says for a query's id up to where its last decision goes, `now_ms` from when a duration goes back. Raises
    NoOffsetForPartitionError.
    """
    found, committed = _settled(admin, group, counts, policies, now_ms)
    found |= _further(committed, decided)
    if found:
        admin.alter_consumer_group_offsets(group, found)
    return found


def commit_new(
    admin: AdminClient,
    group: str,
    counts: Mapping[str, int],
    policies: Mapping[str, AutoOffsetResetStrategy],
    now_ms: int,
) -> None:
    """Commit an offset for each partition that has none, of topics that a query with a checkpoint has not read before.

    Raises NoOffsetForPartitionError.
    """
    if policies and (found := _settled(admin, group, counts, policies, now_ms)[0]):
        admin.alter_consumer_group_offsets(group, found)


def stands(admin: AdminClient, group: str, decided: Callable[[str], Offsets]) -> Offsets:
    """Return up to where an application has read its topics, by what its group and its decisions tell."""
    committed = admin.list_consumer_group_offsets(group)
    return {**{each: at.offset for each, at in committed.items()}, **_further(committed, decided)}


def _settled(
    admin: AdminClient,
    group: str,
    counts: Mapping[str, int],
    policies: Mapping[str, AutoOffsetResetStrategy],
    now_ms: int,
) -> tuple[Offsets, Mapping[TopicPartition, OffsetAndMetadata]]:
    """Return where partitions begin for which nothing is committed, as their policies say; and what is committed."""
    partitions = [TopicPartition(topic, number) for topic in policies for number in range(counts[topic])]
    committed = admin.list_consumer_group_offsets(group, partitions)
    missing = [partition for partition in partitions if partition not in committed]
    if without := sorted(str(partition) for partition in missing if policies[partition.topic] == NONE):
        raise NoOffsetForPartitionError(
            f"group {group} has committed no offset for {', '.join(without)}, and auto.offset.reset is none"
        )
    found = _listed(admin, {partition: policies[partition.topic].timestamp(now_ms) for partition in missing})
    # Nothing is as young as the duration says: what comes next is, as in Kafka.
    found |= _listed(admin, {partition: LATEST_TIMESTAMP for partition, offset in found.items() if offset < 0})
    return found, committed


def _listed(admin: AdminClient, specs: Mapping[TopicPartition, int]) -> Offsets:
    return {partition: listed.offset for partition, listed in admin.list_offsets(specs).items()} if specs else {}


def _further(committed: Mapping[TopicPartition, OffsetAndMetadata], decided: Callable[[str], Offsets]) -> Offsets:
    """Return where a query of ours has decided more than it has committed."""
    by_query: dict[str, Offsets] = {}
    for partition, at in committed.items():
        if at.metadata.startswith(METADATA):
            by_query.setdefault(at.metadata.removeprefix(METADATA), {})[partition] = at.offset
    found: Offsets = {}
    for query, offsets in by_query.items():
        ends = decided(query)
        found |= {each: ends[each] for each, offset in offsets.items() if ends.get(each, offset) > offset}
    return found


def decided_offsets(place: SinkPlace, query: str) -> Offsets:
    """Return up to where the last decision of a query goes, once it is made true; nothing if nothing is known of it.

    Fences a driver of that query: two of an application would both write. Raises StreamsError for a query that has lost
    rows without a decision about them.
    """
    with contextlib.closing(DecisionReader(dict(place.client), place.topic)) as reader:
        if reader.read(query) is None:
            return {}
    decision = repair(place, query, None)
    if decision is not None and decision.state == LOST:
        raise StreamsError(
            f"the query {query} of this application has lost rows of its batch {decision.batch}: settle that first, "
            "see `barnabas spark repair`"
        )
    return {} if decision is None else positions_of(decision)
