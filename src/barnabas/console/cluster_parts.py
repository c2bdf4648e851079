"""What else a cluster has: settings of brokers, shown and changed, and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import ConfigResource
from barnabas.console.topic_changes import Changed
from barnabas.console.topics import Settings, settings_of
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
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


async def broker_settings(admin: AdminClient, broker: int | None, commands: Commands) -> Settings:
    """Return the settings of a broker, or with None those that are set for all."""
    command = commands.line("config", "get", "broker", _name(broker), *([] if broker is None else ["--all"]))
    return await settings_of(admin, ConfigResource.broker(broker), command)


async def alter_broker(admin: AdminClient, broker: int | None, body: Body, commands: Commands) -> Changed:
    """Change settings of a broker, or with None of all, while they run; or take them back.

    Raises `InvalidRequestError` for what takes a restart, `InvalidConfigurationError`, ...
    """
    given, unset, dry_run = body.settings("set"), body.texts("unset"), body.flag("dryRun")
    changes: dict[str, str | None] = {**given, **dict.fromkeys(unset)}
    if not changes:
        raise IllegalArgumentError("nothing to change: give set or unset")
    await admin.incremental_alter_configs({ConfigResource.broker(broker): changes}, validate_only=dry_run)
    lines = []
    if given:
        lines.append(commands.line("config", "set", "broker", _name(broker), *(f"{k}={v}" for k, v in given.items())))
    if unset:
        lines.append(commands.line("config", "unset", "broker", _name(broker), *unset))
    return {"dryRun": dry_run, "command": " && ".join(lines)}


def _name(broker: int | None) -> str:
    return "default" if broker is None else str(broker)


async def quotas(admin: AdminClient, commands: Commands) -> QuotaRows:
    """Return all quotas of users, clients and addresses."""
    described = await admin.describe_client_quotas()
    rows: list[QuotaRow] = [
        {"entity": dict(entity.entries), "quota": name, "value": value}
        for entity, found in described.items()
        for name, value in found.items()
    ]
    return {"quotas": rows, "command": commands.line("quota", "list")}
