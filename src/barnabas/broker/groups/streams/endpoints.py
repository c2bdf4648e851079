"""What members of a streams group are told of each other's endpoints, for interactive queries (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.protocol.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.groups.streams.topology import StreamsTopology
    from barnabas.broker.groups.streams_group_member import StreamsGroupMember
    from barnabas.broker.groups.topic_image import TopicImage


def endpoints(
    members: Iterable[StreamsGroupMember], topology: StreamsTopology, image: TopicImage
) -> list[EndpointToPartitions]:
    """Return what can be asked at each endpoint: partitions of what the tasks of its members read.

    Threads of a process have one endpoint; clients would keep what the last of them says.
    """
    active: dict[tuple[str, int], dict[str, set[int]]] = {}
    standby: dict[tuple[str, int], dict[str, set[int]]] = {}
    for member in members:
        if member.user_endpoint is not None:
            _add(active.setdefault(member.user_endpoint, {}), member.assigned.active)
            _add(standby.setdefault(member.user_endpoint, {}), member.assigned.standby)
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(*endpoint),
            active_partitions=_partitions(tasks, topology, image),
            standby_partitions=_partitions(standby[endpoint], topology, image),
        )
        for endpoint, tasks in active.items()
    ]


def _add(there: dict[str, set[int]], tasks: Mapping[str, Iterable[int]]) -> None:
    for subtopology_id, numbers in tasks.items():
        there.setdefault(subtopology_id, set()).update(numbers)


def _partitions(
    tasks: Mapping[str, Iterable[int]], topology: StreamsTopology, image: TopicImage
) -> list[TopicPartition]:
    found = []
    for subtopology_id in sorted(tasks):
        part = topology.subtopologies.get(subtopology_id)
        for name in sorted(part.inputs) if part is not None else ():
            topic = image.topic(name)
            # Topics of a sub-topology may have fewer partitions than it has tasks.
            numbers = [one for one in sorted(tasks[subtopology_id]) if topic is not None and one < topic.partitions]
            if numbers:
                found.append(TopicPartition(topic=name, partitions=numbers))
    return found
