"""Who may come in and do what: ACLs, users of SCRAM, and quotas, shown and changed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, TypedDict, TypeVar

from barnabas.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ClientQuotaEntity,
    PatternType,
    ResourceType,
    ScramAlteration,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.config.quota_config import QUOTAS
from barnabas.errors import IllegalArgumentError, ResourceNotFoundError, SecurityDisabledError

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands

E = TypeVar("E", bound=IntEnum)

_ITERATIONS = 4096
#: What a filter may say, and an ACL may not.
_OF_FILTERS = ("UNKNOWN", "ANY", "MATCH")
#: Kind of resource → the option of `barnabas acl` for it.
_OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.USER: "--user",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
}
#: What may be chosen, in the order in which it is offered.
RESOURCES = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
OPERATIONS = tuple(operation.name for operation in AclOperation if operation > AclOperation.ANY)


class AclRow(TypedDict):
    """An ACL, in Kafka's names."""

    resourceType: str
    resourceName: str
    patternType: str
    principal: str
    host: str
    operation: str
    permission: str


class Acls(TypedDict):
    """All ACLs; `isEnabled` is false where the broker has no authorizer. The others are what may be chosen."""

    acls: list[AclRow]
    isEnabled: bool
    resourceTypes: list[str]
    operations: list[str]
    command: str


class UserRow(TypedDict):
    """How a user may log in by SCRAM."""

    user: str
    mechanism: str
    iterations: int


class Users(TypedDict):
    """All users of SCRAM."""

    users: list[UserRow]
    mechanisms: list[str]
    command: str


class Changed(TypedDict):
    """What was done, as a command line."""

    command: str


async def acls(admin: AdminClient, commands: Commands) -> Acls:
    """Return all ACLs. Raises `ClusterAuthorizationError`."""
    try:
        found, is_enabled = await admin.describe_acls(), True
    except SecurityDisabledError:
        found, is_enabled = [], False
    rows = sorted(map(_row, found), key=lambda row: tuple(map(str, row.values())))
    return {
        "acls": rows,
        "isEnabled": is_enabled,
        "resourceTypes": list(RESOURCES),
        "operations": list(OPERATIONS),
        "command": commands.line("acl", "list"),
    }


async def add_acl(admin: AdminClient, body: Body, commands: Commands) -> Changed:
    """Add an ACL. Raises `InvalidRequestError`, `SecurityDisabledError`, `ClusterAuthorizationError`."""
    one = _binding(body)
    await admin.create_acls([one])
    return {"command": _acl_command(commands, "add", one)}


async def remove_acl(admin: AdminClient, body: Body, commands: Commands) -> Changed:
    """Remove one ACL. Raises `ResourceNotFoundError` where it is not there any more, ..."""
    one = _binding(body)
    removed = await admin.delete_acls([one.to_filter()])
    if not any(removed.values()):
        raise ResourceNotFoundError("there is no such ACL any more")
    return {"command": _acl_command(commands, "remove", one)}


def _row(one: AclBinding) -> AclRow:
    return {
        "resourceType": one.resource_type.name,
        "resourceName": one.resource_name,
        "patternType": one.pattern_type.name,
        "principal": one.principal,
        "host": one.host,
        "operation": one.operation.name,
        "permission": one.permission_type.name,
    }


def _binding(body: Body) -> AclBinding:
    kind = _chosen(ResourceType, body, "resourceType")
    return AclBinding(
        kind,
        "kafka-cluster" if kind == ResourceType.CLUSTER else body.text("resourceName"),
        body.text("principal"),
        _chosen(AclOperation, body, "operation"),
        _chosen(AclPermissionType, body, "permission"),
        body.text("host"),
        _chosen(PatternType, body, "patternType"),
    )


def _chosen(kind: type[E], body: Body, name: str) -> E:
    text = body.text(name)
    names = [one.name for one in kind if one.name not in _OF_FILTERS]
    if text not in names:
        raise IllegalArgumentError(f"{name} must be one of {', '.join(names)}")
    return kind[text]


