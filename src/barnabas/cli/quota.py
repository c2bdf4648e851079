"""`barnabas quota`: how fast users and clients may produce, fetch and ask."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.named_values import named_values
from barnabas.cli.output import note, print_rows
from barnabas.config.quota_config import QUOTAS
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from barnabas.client.admin.client_quotas import ClientQuotaEntity

COLUMNS = ("user", "clientId", "ip", "quota", "value")
#: Attribute of the options → the type of an entity, as the protocol spells it.
_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
_EXAMPLES = """\
  barnabas quota list
  barnabas quota set --user alice producer_byte_rate=1048576
  barnabas quota set --client-id-default consumer_byte_rate=2e6 request_percentage=50
  barnabas quota unset --user alice producer_byte_rate
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, set and remove quotas of users, clients and addresses"
    parts = add_command(subparsers, "quota", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)
    listing = add_command(parts, "list", "list quotas, all or those of an entity")
    _add_entity(listing)
    add_connection(listing)
    listing.set_defaults(action=_list)
    change = add_command(parts, "set", f"set quotas: {', '.join(QUOTAS)}", examples=_EXAMPLES)
    change.add_argument("quotas", metavar="QUOTA=NUMBER", nargs="+")
    remove = add_command(parts, "unset", "remove quotas")
    remove.add_argument("quotas", metavar="QUOTA", nargs="+")
    for part, action in ((change, _set), (remove, _unset)):
        _add_entity(part)
        part.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
        add_connection(part)
        part.set_defaults(action=action)


def _add_entity(parser: argparse.ArgumentParser) -> None:
    for attribute, kind in _TYPES.items():
        option = f"--{kind}"
        what = {"user": "user", "client_id": "client id", "ip": "address"}[attribute]
        either = parser.add_mutually_exclusive_group()
        either.add_argument(option, metavar="NAME", help=f"of this {what}")
        either.add_argument(
            f"{option}-default", dest=f"{attribute}_default", action="store_true",
            help=f"of every {what} that has none of its own",
        )  # fmt: skip


def _list(args: Namespace) -> int:
    from barnabas.client.admin.client_quotas import ClientQuotaFilterComponent as Component

    components = [
        Component.of_default(kind) if name is None else Component.of_entity(kind, name)
        for kind, name in _entity_of(args).items()
    ]
    with admin_client(args) as admin:
        found = admin.describe_client_quotas(components)
    rows = [
        {
            **{column: _shown(entity, kind) for column, kind in zip(COLUMNS, _TYPES.values(), strict=False)},
            "quota": quota,
            "value": value,
        }
        for entity, quotas in sorted(found.items(), key=lambda item: str(item[0]))
        for quota, value in sorted(quotas.items())
    ]
    print_rows(args.output, rows, COLUMNS)
    if not rows:
        note("there are no quotas" + (" of this entity" if components else ""))
    return 0


def _shown(entity: ClientQuotaEntity, kind: str) -> str | None:
    names = dict(entity.entries)
    return None if kind not in names else "(default)" if names[kind] is None else names[kind]


def _set(args: Namespace) -> int:
    given = named_values(args.quotas, "quota", "producer_byte_rate=1048576")
    return _alter(args, {name: _number(name, text) for name, text in given.items()})


def _unset(args: Namespace) -> int:
    return _alter(args, dict.fromkeys(args.quotas))


def _alter(args: Namespace, changes: dict[str, float | None]) -> int:
    from barnabas.client.admin.client_quotas import ClientQuotaEntity

    names = _entity_of(args)
    if not names:
        raise ConfigError("name who the quota is for: --user, --client-id or --ip, or one of them with -default")
    for quota in changes:
        _check_known(quota)
    with admin_client(args) as admin:
        admin.alter_client_quotas({ClientQuotaEntity.of_types(names): changes}, validate_only=args.dry_run)
    print_rows(args.output, [{"quota": name, "value": value} for name, value in changes.items()], ("quota", "value"))
    if args.dry_run:
        note("nothing was changed")
    return 0


def _entity_of(args: Namespace) -> dict[str, str | None]:
    names: dict[str, str | None] = {}
    for attribute, kind in _TYPES.items():
        if getattr(args, attribute) is not None:
            names[kind] = getattr(args, attribute)
        elif getattr(args, f"{attribute}_default"):
            names[kind] = None
    return names


def _check_known(quota: str) -> None:
    import difflib

    if quota not in QUOTAS:
        nearest = difflib.get_close_matches(quota, QUOTAS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; there are {', '.join(QUOTAS)}"
        raise ConfigError(f"there is no quota {quota!r}{hint}")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < inf:
        raise ConfigError(f"{name}={text}: it must be a number above 0")
    return value
