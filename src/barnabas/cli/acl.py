"""`barnabas acl`: who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_rows
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace
    from collections.abc import Iterable

    from barnabas.client.admin.acls import AclBinding, AclBindingFilter
    from barnabas.protocol.kinds import AclOperation, ResourceType

COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
#: Option → the kind of resource.
_KINDS = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "user": "USER",
    "delegation_token": "DELEGATION_TOKEN",
}
_CLUSTER = "kafka-cluster"
_OPERATIONS = (
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs",
    "alter-configs", "idempotent-write", "create-tokens", "describe-tokens", "two-phase-commit",
)  # fmt: skip
_EXAMPLES = """\
  barnabas acl list --topic orders
  barnabas acl add --principal User:alice --operation read --topic orders --group billing
  barnabas acl add --deny --principal User:bob --operation all --topic pay --prefixed
  barnabas acl remove --principal User:alice
  barnabas acl test --principal User:alice --operation read --topic orders
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, add and remove ACLs; say who may do what"
    parts = add_command(subparsers, "acl", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)
    listing = add_command(parts, "list", "list ACLs, all or some")
    adding = add_command(parts, "add", "allow or deny something", examples=_EXAMPLES)
    removing = add_command(parts, "remove", "remove the ACLs that fit all that is given")
    testing = add_command(parts, "test", "say whether somebody may do something, and by which ACL", examples=_EXAMPLES)
    for part, action, is_one in ((listing, _list, False), (adding, _add, True), (removing, _remove, False),
                                 (testing, _test, True)):  # fmt: skip
        _add_resources(part)
        part.add_argument("--principal", metavar="TYPE:NAME", required=is_one, help="who, as User:alice; User:* is all")
        part.add_argument("--host", metavar="ADDRESS", help="from where; without it from everywhere")
        part.add_argument("--operation", choices=_OPERATIONS, action="append", help="what; repeatable")
        if part is not testing:
            part.add_argument("--deny", action="store_true", help="ACLs that deny, which beat those that allow")
        add_connection(part)
        part.set_defaults(action=action)


def _add_resources(parser: argparse.ArgumentParser) -> None:
    for attribute in _KINDS:
        parser.add_argument(f"--{attribute.replace('_', '-')}", metavar="NAME", action="append", help="repeatable")
    parser.add_argument("--cluster", action="store_true", help="the cluster as a whole")
    parser.add_argument("--prefixed", action="store_true", help="names are the beginnings of names")


def _resources(args: Namespace) -> list[tuple[ResourceType, str]]:
    from barnabas.protocol.kinds import ResourceType

    found = [
        (ResourceType[kind], name) for attribute, kind in _KINDS.items() for name in getattr(args, attribute) or ()
    ]
    return [*found, (ResourceType.CLUSTER, _CLUSTER)] if args.cluster else found


def _operations(args: Namespace, *, is_needed: bool = False) -> list[AclOperation]:
    from barnabas.protocol.kinds import AclOperation

    if is_needed and not args.operation:
        raise ConfigError("name what is done: --operation read, write, ...")
    return [AclOperation[name.replace("-", "_").upper()] for name in args.operation or ()]


def _bindings(args: Namespace) -> list[AclBinding]:
    from barnabas.client.admin.acls import AclBinding
    from barnabas.protocol.kinds import AclPermissionType, PatternType

    resources = _resources(args)
    if not resources:
        raise ConfigError("name what it is about: --topic, --group, --transactional-id, --cluster, ...")
    permission = AclPermissionType.DENY if args.deny else AclPermissionType.ALLOW
    pattern = PatternType.PREFIXED if args.prefixed else PatternType.LITERAL
    return [
        AclBinding(kind, name, args.principal, operation, permission, args.host or "*", pattern)
        for kind, name in resources
        for operation in _operations(args, is_needed=True)
    ]


def _filters(args: Namespace) -> list[AclBindingFilter]:
    from barnabas.client.admin.acls import AclBindingFilter
    from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType

    permission = AclPermissionType.DENY if args.deny else AclPermissionType.ANY
    pattern = PatternType.PREFIXED if args.prefixed else PatternType.ANY
    resources: list[tuple[ResourceType, str | None]] = [*_resources(args)] or [(ResourceType.ANY, None)]
    return [
        AclBindingFilter(kind, name, args.principal, operation, permission, args.host, pattern)
        for kind, name in resources
        for operation in _operations(args) or [AclOperation.ANY]
    ]


def _list(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = {acl for wanted in _filters(args) for acl in admin.describe_acls(wanted)}
    _print(args, found)
    if not found:
        note("there are no such ACLs")
    return 0


def _add(args: Namespace) -> int:
    bindings = _bindings(args)
    with admin_client(args) as admin:
        admin.create_acls(bindings)
    _print(args, bindings)
    return 0


def _remove(args: Namespace) -> int:
    filters = _filters(args)
    if not (args.principal or args.host or args.operation or _resources(args)):
        raise ConfigError("that would remove all ACLs: say which, by --principal, a resource or an operation")
    with admin_client(args) as admin:
        removed = {acl for acls in admin.delete_acls(filters).values() for acl in acls}
    _print(args, removed)
    if not removed:
        note("there were no such ACLs")
    return 0


def _test(args: Namespace) -> int:
    """Decide as the standard authorizer does, by the cluster's ACLs; what super users may do is not known here."""
    from barnabas.broker.security.acl_binding import AclBinding as Rule
    from barnabas.broker.security.standard_authorizer import StandardAuthorizer

    with admin_client(args) as admin:
        acls = admin.describe_acls()
    authorizer = StandardAuthorizer()
    for acl in acls:
        authorizer.add(
            Rule(
                acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation,
                acl.permission_type,
            )
        )  # fmt: skip
    rows = []
    for kind, name in _resources(args):
        for operation in _operations(args, is_needed=True):
            allowed = authorizer.allows(args.principal, args.host or "*", operation, kind, name)
            why = authorizer.why(args.principal, args.host or "*", operation, kind, name)
            rows.append(
                {
                    "resource": kind.name.lower(), "name": name, "operation": operation.name.lower(),
                    "allowed": allowed, "why": why,
                }
            )  # fmt: skip
    if not rows:
        raise ConfigError("name what it is about: --topic, --group, --transactional-id, --cluster, ...")
    print_rows(args.output, rows, ("resource", "name", "operation", "allowed", "why"))
    return 0 if all(row["allowed"] for row in rows) else 1


def _print(args: Namespace, acls: Iterable[AclBinding]) -> None:
    rows = [
        {
            "resource": acl.resource_type.name.lower(), "name": acl.resource_name,
            "pattern": acl.pattern_type.name.lower(), "principal": acl.principal, "host": acl.host,
            "operation": acl.operation.name.lower(), "permission": acl.permission_type.name.lower(),
        }
        for acl in sorted(acls)
    ]  # fmt: skip
    print_rows(args.output, rows, COLUMNS)
