"""Where an application begins that has no checkpoint: its group's committed offsets, as Kafka Streams does.

What is missing is settled by `auto.offset.reset` and committed before the query starts, so that a first batch that is
repeated begins at the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.offsets import OffsetSpec
from barnabas.errors import NoOffsetForPartitionError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams.errors import StreamsError
from barnabas.streams.topology.nodes import ProcessorTopology, SourceNode

_SPECS = {"earliest": int(OffsetSpec.EARLIEST), "latest": int(OffsetSpec.LATEST)}


def reset_policies(subtopologies: Iterable[ProcessorTopology], default: str) -> dict[str, str]:
    """Return the policy of each topic that is read. Raises StreamsError for one that is not known."""
    found: dict[str, str] = {}
    for topology in subtopologies:
        for topic, name in topology.source_by_topic.items():
            node = topology.nodes[name]
            given = node.auto_offset_reset if isinstance(node, SourceNode) else None
            policy = default if given is None else given
            if policy not in (*_SPECS, "none"):
                raise StreamsError(
                    f"auto.offset.reset={policy!r} of {name} does not run on Spark: earliest, latest, none"
                )
            found[topic] = "earliest" if topic in topology.repartition_topics else str(policy)
    return found


def settle(
    admin: AdminClient, group: str, counts: Mapping[str, int], policies: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Commit an offset for each partition that has none; returns those. Raises NoOffsetForPartitionError."""
    partitions = [TopicPartition(topic, number) for topic in policies for number in range(counts[topic])]
    committed = admin.list_consumer_group_offsets(group, partitions)
    missing = [partition for partition in partitions if partition not in committed]
    if not missing:
        return {}
    if without := sorted(str(partition) for partition in missing if policies[partition.topic] == "none"):
        raise NoOffsetForPartitionError(
            f"group {group} has committed no offset for {', '.join(without)}, and auto.offset.reset is none"
        )
    specs = {partition: _SPECS[policies[partition.topic]] for partition in missing}
    found = {partition: listed.offset for partition, listed in admin.list_offsets(specs).items()}
    admin.alter_consumer_group_offsets(group, found)
    return found
