"""`barnabas leader`: gives partitions back to the replica that is to lead them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import error_line, print_rows

if TYPE_CHECKING:
    from argparse import Namespace

COLUMNS = ("topic", "partition", "result")
_EXAMPLES = """\
  barnabas leader elect                   the preferred replica of every partition
  barnabas leader elect flights:0,2-4
  barnabas leader elect --unclean flights:3
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "elect leaders of partitions anew"
    parser = add_command(subparsers, "leader", about, examples=_EXAMPLES)
    add_elect(parser.add_subparsers(metavar="ACTION", required=True))


def add_elect(parts: Subparsers, command: str = "leader") -> None:
    """Describe the options of `elect`, which stands among the parts of `topic` too."""
    about = "make the preferred replica of partitions their leader"
    elect = add_command(parts, "elect", about, examples=f"  barnabas {command} elect flights:0,2-4\n")
    elect.add_argument("partitions", metavar="TOPIC[:LIST]", nargs="*", help="all topics unless some are given")
    unclean = "any live replica where none leads; loses records"
    elect.add_argument("--unclean", action="store_true", help=unclean)
    add_connection(elect)
    elect.set_defaults(action=_elect)


def _elect(args: Namespace) -> int:
    from barnabas.cli.hanging_transactions import all_partitions
    from barnabas.errors import ElectionNotNeededError
    from barnabas.protocol.kinds import ElectionType

    kind = ElectionType.UNCLEAN if args.unclean else ElectionType.PREFERRED
    with admin_client(args) as admin:
        partitions = all_partitions(admin, args.partitions)
        found = admin.elect_leaders(kind, partitions, raise_errors=False)
    rows, failed = [], False
    for partition in sorted(partitions):
        error = found.errors.get(partition)
        result = "elected"
        if isinstance(error, ElectionNotNeededError):
            result = "leads already"
        elif error is not None:
            result, failed = error_line(error), True
        rows.append({"topic": partition.topic, "partition": partition.partition, "result": result})
    print_rows(args.output, rows, COLUMNS)
    return int(failed)
