"""How many partitions tasks and internal topics have, and the making of the topics.

Source: Kafka's `InternalTopicManager`, `RepartitionTopics`, `ChangelogTopics` and `CopartitionedTopicsEnforcer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.admin.new_topic import NewTopic
from barnabas.errors import KafkaTimeoutError, TopicExistsError, UnknownTopicOrPartitionError
from barnabas.streams.errors import MissingSourceTopicError, StreamsError, TopologyError
from barnabas.streams.topology.internal_topic_config import InternalTopic
from barnabas.streams.topology.processor_topology import TopicsInfo

#: Seconds between two looks at whether a topic that was created is there.
_LOOK = 0.1


class TopicCounts(NamedTuple):
    """How many partitions each topic has, and how many tasks each sub-topology."""

    partitions: dict[str, int]
    tasks: dict[int, int]


def counted(
    infos: Mapping[int, TopicsInfo], copartitioned: Iterable[set[str]], existing: Mapping[str, int]
) -> TopicCounts:
    """Return the numbers of partitions; `existing` are those of topics that are there.

    A repartition topic has as many as the user said, else as many as the topics that it must go together with, else as
    many as the most that its writers read. Raises MissingSourceTopicError, TopologyError.
    """
    repartition = {name: topic for info in infos.values() for name, topic in info.repartition_source_topics.items()}
    sources = {topic for info in infos.values() for topic in info.source_topics} - set(repartition)
    if missing := sorted(sources - set(existing)):
        raise MissingSourceTopicError(f"Missing source topics: {', '.join(missing)}; create them first")
    known = {topic: existing[topic] for topic in sources}
    known |= {name: topic.partitions for name, topic in repartition.items() if topic.partitions is not None}
    groups = [set(group) for group in copartitioned]
    while undecided := [name for name in repartition if name not in known]:
        before = len(known)
        for name in undecided:
            if (count := _count(name, infos, groups, known)) is not None:
                known[name] = count
        if len(known) == before:
            raise StreamsError(f"the number of partitions of {', '.join(sorted(undecided))} cannot be found out")
    for group in groups:
        _check_group({topic: known[topic] for topic in group if topic in known}, repartition)
    tasks = {number: max(known[topic] for topic in info.source_topics) for number, info in infos.items()}
    return TopicCounts(known, tasks)


def _count(name: str, infos: Mapping[int, TopicsInfo], groups: list[set[str]], known: Mapping[str, int]) -> int | None:
    together = {topic for group in groups if name in group for topic in group} - {name}
    if found := [known[topic] for topic in together if topic in known]:
        return max(found)
    writers = [info for info in infos.values() if name in info.sink_topics]
    upstream = {topic for info in writers for topic in info.source_topics} - {name}
    if any(topic not in known for topic in upstream) or not upstream:
        return None
    return max(known[topic] for topic in upstream)


def _check_group(counts: dict[str, int], repartition: Mapping[str, InternalTopic]) -> None:
    if len(set(counts.values())) <= 1:
        return
    listed = ", ".join(f"{topic}={count}" for topic, count in sorted(counts.items()))
    outside = any(topic not in repartition for topic in counts)
    what = "Topics not co-partitioned" if outside else "Following topics do not have the same number of partitions"
    raise TopologyError(f"{what}: [{{{listed}}}]")


def partition_counts(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic that exists."""
    names = sorted(topics)
    if not names:
        return {}
    found = admin.describe_topics(names, raise_errors=False)
    for error in found.errors.values():
        if not isinstance(error, UnknownTopicOrPartitionError):
            raise error
    return {str(name): len(topic.partitions) for name, topic in found.items()}


def create_internal_topics(
    admin: AdminClient, infos: Mapping[int, TopicsInfo], counts: TopicCounts, replication_factor: int
) -> list[str]:
    """Create the repartition and changelog topics that are missing; returns their names.

    Raises StreamsError for one that is there with another number of partitions.
    """
    wanted = _wanted(infos, counts)
    existing = partition_counts(admin, wanted)
    wrong = {name: count for name, count in existing.items() if count != wanted[name][1]}
    if wrong:
        listed = ", ".join(f"{name} has {count}, wanted {wanted[name][1]}" for name, count in sorted(wrong.items()))
        raise StreamsError(
            f"internal topics have another number of partitions than the application needs: {listed}. Its input topics "
            "have changed, or it was another topology; see `barnabas streams reset`"
        )
    new = [
        NewTopic(name, num_partitions=count, replication_factor=replication_factor, configs=topic.config)
        for name, (topic, count) in sorted(wanted.items())
        if name not in existing
    ]
    if new:
        found = admin.create_topics(new, raise_errors=False)
        for error in found.errors.values():
            if not isinstance(error, TopicExistsError):
                raise error
    return [topic.name for topic in new]


def _wanted(infos: Mapping[int, TopicsInfo], counts: TopicCounts) -> dict[str, tuple[InternalTopic, int]]:
    wanted: dict[str, tuple[InternalTopic, int]] = {}
    for number, info in infos.items():
        for name, topic in info.repartition_source_topics.items():
            wanted[name] = topic, counts.partitions[name]
        for name, topic in info.state_changelog_topics.items():
            if name not in info.source_topics:
                wanted[name] = topic, counts.tasks[number]
    return wanted


def await_internal_topics(
    ask: Callable[[Iterable[str]], Mapping[str, int]],
    infos: Mapping[int, TopicsInfo],
    counts: TopicCounts,
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when `ask(topics)`, the numbers of partitions that the brokers tell, has all internal topics.

    Raises KafkaTimeoutError, with the names of those that are missing, after so many seconds of waiting.
    """
    wanted, waited = _wanted(infos, counts), 0.0
    while missing := sorted(set(wanted) - set(ask(wanted))):
        if waited >= seconds:
            raise KafkaTimeoutError(
                f"Could not create topics within {seconds:g} seconds: {', '.join(missing)}. No broker tells of them: "
                "another application has deleted them, or the cluster is not available"
            )
        sleep(_LOOK)
        waited += _LOOK


def check_global_topics(topics: Iterable[str], existing: Mapping[str, int]) -> None:
    """Raise StreamsError for a topic of a global store that is not there."""
    if missing := sorted(set(topics) - set(existing)):
        raise StreamsError(
            f"There are no partitions available for topic {', '.join(missing)} when initializing global stores; create "
            "it first"
        )
