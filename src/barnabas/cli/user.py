"""`barnabas user`: who can log in by SCRAM."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_rows
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from barnabas.client.admin.scram import ScramMechanism

COLUMNS = ("user", "mechanism", "iterations")
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_ITERATIONS = 4096
_EXAMPLES = """\
  barnabas user list
  barnabas user add alice                                    asks for the password
  barnabas user set-password alice --password-file secret.txt
  barnabas user delete alice --mechanism SCRAM-SHA-256
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, add and delete users, and set their passwords (SCRAM)"
    parts = add_command(subparsers, "user", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)
    listing = add_command(parts, "list", "list users, all or some")
    listing.add_argument("users", metavar="USER", nargs="*")
    listing.set_defaults(action=_list)
    adding = add_command(parts, "add", "add a user", examples=_EXAMPLES)
    changing = add_command(parts, "set-password", "give a user another password")
    for part, is_new in ((adding, True), (changing, False)):
        part.add_argument("user", metavar="USER")
        part.add_argument("--password-file", metavar="FILE", help="its first line is the password; - is standard input")
        part.add_argument("--iterations", metavar="N", type=int, default=_ITERATIONS, help="how often it is hashed")
        part.set_defaults(action=_set, is_new=is_new)
    deleting = add_command(parts, "delete", "delete a user")
    deleting.add_argument("user", metavar="USER")
    deleting.set_defaults(action=_delete)
    for part in (adding, changing, deleting):
        part.add_argument(
            "--mechanism",
            choices=_MECHANISMS,
            action="append",
            help="repeatable; without it all, or all that there are",
        )
    for part in (listing, adding, changing, deleting):
        add_connection(part)


def _list(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.describe_user_scram_credentials(args.users or None)
    rows = [
        {"user": user, "mechanism": info.mechanism.name.replace("_", "-"), "iterations": info.iterations}
        for user, infos in sorted(found.items())
        for info in infos
    ]
    print_rows(args.output, rows, COLUMNS)
    if not rows:
        note("there are no users of SCRAM")
    return 0


def _set(args: Namespace) -> int:
    from barnabas.client.admin.scram import UserScramCredentialUpsertion

    password = _password(args)
    with admin_client(args) as admin:
        there = admin.describe_user_scram_credentials([args.user], raise_errors=False)
        if args.is_new and args.user in there:
            raise ConfigError(
                f"there is a user {args.user!r} already; `barnabas user set-password` changes the password"
            )
        if not args.is_new and args.user not in there:
            raise ConfigError(f"there is no user {args.user!r}; `barnabas user add` adds one")
        for mechanism in _chosen(args.mechanism):
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(args.user, password, mechanism, iterations=args.iterations)]
            )
    note(f"{args.user} can log in by {', '.join(args.mechanism or _MECHANISMS)}")
    return 0


def _delete(args: Namespace) -> int:
    from barnabas.client.admin.scram import UserScramCredentialDeletion

    with admin_client(args) as admin:
        there = admin.describe_user_scram_credentials([args.user])[args.user]
        wanted = _chosen(args.mechanism) if args.mechanism else [info.mechanism for info in there]
        for mechanism in wanted:
            admin.alter_user_scram_credentials([UserScramCredentialDeletion(args.user, mechanism)])
    note(f"{args.user} cannot log in any more by {', '.join(one.name.replace('_', '-') for one in wanted)}")
    return 0


def _chosen(names: list[str] | None) -> list[ScramMechanism]:
    from barnabas.client.admin.scram import ScramMechanism

    return [ScramMechanism[name.replace("-", "_")] for name in names or _MECHANISMS]


def _password(args: argparse.Namespace) -> str:
    """Return the password: of a file, of standard input, or as it is typed; an argument would be seen by others."""
    if args.password_file == "-" or (args.password_file is None and not sys.stdin.isatty()):  # noqa: S105
        password = sys.stdin.readline().rstrip("\n")
    elif args.password_file is not None:
        try:
            with open(args.password_file, encoding="utf-8") as file:
                password = file.readline().rstrip("\n")
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigError(f"--password-file {args.password_file} cannot be read: {problem}") from None
    else:
        import getpass

        password = getpass.getpass(f"password of {args.user}: ")
        if getpass.getpass("again: ") != password:
            raise ConfigError("the two are not the same; nothing was changed")
    if not password:
        raise ConfigError("the password is empty; nothing was changed")
    return password
