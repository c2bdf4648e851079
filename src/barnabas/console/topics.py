"""Topics: names first, then their sizes; one topic with its partitions; its settings with where each comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import ConfigEntry, ConfigResource, OffsetSpec
from barnabas.protocol.kafka_uuid import to_text
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import TopicDescription
    from barnabas.aio import AdminClient
    from barnabas.console.commands import Commands


class TopicNames(TypedDict):
    """All topics by name; `internal` are those of Kafka's own among them."""

    names: list[str]
    internal: list[str]
    command: str


class TopicSizes(TypedDict):
    """By topic: number of partitions, replicas of each, bytes of all replicas. `missing` are brokers that failed."""

    sizes: dict[str, tuple[int, int, int]]
    missing: list[int]
    command: str


class PartitionRow(TypedDict):
    """A partition: offsets are None where it has no leader, bytes (of the leader's log) where no broker told."""

    partition: int
    leader: int | None
    epoch: int
    replicas: list[int]
    isr: list[int]
    first: int | None
    end: int | None
    bytes: int | None


class Topic(TypedDict):
    """A topic, and the command lines that describe and change it."""

    topic: str
    id: str | None
    internal: bool
    partitions: list[PartitionRow]
    records: int
    bytes: int
    commands: dict[str, str]


class SettingSource(TypedDict):
    """One of the places that a setting may come from."""

    name: str
    value: str | None
    source: str


class SettingRow(TypedDict):
    """A setting: where its value comes from, what it means as the broker tells it, and what would hold without it."""

    name: str
    value: str | None
    source: str
    isDefault: bool
    readOnly: bool
    sensitive: bool
    documentation: str | None
    synonyms: list[SettingSource]


class Settings(TypedDict):
    """The settings of a topic or a broker."""

    settings: list[SettingRow]
    command: str


async def topic_names(admin: AdminClient, commands: Commands) -> TopicNames:
    """Return the names of all topics; one request."""
    listed = await admin.list_topics(include_internal=True)
    internal = [name for name, topic in listed.items() if topic.is_internal]
    return {"names": list(listed), "internal": internal, "command": commands.line("topic", "list")}


async def topic_sizes(admin: AdminClient, commands: Commands) -> TopicSizes:
    """Return the sizes of all topics; one request a broker."""
    cluster = await admin.describe_cluster()
    described = await admin.describe_log_dirs([node.id for node in cluster.nodes], raise_errors=False)
    replicas: dict[str, int] = {}
    numbers: dict[str, set[int]] = {}
    sizes: dict[str, int] = {}
    for directories in described.values():
        for directory in directories.values():
            for partition, replica in directory.replica_infos.items():
                if replica.is_future:
                    continue
                name = partition.topic
                replicas[name] = replicas.get(name, 0) + 1
                sizes[name] = sizes.get(name, 0) + replica.size
                numbers.setdefault(name, set()).add(partition.partition)
    return {
        "sizes": {name: (len(found), -(-replicas[name] // len(found)), sizes[name]) for name, found in numbers.items()},
        "missing": sorted(described.errors),
        "command": commands.line("log-dir"),
    }


async def topic(admin: AdminClient, name: str, commands: Commands) -> Topic:
    """Return one topic. Raises `UnknownTopicOrPartitionError`."""
    description = (await admin.describe_topics([name]))[name]
    (first, end), sizes = await asyncio.gather(offset_bounds(admin, description), _leader_sizes(admin, description))
    partitions: list[PartitionRow] = [
        {
            "partition": info.partition,
            "leader": info.leader.id if info.leader else None,
            "epoch": info.leader_epoch,
            "replicas": [node.id for node in info.replicas],
            "isr": [node.id for node in info.in_sync_replicas],
            "first": first.get(info.partition),
            "end": end.get(info.partition),
            "bytes": sizes.get(info.partition),
        }
        for info in description.partitions
    ]
    return {
        "topic": name,
        "id": None if description.topic_id is None else to_text(description.topic_id),
        "internal": description.is_internal,
        "partitions": partitions,
        "records": sum((row["end"] or 0) - (row["first"] or 0) for row in partitions),
        "bytes": sum(sizes.values()),
        "commands": {
            "describe": commands.line("topic", "describe", name),
            "settings": commands.line("config", "get", "topic", name, "--all"),
            "empty": commands.line("topic", "trim", name, "--before", "end"),
            "delete": commands.line("topic", "delete", name),
            "consume": commands.line("consume", name),
        },
    }


async def offset_bounds(
    admin: AdminClient, description: TopicDescription
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return the first and the end offset of the partitions that have a leader, by number."""
    led = [TopicPartition(description.name, p.partition) for p in description.partitions if p.leader is not None]
    first, end = await bounds(admin, led)
    return {p.partition: offset for p, offset in first.items()}, {p.partition: offset for p, offset in end.items()}


async def bounds(
    admin: AdminClient, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first and the end offsets of those partitions that are there."""
    if not partitions:
        return {}, {}
    first, end = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST), raise_errors=False),
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), raise_errors=False),
    )
    both = first.keys() & end.keys()
    return {p: first[p].offset for p in both}, {p: end[p].offset for p in both}


async def _leader_sizes(admin: AdminClient, description: TopicDescription) -> dict[int, int]:
    leaders = {p.partition: p.leader.id for p in description.partitions if p.leader is not None}
    if not leaders:
        return {}
    partitions = [TopicPartition(description.name, number) for number in leaders]
    described = await admin.describe_log_dirs(sorted(set(leaders.values())), partitions, raise_errors=False)
    return {
        partition.partition: replica.size
        for broker, directories in described.items()
        for directory in directories.values()
        for partition, replica in directory.replica_infos.items()
        if leaders.get(partition.partition) == broker and not replica.is_future
    }


async def settings_of(admin: AdminClient, resource: ConfigResource, command: str) -> Settings:
    """Return the settings of a topic or broker, by name. Values of secret ones are None, as the broker tells them."""
    described = await admin.describe_configs([resource], include_synonyms=True, include_documentation=True)
    rows = [_setting(entry) for _, entry in sorted(described[resource].items())]
    return {"settings": rows, "command": command}


def _setting(entry: ConfigEntry) -> SettingRow:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": entry.source.name,
        "isDefault": entry.is_default,
        "readOnly": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "documentation": entry.documentation,
        "synonyms": [
            {"name": s.name, "value": None if entry.is_sensitive else s.value, "source": s.source.name}
            for s in entry.synonyms
        ],
    }
