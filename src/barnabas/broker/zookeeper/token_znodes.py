"""Delegation tokens in their znodes, and the announcements of their changes (DelegationTokenManagerZk of 3.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.security.delegation_tokens import DelegationToken
from barnabas.broker.zookeeper.announcements import NONE, Announcements
from barnabas.broker.zookeeper.operations import (
    Children,
    Create,
    Delete,
    Get,
    NoNodeError,
    Program,
    SetData,
    check,
    expect,
    found_or_none,
    make_missing,
)
from barnabas.broker.zookeeper.znodes import MalformedZnodeError, decode, desanitized, encode, sanitized
from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.zookeeper.announcements import Report
    from barnabas.protocol.message import Message

TOKENS, TOKEN_CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"
_VERSION = 3
#: Before version 3 (KIP-373) each token was of who had asked for it.
_REQUESTER_SINCE = 3


class FoundTokens(NamedTuple):
    """Tokens by their ids, None for those that are gone, and the number of the last announcement."""

    tokens: Mapping[str, DelegationToken | None]
    last_change: int


def token_path(token_id: str) -> str:
    """Return where a token stands."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Return what stands in a token's znode."""
    return encode(
        {
            "version": _VERSION,
            "owner": sanitized(token.owner),
            "tokenRequester": sanitized(token.requester),
            "renewers": [sanitized(one) for one in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.id,
        }
    )


def decode_token(path: str, data: bytes | None) -> DelegationToken:
    """Return the token of a znode. Raises `MalformedZnodeError`."""
    value: dict[str, Any] = decode(path, data)
    try:
        if not 1 <= value["version"] <= _VERSION:
            raise MalformedZnodeError(f"the znode {path} has version {value['version']}: {_VERSION} is the last known")
        owner = str(desanitized(value["owner"]))
        requester = value["tokenRequester"] if value["version"] >= _REQUESTER_SINCE else value["owner"]
        times = (value["issueTimestamp"], value["maxTimestamp"], value["expiryTimestamp"])
        renewers = tuple(str(desanitized(one)) for one in value["renewers"])
        return DelegationToken(
            str(value["tokenId"]), owner, str(desanitized(requester)), renewers, *(int(one) for one in times)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise MalformedZnodeError(f"the znode {path} holds no token that Kafka writes: {problem!r}") from problem


def decode_change(path: str, data: bytes | None) -> str:
    """Return the id of the token that has changed. Raises `MalformedZnodeError`."""
    try:
        token_id = (data or b"").decode()
    except UnicodeDecodeError:
        token_id = ""
    if token_id in ("", ".", "..") or "/" in token_id or "\0" in token_id:
        raise MalformedZnodeError(f"the znode {path} announces no change of a token: {data!r}")
    return token_id


ANNOUNCEMENTS = Announcements(TOKEN_CHANGES, "token_change_", decode_change)


# -- programs --------------------------------------------------------------------------------------------------------


def read_all_tokens(report: Report) -> Program[FoundTokens]:
    """Read all tokens, and make the znodes for them. Changes are watched from before, so none is missed."""
    yield from make_missing((TOKENS.rpartition("/")[0], TOKEN_CHANGES, TOKENS))
    last = yield from ANNOUNCEMENTS.watch()
    (ids,) = yield [Children(TOKENS)]
    return FoundTokens((yield from _read(expect(ids, list), report)), last)


def read_token_changes(after: int, report: Report) -> Program[FoundTokens]:
    """Read the tokens whose change was announced after a number.

    `report` is told of what is no announcement and no token; they are left out.
    """
    changed, last = yield from ANNOUNCEMENTS.read(after, report)
    return FoundTokens((yield from _read(changed, report)), last)


def write_tokens(changed: Collection[DelegationToken], removed: Collection[str]) -> Program[FoundTokens]:
    """Write tokens and take others away, and announce each."""
    for token in changed:
        path, data = token_path(token.id), encode_token(token)
        (result,) = yield [SetData(path, data)]
        if isinstance(result, NoNodeError):
            (result,) = yield [Create(path, data)]
        check(result)
        yield from announce([token.id])
    for token_id in removed:
        (result,) = yield [Delete(token_path(token_id))]
        if not isinstance(result, NoNodeError):
            check(result)
        yield from announce([token_id])
    return FoundTokens({**{token.id: token for token in changed}, **dict.fromkeys(removed)}, NONE)


def announce(token_ids: Iterable[str]) -> Program[None]:
    """Tell all brokers that tokens have changed, one after the other."""
    return ANNOUNCEMENTS.announce(token_id.encode() for token_id in token_ids)


def _read(ids: Collection[str], report: Report) -> Program[dict[str, DelegationToken | None]]:
    results = yield [Get(token_path(token_id)) for token_id in ids]
    found: dict[str, DelegationToken | None] = {}
    for token_id, result in zip(ids, results, strict=True):
        znode = found_or_none(result)
        found[token_id] = None
        # An empty one is one that Apache Kafka passes over.
        if znode is not None and znode.data:
            try:
                found[token_id] = decode_token(token_path(token_id), znode.data)
            except MalformedZnodeError as problem:
                report(problem)
    return found


# -- metadata --------------------------------------------------------------------------------------------------------


def token_records(image: MetadataImage, found: FoundTokens, *, is_all: bool = False) -> Iterable[Message]:
    """Give the records with which an image has these tokens; `is_all`: and no others."""
    for token_id in image.delegation_tokens:
        if found.tokens.get(token_id) is None and (is_all or token_id in found.tokens):
            yield RemoveDelegationTokenRecord(token_id=token_id)
    for token in found.tokens.values():
        if token is not None:
            record = _record(token)
            if image.delegation_tokens.get(token.id) != record:
                yield record


def _record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expiry_ms,
        token_id=token.id,
    )