def _acl_command(commands: Commands, action: str, one: AclBinding) -> str:
    option = _OPTIONS.get(one.resource_type)
    words = ["acl", action, "--principal", one.principal, "--operation", one.operation.name.lower().replace("_", "-")]
    words += ["--cluster"] if option is None else [option, one.resource_name]
    if one.pattern_type == PatternType.PREFIXED:
        words.append("--prefixed")
    if one.permission_type == AclPermissionType.DENY:
        words.append("--deny")
    return commands.line(*words, *([] if one.host == "*" else ["--host", one.host]))


async def users(admin: AdminClient, commands: Commands) -> Users:
    """Return all users of SCRAM, without anything that they log in with."""
    found = await admin.describe_user_scram_credentials()
    rows: list[UserRow] = [
        {"user": user, "mechanism": _shown(info.mechanism), "iterations": info.iterations}
        for user, infos in sorted(found.items())
        for info in infos
    ]
    mechanisms = [_shown(one) for one in ScramMechanism if one]
    return {"users": rows, "mechanisms": mechanisms, "command": commands.line("user", "list")}


async def set_password(admin: AdminClient, body: Body, commands: Commands) -> Changed:
    """Add a user, or give one another password. Raises `IllegalArgumentError`, `ClusterAuthorizationError`, ..."""
    user, password, mechanism = body.text("user"), body.text("password"), _mechanism(body)
    if not user or not password:
        raise IllegalArgumentError("a user needs a name and a password")
    await _alter(admin, UserScramCredentialUpsertion(user, password, mechanism, iterations=_ITERATIONS))
    return {"command": commands.line("user", "set-password", user, "--mechanism", _shown(mechanism))}


async def delete_user(admin: AdminClient, body: Body, commands: Commands) -> Changed:
    """Take a way to log in from a user. Raises `ResourceNotFoundError`, `ClusterAuthorizationError`, ..."""
    user, mechanism = body.text("user"), _mechanism(body)
    body.confirmed(user)
    await _alter(admin, UserScramCredentialDeletion(user, mechanism))
    return {"command": commands.line("user", "delete", user, "--mechanism", _shown(mechanism))}


async def _alter(admin: AdminClient, alteration: ScramAlteration) -> None:
    await admin.alter_user_scram_credentials([alteration])


def _shown(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


def _mechanism(body: Body) -> ScramMechanism:
    found = {_shown(one): one for one in ScramMechanism if one}
    text = body.text("mechanism")
    if text not in found:
        raise IllegalArgumentError(f"mechanism must be one of {', '.join(found)}")
    return found[text]


async def set_quota(admin: AdminClient, body: Body, commands: Commands) -> Changed:
    """Set a quota of an entity, or remove it where `value` is an empty text.

    `entity` has a name for each type (user, client-id, ip); an empty name is the default of its type. Raises
    `IllegalArgumentError`, `InvalidRequestError`, ...
    """
    entity, quota, text = body.settings("entity"), body.text("quota"), body.text("value").strip()
    if not entity or quota not in QUOTAS:
        raise IllegalArgumentError(f"a quota is for a user, client-id or ip, and one of {', '.join(QUOTAS)}")
    names = {kind: name or None for kind, name in entity.items()}
    await admin.alter_client_quotas({ClientQuotaEntity.of_types(names): {quota: _number(text) if text else None}})
    return {"command": commands.line("quota", *_quota_words(names, quota, text))}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < inf:
        raise IllegalArgumentError(f"a quota must be a number above 0, not {text!r}")
    return value


def _quota_words(names: Mapping[str, str | None], quota: str, text: str) -> list[str]:
    whose = [word for kind, name in names.items()
             for word in ([f"--{kind}-default"] if name is None else [f"--{kind}", name])]  # fmt: skip
    return ["set", *whose, f"{quota}={text}"] if text else ["unset", *whose, quota]
