"""Which brokers hold which partitions: as JSON of kafka-reassign-partitions, and spread over brokers anew."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.admin.log_dirs import TopicPartitionReplica
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

#: Brokers of each partition, the preferred leader first.
Assignment = dict[TopicPartition, list[int]]
_VERSION = 1
_ANY = "any"


class Plan(NamedTuple):
    """What a document asks for: brokers of partitions, and directories of those replicas for which it names one."""

    assignment: Assignment
    directories: dict[TopicPartitionReplica, str]


# -- JSON ------------------------------------------------------------------------------------------------------------


def to_document(
    assignment: Mapping[TopicPartition, list[int]], directories: Mapping[TopicPartitionReplica, str]
) -> dict[str, Any]:
    """Return the document that kafka-reassign-partitions takes and prints; `log_dirs` only where one is named."""
    entries: list[dict[str, Any]] = []
    for key, replicas in sorted(assignment.items()):
        paths = [directories.get(TopicPartitionReplica(*key, broker), _ANY) for broker in replicas]
        named = {"log_dirs": paths} if set(paths) != {_ANY} else {}
        entries.append({"topic": key.topic, "partition": key.partition, "replicas": replicas, **named})
    return {"version": _VERSION, "partitions": entries}


def from_text(text: str, source: str) -> Plan:
    """Read the JSON of kafka-reassign-partitions. Raises `IllegalArgumentError`, which names `source` and the place."""
    import json

    try:
        document = json.loads(text)
    except ValueError as problem:
        raise IllegalArgumentError(f"{source} is no JSON: {problem}") from None
    entries = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise IllegalArgumentError(f"{source}: it must be an object with a list `partitions`, not empty")
    if document.get("version", _VERSION) != _VERSION:
        raise IllegalArgumentError(f"{source}: version {document['version']!r} is not known; it must be {_VERSION}")
    found = Plan({}, {})
    for number, entry in enumerate(entries):
        key, replicas, directories = _entry(entry, f"{source}: partitions[{number}]")
        if key in found.assignment:
            raise IllegalArgumentError(f"{source}: {key} is there twice")
        found.assignment[key] = replicas
        named = zip(replicas, directories, strict=True)
        found.directories.update((TopicPartitionReplica(*key, id), path) for id, path in named if path != _ANY)
    return found


def _entry(entry: Any, place: str) -> tuple[TopicPartition, list[int], list[str]]:
    fields = entry if isinstance(entry, dict) else {}
    topic, partition, replicas = fields.get("topic"), fields.get("partition"), fields.get("replicas")
    if not isinstance(topic, str) or type(partition) is not int or partition < 0 or not isinstance(replicas, list):
        raise IllegalArgumentError(f"{place}: it must have a `topic`, a `partition` and a list of `replicas`")
    if not replicas or not all(map(_is_number, replicas)) or len(set(replicas)) < len(replicas):
        raise IllegalArgumentError(f"{place}: `replicas` must be ids of brokers, one at least and each once")
    directories = fields.get("log_dirs") or [_ANY] * len(replicas)
    if not isinstance(directories, list) or len(directories) != len(replicas) or not all(map(_is_path, directories)):
        raise IllegalArgumentError(f"{place}: `log_dirs` must have an absolute path, or `any`, for each of `replicas`")
    return TopicPartition(topic, partition), replicas, directories


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and (value == _ANY or value.startswith("/"))


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def broker_ids(text: str) -> list[int]:
    """Return the ids in `1,2,3`. Raises `argparse.ArgumentTypeError`."""
    from argparse import ArgumentTypeError

    ids = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in ids) or len(set(ids)) < len(ids):
        raise ArgumentTypeError(f"{text!r} must be ids of brokers, each once, such as 1,2,3")
    return [int(part) for part in ids]


# -- spreading -------------------------------------------------------------------------------------------------------


def spread(
    current: Mapping[TopicPartition, list[int]],
    brokers: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> Assignment:
    """Return the partitions on `brokers` (with their racks), as evenly as possible and moving few replicas.

    A replica on one of the brokers stays there unless that broker has two replicas more than another. New ones go to
    racks that the partition is not in yet, where there are any. kafka-reassign-partitions places all replicas anew.
    Raises `IllegalArgumentError` for fewer brokers than replicas.
    """
    found: Assignment = {}
    load = Counter(dict.fromkeys(brokers, 0))
    for key, replicas in current.items():
        wanted = replication_factor or len(replicas)
        if wanted > len(brokers):
            raise IllegalArgumentError(f"{key} has {wanted} replicas, and there are {len(brokers)} brokers for them")
        found[key] = [broker for broker in replicas if broker in brokers][:wanted]
        load.update(found[key])
    for key, replicas in found.items():
        for _ in range((replication_factor or len(current[key])) - len(replicas)):
            racks = {brokers[broker] for broker in replicas}
            free = [broker for broker in brokers if broker not in replicas]
            chosen = min(free, key=lambda broker: (brokers[broker] in racks, load[broker], broker))
            replicas.append(chosen)
            load[chosen] += 1
    _level_replicas(found, brokers, load)
    _level_leaders(found.values())
    return found


def _level_replicas(found: Assignment, brokers: Mapping[int, str | None], load: Counter[int]) -> None:
    """Move replicas from loaded brokers to others until none has two more than another that could take one."""
    while True:
        by_load = sorted(brokers, key=lambda broker: (load[broker], broker))
        pairs = ((high, low) for low in by_load for high in reversed(by_load) if load[high] > load[low] + 1)
        step = next(
            (
                (replicas, high, low)
                for high, low in pairs
                for replicas in found.values()
                if high in replicas and low not in replicas and _keeps_racks(replicas, high, low, brokers)
            ),
            None,
        )
        if step is None:
            return
        replicas, high, low = step
        replicas[replicas.index(high)] = low
        load[high] -= 1
        load[low] += 1


def _keeps_racks(replicas: list[int], high: int, low: int, brokers: Mapping[int, str | None]) -> bool:
    others = {brokers[broker] for broker in replicas if broker != high}
    return brokers[low] not in others or brokers[high] in others


def _level_leaders(assignments: Collection[list[int]]) -> None:
    """Let another replica lead where the leader leads two partitions more; copies nothing."""
    leads: Counter[int] = Counter(replicas[0] for replicas in assignments)
    steps: Iterable[tuple[int, list[int]]]
    while steps := [
        (place, replicas)
        for replicas in assignments
        for place, broker in enumerate(replicas)
        if leads[replicas[0]] > leads[broker] + 1
    ]:
        place, replicas = steps[0]
        leads[replicas[0]] -= 1
        leads[replicas[place]] += 1
        replicas.insert(0, replicas.pop(place))
