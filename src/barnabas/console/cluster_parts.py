"""Transactions, and what else a cluster has: settings of brokers, quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import ConfigResource
from barnabas.console.topics import Settings, settings_of

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands


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
    """All transactional ids, those that are open first; `hanging` is the command that looks for hanging ones."""

    transactions: list[TransactionRow]
    missing: list[int]
    command: str
    hanging: str


class Ended(TypedDict):
    """A transaction that was ended, and the command that ends it."""

    id: str
    command: str


class QuotaRow(TypedDict):
    """A quota: whose (type of entity → name, None for the default of its type), which, and how much."""

    entity: dict[str, str | None]
    quota: str
    value: float


class QuotaRows(TypedDict):
    """All quotas."""

    quotas: list[QuotaRow]
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
        "hanging": commands.line("txn", "find-hanging"),
    }


async def end_transaction(admin: AdminClient, body: Body, commands: Commands) -> Ended:
    """Abort what is open under an id, and shut its producer out. Raises `TransactionalIdNotFoundError`, ..."""
    name = body.text("id")
    body.confirmed(name)
    await admin.describe_transactions([name])
    await admin.fence_producers([name])
    return {"id": name, "command": commands.line("txn", "describe", name)}


async def broker_settings(admin: AdminClient, broker: int, commands: Commands) -> Settings:
    """Return the settings of a broker."""
    command = commands.line("config", "get", "broker", str(broker), "--all")
    return await settings_of(admin, ConfigResource.broker(broker), command)


async def quotas(admin: AdminClient, commands: Commands) -> QuotaRows:
    """Return all quotas of users, clients and addresses."""
    described = await admin.describe_client_quotas()
    rows: list[QuotaRow] = [
        {"entity": dict(entity.entries), "quota": name, "value": value}
        for entity, found in described.items()
        for name, value in found.items()
    ]
    return {"quotas": rows, "command": commands.line("quota", "list")}
