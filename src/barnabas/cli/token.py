"""`barnabas token`: delegation tokens, by which programs act for a user without that user's password (KIP-48)."""

from __future__ import annotations

import argparse
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_json, print_rows, time_text
from barnabas.client.position_syntax import parse_duration
from barnabas.errors import ConfigError, DelegationTokenNotFoundError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.delegation_tokens import DelegationToken

COLUMNS = ("id", "owner", "renewers", "expires", "ends")
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_EXAMPLES = """\
  barnabas token create --lifetime 7d --renewer User:scheduler --config client.properties
  barnabas token list
  barnabas token renew TOKEN-ID --for 1d
  barnabas token expire TOKEN-ID
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, create, renew and expire delegation tokens"
    parts = add_command(subparsers, "token", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)
    listing = add_command(parts, "list", "list tokens, without their secrets: all that you may see, or some owners'")
    listing.add_argument("--owner", metavar="USER", action="append", help="only tokens of User:alice; repeatable")
    creating = add_command(parts, "create", "create a token, and print how to log in with it", examples=_EXAMPLES)
    creating.add_argument("--owner", metavar="USER", help="for whom, as User:alice; without it for yourself")
    creating.add_argument("--renewer", metavar="USER", action="append", default=[], help="who may renew; repeatable")
    creating.add_argument(
        "--lifetime",
        metavar="TIME",
        type=_duration,
        help="at most so long, such as 7d; without it the broker's longest",
    )
    renewing = add_command(parts, "renew", "let a token live longer, within its lifetime", examples=_EXAMPLES)
    renewing.add_argument(
        "--for", dest="period", metavar="TIME", type=_duration, help="from now on, such as 1d; without it the broker's"
    )
    expiring = add_command(parts, "expire", "let a token end, at once or after a time", examples=_EXAMPLES)
    expiring.add_argument(
        "--after", dest="period", metavar="TIME", type=_duration, help="such as 1h; without it at once"
    )
    for part, action in ((listing, _list), (creating, _create), (renewing, _renew), (expiring, _expire)):
        if part in (renewing, expiring):
            part.add_argument("token_id", metavar="TOKEN-ID")
        add_connection(part)
        part.set_defaults(action=action)


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if not seconds or seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 500ms, 30s, 5m, 2h or 1d")
    return seconds


def _list(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.describe_delegation_token([_principal(owner) for owner in args.owner] if args.owner else None)
    print_rows(args.output, [_row(token) for token in sorted(found)], COLUMNS)
    if not found:
        note("there are no tokens that you may see")
    return 0


def _create(args: Namespace) -> int:
    owner = None if args.owner is None else _principal(args.owner)
    renewers = [_principal(renewer) for renewer in args.renewer]
    with admin_client(args) as admin:
        token = admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime=args.lifetime)
    secret = b64encode(token.hmac).decode()
    login = f'{_MODULE} required username="{token.token_id}" password="{secret}" tokenauth="true";'
    if args.output != "human":
        print_json({**_row(token), "secret": secret, "sasl.jaas.config": login})
        return 0
    print(f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}")
    note(
        f"these settings log in as {token.owner} until {time_text(token.expiry_timestamp)}; with renewals until "
        f"{time_text(token.max_timestamp)}"
    )
    return 0


def _renew(args: Namespace) -> int:
    with admin_client(args) as admin:
        expires = admin.renew_delegation_token(_secret(admin, args.token_id), renew_period=args.period)
    note(f"token {args.token_id} expires at {time_text(expires)}")
    return 0


def _expire(args: Namespace) -> int:
    with admin_client(args) as admin:
        expires = admin.expire_delegation_token(_secret(admin, args.token_id), expiry_period=args.period)
    note(f"token {args.token_id} has expired" if args.period is None else f"it expires at {time_text(expires)}")
    return 0


def _secret(admin: AdminClient, token_id: str) -> bytes:
    """Return what a token is renewed and expired by: as an argument it would be seen by others."""
    for token in admin.describe_delegation_token():
        if token.token_id == token_id:
            return token.hmac
    raise DelegationTokenNotFoundError(
        f"there is no token {token_id!r} that you may see; `barnabas token list` shows those there are"
    )


def _row(token: DelegationToken) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "owner": token.owner,
        "renewers": list(token.renewers),
        "expires": time_text(token.expiry_timestamp),
        "ends": time_text(token.max_timestamp),
    }


def _principal(text: str) -> str:
    if ":" not in text or text.endswith(":"):
        raise ConfigError(f"{text!r} is no principal: write User:{text.rstrip(':') or 'alice'}")
    return text
