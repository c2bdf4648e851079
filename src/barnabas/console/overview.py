"""The overview: is the cluster well, and if not, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypedDict

from barnabas.console.commands import Commands
from barnabas.console.lag_clock import DelayRow, delay_row
from barnabas.console.sampler import Disk, Point, Sample

MOST_NAMED = 20
MOST_LAGGING = 5
#: A directory with less than this share free is a problem.
LITTLE_SPACE = 0.1


class Problem(TypedDict):
    """Something that is wrong: `text` is a key of the texts, `values` what stands in it, `command` what shows more."""

    text: str
    values: dict[str, str | int]
    subjects: list[str]
    command: str


class BrokerRow(TypedDict):
    """A broker: how many partitions it leads, how many it keeps, and of how many it is not in sync."""

    id: int
    host: str
    port: int
    rack: str | None
    isController: bool
    isFenced: bool
    leads: int
    replicas: int
    outOfSync: int


class DiskRow(TypedDict):
    """A log directory; bytes, -1 where not known."""

    broker: int
    path: str
    used: int
    total: int
    usable: int
    error: str | None


class LagRow(TypedDict):
    """A group that lags, how long its oldest record waits, and by how many records it lagged a minute ago."""

    group: str
    lag: int
    delay: DelayRow | None
    before: int | None


class Overview(TypedDict):
    """What the first page shows; `history` has time (epoch ms) and records a second."""

    at: int
    took: float
    clusterId: str | None
    controller: int | None
    controllerEpoch: int | None
    brokers: list[BrokerRow]
    topics: int
    partitions: int
    groups: int
    problems: list[Problem]
    rate: float
    history: list[tuple[int, float]]
    lagging: list[LagRow]
    disks: list[DiskRow]
    command: str


def overview(sample: Sample, points: Iterable[Point], commands: Commands) -> Overview:
    """Return the first page of a sample."""
    remembered = list(points)
    return {
        "at": sample.at_ms,
        "took": round(sample.took, 3),
        "clusterId": sample.cluster.cluster_id,
        "controller": sample.controller.id,
        "controllerEpoch": sample.controller.epoch,
        "brokers": _brokers(sample),
        "topics": sum(not topic.is_internal for topic in sample.topics.values()),
        "partitions": sum(len(topic.partitions) for topic in sample.topics.values()),
        "groups": len(sample.groups),
        "problems": list(problems(sample, commands)),
        "rate": sum(sample.rates.values()),
        # The first point of all knows no rate.
        "history": [(point.at_ms, round(point.rate, 1)) for point in remembered[1:]],
        "lagging": _lagging(sample, remembered),
        "disks": [_disk(disk) for disk in sample.disks],
        "command": commands.line("cluster"),
    }


def rates(sample: Sample, points: Iterable[Point]) -> dict[str, float]:
    """Return the records a second of topics that get any."""
    return {topic: round(rate, 1) for topic, rate in sample.rates.items()}


def _disk(disk: Disk) -> DiskRow:
    return {
        "broker": disk.broker,
        "path": disk.path,
        "used": disk.used,
        "total": disk.total,
        "usable": disk.usable,
        "error": disk.error,
    }


def _brokers(sample: Sample) -> list[BrokerRow]:
    leads: dict[int, int] = {}
    replicas: dict[int, int] = {}
    lacking: dict[int, int] = {}
    for topic in sample.topics.values():
        for partition in topic.partitions:
            if partition.leader is not None:
                leads[partition.leader.id] = leads.get(partition.leader.id, 0) + 1
            in_sync = {node.id for node in partition.in_sync_replicas}
            for node in partition.replicas:
                replicas[node.id] = replicas.get(node.id, 0) + 1
                lacking[node.id] = lacking.get(node.id, 0) + (node.id not in in_sync)
    return [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "isController": node.id == sample.controller.id,
            "isFenced": node.id in sample.cluster.fenced,
            "leads": leads.get(node.id, 0),
            "replicas": replicas.get(node.id, 0),
            "outOfSync": lacking.get(node.id, 0),
        }
        for node in sorted(sample.cluster.nodes)
    ]


def problems(sample: Sample, commands: Commands) -> Iterator[Problem]:
    """Yield what is wrong, the worst first."""
    offline, under = [], []
    for name, topic in sample.topics.items():
        for partition in topic.partitions:
            label = f"{name}-{partition.partition}"
            if partition.leader is None:
                offline.append(label)
            elif len(partition.in_sync_replicas) < len(partition.replicas):
                under.append(label)
    if offline:
        yield _problem("problem.offline", offline, commands.line("topic", "describe", _topic_of(offline[0])))
    if sample.controller.is_missing:
        yield _problem("problem.noController", [], commands.line("cluster"))
    if under:
        yield _problem("problem.underReplicated", under, commands.line("topic", "describe", _topic_of(under[0])))
    failed = [f"{disk.broker}:{disk.path}" for disk in sample.disks if disk.error is not None]
    if failed:
        yield _problem("problem.directoryFailed", failed, commands.line("log-dir"))
    full = [f"{disk.broker}:{disk.path}" for disk in sample.disks if _is_full(disk)]
    if full:
        yield _problem("problem.littleSpace", full, commands.line("log-dir"))


def _problem(text: str, subjects: list[str], command: str) -> Problem:
    return {"text": text, "values": {"n": len(subjects)}, "subjects": subjects[:MOST_NAMED], "command": command}


def _topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]


def _is_full(disk: Disk) -> bool:
    return disk.total > 0 and 0 <= disk.usable < disk.total * LITTLE_SPACE


def _lagging(sample: Sample, points: list[Point]) -> list[LagRow]:
    minute_ago = next((point for point in points if point.at_ms >= sample.at_ms - 60_000), None)
    worst = sorted(sample.groups.items(), key=lambda found: -found[1].lag)[:MOST_LAGGING]
    return [
        {
            "group": name,
            "lag": group.lag,
            "delay": delay_row(group.delay),
            "before": minute_ago.lags.get(name) if minute_ago else None,
        }
        for name, group in worst
        if group.lag > 0
    ]
