"""`barnabas feature`: which features of the cluster are switched on, and at which level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.named_values import named_values
from barnabas.cli.output import note, print_rows
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace

COLUMNS = ("feature", "level", "lowest", "highest")
_EXAMPLES = """\
  barnabas feature list
  barnabas feature set transaction.version=2
  barnabas feature set --downgrade group.version=0
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list the cluster's features, and set their levels"
    parts = add_command(subparsers, "feature", about, examples=_EXAMPLES).add_subparsers(
        metavar="ACTION", required=True
    )
    listing = add_command(parts, "list", "list features with their levels, and those that could be set")
    add_connection(listing)
    listing.set_defaults(action=list_features)
    change = add_command(parts, "set", "set levels, all or none; 0 switches a feature off", examples=_EXAMPLES)
    change.add_argument("levels", metavar="FEATURE=LEVEL", nargs="+")
    change.add_argument("--downgrade", action="store_true", help="allow lower levels, as far as nothing is lost")
    change.add_argument("--dry-run", action="store_true", help="only ask whether it could be done")
    add_connection(change)
    change.set_defaults(action=_set)


def list_features(args: Namespace) -> int:
    """Print the features, and return 0."""
    with admin_client(args) as admin:
        found = admin.describe_features()
    rows = [
        {
            "feature": name,
            "level": found.finalized[name].max_version if name in found.finalized else 0,
            "lowest": supported.min_version,
            "highest": supported.max_version,
        }
        for name, supported in sorted(found.supported.items())
    ]
    print_rows(args.output, rows, COLUMNS)
    return 0


def _set(args: Namespace) -> int:
    from barnabas.client.admin.cluster import FeatureUpdate
    from barnabas.protocol.kinds import UpgradeType

    kind = UpgradeType.SAFE_DOWNGRADE if args.downgrade else UpgradeType.UPGRADE
    levels = {
        name: _level(name, text) for name, text in named_values(args.levels, "feature", "transaction.version=2").items()
    }
    with admin_client(args) as admin:
        updates = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
        admin.update_features(updates, validate_only=args.dry_run)
    rows = [{"feature": name, "level": level} for name, level in levels.items()]
    print_rows(args.output, rows, ("feature", "level"))
    if args.dry_run:
        note("nothing was changed")
    return 0


def _level(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 32768):
        raise ConfigError(f"{name}={text}: a level is a whole number from 0 to 32767")
    return int(text)
