"""`barnabas config`: shows and changes the settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.named_values import named_values
from barnabas.cli.output import note, print_rows
from barnabas.errors import ConfigError, IllegalArgumentError, InvalidRequestError

if TYPE_CHECKING:
    import argparse

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.configs import ConfigEntry, ConfigResource

KINDS = ("topic", "broker", "group", "client-metrics")
_EXAMPLES = """\
  barnabas config get topic flights                     what differs from the defaults
  barnabas config get broker 1 log.retention.ms         one setting, also at its default
  barnabas config set topic flights retention.ms=60000
  barnabas config unset topic flights retention.ms
  barnabas config set client-metrics all metrics=* interval.ms=10000     what clients push (KIP-714)
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    parser = add_command(
        subparsers, "config", "show and change settings: topics, brokers, groups, client metrics", examples=_EXAMPLES
    )
    parts = parser.add_subparsers(metavar="ACTION", required=True)

    get = _add_part(parts, "get", "show settings that differ from the defaults, or those named")
    get.add_argument("names", metavar="SETTING", nargs="*")
    get.add_argument("-a", "--all", action="store_true", help="also those at their defaults")
    get.set_defaults(set=[], unset=[], dry_run=False)

    setting = _add_part(parts, "set", "change settings, the others stay")
    setting.add_argument("set", metavar="NAME=VALUE", nargs="+")
    setting.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
    setting.set_defaults(unset=[], names=[])

    unset = _add_part(parts, "unset", "go back to the defaults")
    unset.add_argument("unset", metavar="SETTING", nargs="+")
    unset.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
    unset.set_defaults(set=[], names=[])


def _add_part(parts: Subparsers, name: str, about: str) -> argparse.ArgumentParser:
    part = add_command(parts, name, about)
    part.add_argument("kind", choices=KINDS, metavar="KIND", help=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}")
    part.add_argument(
        "name",
        metavar="ENTITY",
        help="the topic, the broker's id (`default`: all brokers), the group, or the name of a subscription",
    )
    add_connection(part)
    part.set_defaults(action=show_or_change)
    return part


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `topic config`, which shows when nothing is to be changed."""
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="change one; repeatable")
    parser.add_argument("--unset", metavar="SETTING", action="append", default=[], help="back to the default")
    parser.add_argument("-a", "--all", action="store_true", help="also show those at their defaults")
    parser.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")


def run(args: argparse.Namespace) -> int:
    """Run the part that was asked for."""
    return show_or_change(args)


def show_or_change(args: argparse.Namespace) -> int:
    """Change what is to be changed; show the settings if there is nothing."""
    resource = _resource(args.kind, args.name)
    changes: dict[str, str | None] = {**named_values(args.set, "set"), **dict.fromkeys(args.unset)}
    with admin_client(args) as admin:
        if args.kind == "broker" and args.name != "default":
            _check_broker(admin, int(args.name))
        if changes:
            admin.incremental_alter_configs({resource: changes}, validate_only=args.dry_run)
            print_rows(args.output, [{"name": n, "value": v} for n, v in changes.items()], ("name", "value"))
            if args.dry_run:
                note("nothing was changed")
            return 0
        entries = admin.describe_configs([resource])[resource]
    chosen = _chosen(entries, args.names, everything=args.all)
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source.name,
            "readOnly": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for entry in chosen
    ]
    print_rows(args.output, rows, ("name", "value", "source"))
    if not rows:
        note(f"{resource}: all {len(entries)} settings are at their defaults; --all shows them")
    return 0


def _resource(kind: str, name: str) -> ConfigResource:
    from barnabas.client.admin.configs import ConfigResource
    from barnabas.protocol.kinds import ConfigResourceType

    if kind == "topic":
        return ConfigResource.topic(name)
    if kind == "group":
        return ConfigResource(ConfigResourceType.GROUP, name)
    if kind == "client-metrics":
        return ConfigResource.client_metrics(name)
    if name == "default":
        return ConfigResource.broker(None)
    if not name.isdecimal():
        raise IllegalArgumentError(f"broker {name!r}: give its id, which `barnabas cluster` shows, or `default`")
    return ConfigResource.broker(int(name))


def _check_broker(admin: AdminClient, broker: int) -> None:
    """Raise InvalidRequestError at once for a broker that is not there: its answer would be waited for."""
    there = sorted(node.id for node in admin.describe_cluster().nodes)
    if broker not in there:
        raise InvalidRequestError(f"the cluster has no broker {broker}; it has {', '.join(map(str, there))}")


def _chosen(entries: Mapping[str, ConfigEntry], names: list[str], *, everything: bool) -> list[ConfigEntry]:
    if names:
        return [_named(entries, name) for name in names]
    return [entry for _, entry in sorted(entries.items()) if everything or not entry.is_default]


def _named(entries: Mapping[str, ConfigEntry], name: str) -> ConfigEntry:
    import difflib

    entry = entries.get(name)
    if entry is None:
        nearest = difflib.get_close_matches(name, entries, n=1)
        raise ConfigError(f"there is no setting {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""))
    return entry


def changed_settings(entries: Mapping[str, ConfigEntry]) -> Iterator[tuple[str, str | None]]:
    """Return the settings of a topic that were made for it, by name."""
    for name, entry in sorted(entries.items()):
        if entry.source.name == "DYNAMIC_TOPIC_CONFIG":
            yield name, entry.value
