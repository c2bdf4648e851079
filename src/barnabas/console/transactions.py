"""Transactions: which are open, since when, and those that no coordinator will ever end."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from barnabas.client.admin.hanging_transactions import (
    OpenTransaction,
    abort_of,
    hanging,
    ids_of,
    open_transactions,
)
from barnabas.console.answers import Place, place
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands

#: Partitions in one DescribeProducers, so that a broker answers others in between.
_PRODUCERS_AT_ONCE = 250


class TransactionRow(TypedDict):
    """A transactional id; `started` is epoch milliseconds, -1 where nothing is open."""

    id: str
    state: str
    producerId: int
    epoch: int | None
    coordinator: int
    timeout: int | None
    started: int
    partitions: list[str]


class Transactions(TypedDict):
    """All transactional ids, those that are open first."""

    transactions: list[TransactionRow]
    missing: list[int]
    command: str


class Ended(TypedDict):
    """A transaction that was ended, and the command that ends it."""

    id: str
    command: str


class HangingRow(Place, TypedDict):
    """What is open in a partition, and of no transaction that a coordinator knows; `written` is epoch milliseconds."""

    producerId: int
    epoch: int
    startOffset: int
    written: int


class Hanging(TypedDict):
    """Transactions that hang; they keep readers of committed records waiting."""

    hanging: list[HangingRow]
    command: str


async def transactions(admin: AdminClient, commands: Commands) -> Transactions:
    """Return the transactional ids of all coordinators."""
    listed = await admin.list_transactions(raise_errors=False)
    described = dict(await admin.describe_transactions(listed, raise_errors=False)) if listed else {}
    rows: list[TransactionRow] = []
    for name, listing in listed.items():
        found = described.get(name)
        rows.append(
            {
                "id": name,
                "state": listing.state.name,
                "producerId": listing.producer_id,
                "epoch": found.producer_epoch if found else None,
                "coordinator": listing.coordinator_id,
                "timeout": found.timeout_ms if found else None,
                "started": found.start_time_ms if found else -1,
                "partitions": sorted(f"{p.topic}-{p.partition}" for p in found.topic_partitions) if found else [],
            }
        )
    rows.sort(key=lambda row: (row["started"] < 0, row["started"], row["id"]))
    return {
        "transactions": rows,
        "missing": sorted(listed.errors),
        "command": commands.line("txn", "list"),
    }


async def end_transaction(admin: AdminClient, body: Body, commands: Commands) -> Ended:
    """Abort what is open under an id, and shut its producer out. Raises `TransactionalIdNotFoundError`, ..."""
    name = body.text("id")
    body.confirmed(name)
    await admin.describe_transactions([name])
    await admin.fence_producers([name])
    return {"id": name, "command": commands.line("txn", "describe", name)}


async def hanging_transactions(admin: AdminClient, minutes: int, now_ms: int, commands: Commands) -> Hanging:
    """Look in all partitions for what was not written to for `minutes`, and no coordinator knows of."""
    if minutes < 0:
        raise IllegalArgumentError(f"minutes must not be negative, as {minutes} is")
    topics = await admin.describe_topics(await admin.list_topics(include_internal=True), raise_errors=False)
    partitions = [
        TopicPartition(str(name), partition.partition)
        for name, topic in topics.items()
        for partition in topic.partitions
        if partition.leader is not None
    ]
    candidates: list[OpenTransaction] = []
    for first in range(0, len(partitions), _PRODUCERS_AT_ONCE):
        found = await admin.describe_producers(partitions[first : first + _PRODUCERS_AT_ONCE], raise_errors=False)
        candidates += open_transactions(found, now_ms - minutes * 60_000)
    found_hanging = await _unknown_to_coordinators(admin, candidates)
    rows: list[HangingRow] = [
        {
            **place(one.partition),
            "producerId": one.producer.producer_id,
            "epoch": one.producer.producer_epoch,
            "startOffset": one.producer.current_transaction_start_offset,
            "written": one.producer.last_timestamp,
        }
        for one in sorted(found_hanging)
    ]
    return {"hanging": rows, "command": commands.line("txn", "find-hanging", "--older-than", f"{minutes}m")}


async def _unknown_to_coordinators(admin: AdminClient, candidates: list[OpenTransaction]) -> list[OpenTransaction]:
    if not candidates:
        return []
    listed = await admin.list_transactions(producer_ids=sorted({one.producer.producer_id for one in candidates}))
    ids = ids_of(listed.values())
    return hanging(candidates, ids, await admin.describe_transactions(list(ids.values()), raise_errors=False))


async def abort_hanging(admin: AdminClient, body: Body, commands: Commands) -> Ended:
    """End what is open in a partition, without asking a coordinator.

    Raises `IllegalArgumentError` where nothing began at that offset and is still open.
    """
    partition, start = TopicPartition(body.text("topic"), body.integer("partition")), body.integer("startOffset")
    label = str(partition)
    body.confirmed(label)
    await admin.abort_transaction(abort_of(partition, start, await admin.describe_producers([partition])))
    where = f"{partition.topic}:{partition.partition}"
    return {"id": label, "command": commands.line("txn", "abort-hanging", where, "--start-offset", str(start))}
