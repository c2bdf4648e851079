"""What `barnabas top` shows of a sample: tables, the same for the screen and for `--once`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.console.commands import Commands
from barnabas.console.overview import overview, problems
from barnabas.console.sampler import GroupSample, Sample
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.console.transactions import TransactionRow

Row = dict[str, Any]


class More(NamedTuple):
    """What a sample does not have, and is asked for only where it is shown: see `top_more`."""

    transactions: Sequence[TransactionRow] = ()
    clients: Sequence[Client] = ()


class Client(NamedTuple):
    """A member of a group; `partitions` is how many it has."""

    client: str
    host: str
    group: str
    member: str
    partitions: int


_NO_MORE = More()


class Table(NamedTuple):
    """A table: its rows, their columns, and the column by which the busiest come first."""

    rows: Callable[[Sample, More], list[Row]]
    columns: tuple[str, ...]
    busiest: str


def _topics(sample: Sample, more: More) -> list[Row]:
    ends: dict[str, int] = {}
    for partition, end in sample.ends.items():
        ends[partition.topic] = ends.get(partition.topic, 0) + end
    return [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "perSecond": round(sample.rates.get(name, 0.0), 1),
            "endOffsets": ends.get(name, 0),
            "underReplicated": sum(len(p.in_sync_replicas) < len(p.replicas) for p in topic.partitions),
        }
        for name, topic in sample.topics.items()
        if not topic.is_internal
    ]


def _groups(sample: Sample, more: More) -> list[Row]:
    return [
        {
            "group": name,
            "state": None if found.listing.state is None else found.listing.state.name,
            "type": None if found.listing.type is None else found.listing.type.name,
            "lag": found.lag if found.committed else None,
            "lagSeconds": None if found.delay is None else round(found.delay.ms / 1000, 1),
            "lagPerSecond": None if found.trend is None or not found.committed else round(found.trend, 1),
            "emptyInSeconds": _seconds_until_empty(found),
        }
        for name, found in sample.groups.items()
    ]


def _seconds_until_empty(group: GroupSample) -> float | None:
    """Return when the group has read all, if it goes on so; None where its lag does not become smaller."""
    if group.lag == 0 or group.trend is None or group.trend >= 0:
        return None
    return round(group.lag / -group.trend, 1)


def _brokers(sample: Sample, more: More) -> list[Row]:
    used: dict[int, int] = {}
    for disk in sample.disks:
        used[disk.broker] = used.get(disk.broker, 0) + disk.used
    return [
        {
            "broker": row["id"],
            "address": f"{row['host']}:{row['port']}",
            "controller": row["isController"],
            "leads": row["leads"],
            "replicas": row["replicas"],
            "outOfSync": row["outOfSync"],
            "logBytes": used.get(row["id"]),
        }
        for row in overview(sample, (), Commands(()))["brokers"]
    ]


def _transactions(sample: Sample, more: More) -> list[Row]:
    return [
        {
            "transactionalId": row["id"],
            "state": row["state"],
            "producerId": row["producerId"],
            "openSeconds": None if row["started"] < 0 else max(0, sample.at_ms - row["started"]) / 1000,
            "partitions": len(row["partitions"]),
        }
        for row in more.transactions
    ]


def _clients(sample: Sample, more: More) -> list[Row]:
    return [client._asdict() for client in more.clients]


#: The words of the command that tells what a table does.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "topics": ("topic", "list"),
    "groups": ("group", "list"),
    "brokers": ("cluster",),
    "transactions": ("txn", "list"),
    "clients": ("group", "list"),
}
TABLES: Mapping[str, Table] = {
    "topics": Table(_topics, ("topic", "partitions", "perSecond", "endOffsets", "underReplicated"), "perSecond"),
    "groups": Table(_groups, ("group", "state", "type", "lag", "lagSeconds", "lagPerSecond", "emptyInSeconds"), "lag"),
    "brokers": Table(
        _brokers, ("broker", "address", "controller", "leads", "replicas", "outOfSync", "logBytes"), "leads"
    ),
    "transactions": Table(
        _transactions, ("transactionalId", "state", "producerId", "openSeconds", "partitions"), "openSeconds"
    ),
    "clients": Table(_clients, ("client", "host", "group", "member", "partitions"), "partitions"),
}


class Detail(NamedTuple):
    """A table of what a row has: its title, columns and rows."""

    title: str
    columns: tuple[str, ...]
    rows: list[Row]


def details(name: str, row: Row, sample: Sample, more: More = _NO_MORE) -> list[Detail]:
    """Return what a row of a table has inside."""
    return _DETAILS[name](str(next(iter(row.values()))), sample, more)


def _in_topic(topic: str, sample: Sample, more: More) -> list[Detail]:
    described = sample.topics.get(topic)
    rows: list[Row] = [
        {
            "partition": each.partition,
            "leader": None if each.leader is None else each.leader.id,
            "replicas": " ".join(str(node.id) for node in each.replicas),
            "inSync": " ".join(str(node.id) for node in each.in_sync_replicas),
            "endOffset": sample.ends.get(TopicPartition(topic, each.partition)),
        }
        for each in ([] if described is None else described.partitions)
    ]
    lags: list[Row] = [
        {"group": group, "lag": sum(max(0, sample.ends[p] - at) for p, at in own.items()), "partitions": len(own)}
        for group, found in sample.groups.items()
        if (own := {p: at for p, at in found.committed.items() if p.topic == topic and p in sample.ends})
    ]
    return [
        Detail("partitions", ("partition", "leader", "replicas", "inSync", "endOffset"), rows),
        Detail("groups that read it", ("group", "lag", "partitions"), lags),
    ]


def _in_group(group: str, sample: Sample, more: More) -> list[Detail]:
    found = sample.groups.get(group)
    rows: list[Row] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": at,
            "endOffset": sample.ends.get(partition),
            "lag": max(0, sample.ends[partition] - at) if partition in sample.ends else None,
        }
        for partition, at in sorted({} if found is None else found.committed.items())
    ]
    members = [client._asdict() for client in more.clients if client.group == group]
    return [
        Detail("members", ("member", "client", "host", "partitions"), members),
        Detail("partitions", ("topic", "partition", "committed", "endOffset", "lag"), rows),
    ]


def _in_broker(broker: str, sample: Sample, more: More) -> list[Detail]:
    number = int(broker)
    rows: list[Row] = [
        {
            "topic": name,
            "partition": each.partition,
            "leads": each.leader is not None and each.leader.id == number,
            "inSync": any(node.id == number for node in each.in_sync_replicas),
        }
        for name, topic in sorted(sample.topics.items())
        for each in topic.partitions
        if any(node.id == number for node in each.replicas)
    ]
    disks = [disk._asdict() for disk in sample.disks if disk.broker == number]
    return [
        Detail("log directories", ("path", "used", "total", "usable", "error"), disks),
        Detail("replicas", ("topic", "partition", "leads", "inSync"), rows),
    ]


def _in_transaction(name: str, sample: Sample, more: More) -> list[Detail]:
    found = next((row for row in more.transactions if row["id"] == name), None)
    partitions: list[Row] = [{"partition": each} for each in ([] if found is None else found["partitions"])]
    return [Detail("partitions that take part", ("partition",), partitions)]


def _in_client(client: str, sample: Sample, more: More) -> list[Detail]:
    same = [each._asdict() for each in more.clients if each.client == client]
    return [Detail("groups in which it is a member", ("group", "member", "host", "partitions"), same)]


_DETAILS: Mapping[str, Callable[[str, Sample, More], list[Detail]]] = {
    "topics": _in_topic,
    "groups": _in_group,
    "brokers": _in_broker,
    "transactions": _in_transaction,
    "clients": _in_client,
}


def table_rows(name: str, sample: Sample, column: str = "", text: str = "", more: More = _NO_MORE) -> list[Row]:
    """Return a table's rows that have a text in their first column, by a column: the largest number first."""
    table = TABLES[name]
    first, by = table.columns[0], column or table.busiest
    rows = [row for row in table.rows(sample, more) if text.lower() in str(row[first]).lower()]
    rows.sort(key=lambda row: str(row[first]))
    if by != first:
        # Texts among themselves; what has no value last.
        rows.sort(key=lambda row: _weight(row[by]))
    return rows


def _weight(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 1, 0.0, ""
    return (0, -float(value), "") if isinstance(value, int | float) else (0, 0.0, str(value))


def health(sample: Sample) -> str:
    """Return one sentence: what is wrong, or that nothing is."""
    partitions = sum(len(topic.partitions) for topic in sample.topics.values())
    found = [_wrong(p["text"], int(p["values"]["n"] or 0)) for p in problems(sample, Commands(()))]
    if found:
        return "; ".join(found)
    return f"all {counted(partitions, 'partition')} in sync on {counted(len(sample.cluster.nodes), 'broker')}"


#: What is counted, and what is said of it.
_WRONG = {
    "problem.offline": ("partition", "without a leader"),
    "problem.underReplicated": ("partition", "under-replicated"),
    "problem.directoryFailed": ("log directory", "failed"),
    "problem.littleSpace": ("log directory", "nearly full"),
}


def _wrong(problem: str, count: int) -> str:
    if problem not in _WRONG:
        return "no controller"
    noun, what = _WRONG[problem]
    return f"{counted(count, noun)} {what}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
