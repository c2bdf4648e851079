"""What else a cluster has: settings of brokers, and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import ConfigResource
from barnabas.console.topics import Settings, settings_of

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.commands import Commands


class QuotaRow(TypedDict):
    """A quota: whose (type of entity → name, None for the default of its type), which, and how much."""

    entity: dict[str, str | None]
    quota: str
    value: float


class QuotaRows(TypedDict):
    """All quotas."""

    quotas: list[QuotaRow]
    command: str


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
