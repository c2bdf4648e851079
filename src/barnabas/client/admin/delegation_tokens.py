"""Delegation tokens: credentials that a user makes for programs that act for them (KIP-48, KIP-373)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.requests import KeyedRequest, one_request
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
    from barnabas.protocol.messages.describe_delegation_token_response import (
        DescribedDelegationToken,
        DescribeDelegationTokenResponse,
    )
    from barnabas.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
    from barnabas.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse


class DelegationToken(NamedTuple):
    """A token. `token_id` and `hmac` are the name and (in Base64) the password of SCRAM; times are epoch milliseconds.

    Principals are written as in `User:alice`; `requester` made it for `owner` ("" before Kafka 3.3).
    """

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    @property
    def hmac_as_base64_string(self) -> str:
        """What a client gives as the password of SCRAM."""
        return b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        return (
            f"DelegationToken({self.token_id!r}, hmac=<hidden>, owner={self.owner!r}, requester={self.requester!r}, "
            f"renewers={self.renewers}, issue_timestamp={self.issue_timestamp}, "
            f"expiry_timestamp={self.expiry_timestamp}, max_timestamp={self.max_timestamp})"
        )


def create_token(
    owner: str | None, renewers: Iterable[str], max_lifetime: float | None
) -> KeyedRequest[str, DelegationToken]:
    """CreateDelegationToken, at any broker; None is the broker's longest lifetime."""
    named = tuple(renewers)
    owner_type, owner_name = (None, None) if owner is None else _principal(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_principal, named)],
        max_lifetime_ms=_milliseconds(max_lifetime),
    )

    def read(response: CreateDelegationTokenResponse) -> DelegationToken:
        return DelegationToken(
            response.token_id,
            response.hmac,
            f"{response.principal_type}:{response.principal_name}",
            _requester(response),
            named,
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    return one_request("create_delegation_token", lambda timeout_ms: request, read)


def renew_token(hmac: bytes, period: float | None) -> KeyedRequest[str, int]:
    """RenewDelegationToken, at any broker; None is the broker's default."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=_milliseconds(period))
    return one_request("renew_delegation_token", lambda timeout_ms: request, _expiry)


def expire_token(hmac: bytes, period: float | None) -> KeyedRequest[str, int]:
    """ExpireDelegationToken, at any broker; None is at once."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=_milliseconds(period))
    return one_request("expire_delegation_token", lambda timeout_ms: request, _expiry)


def describe_tokens(owners: Iterable[str] | None) -> KeyedRequest[str, list[DelegationToken]]:
    """DescribeDelegationToken, at any broker; None asks for every token that the caller may see."""
    named = None
    if owners is not None:
        named = [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, owners)
        ]
    request = DescribeDelegationTokenRequest(owners=named)

    def read(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
        return [_described(token) for token in response.tokens]

    return one_request("describe_delegation_token", lambda timeout_ms: request, read)


def _described(token: DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        token.token_id,
        token.hmac,
        f"{token.principal_type}:{token.principal_name}",
        _requester(token),
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )


def _requester(token: CreateDelegationTokenResponse | DescribedDelegationToken) -> str:
    name = token.token_requester_principal_name
    return f"{token.token_requester_principal_type}:{name}" if name else ""


def _expiry(response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse) -> int:
    return response.expiry_timestamp_ms


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise IllegalArgumentError(f"{text!r} is not a principal; write it as in User:alice")
    return kind, name


def _milliseconds(seconds: float | None) -> int:
    return -1 if seconds is None else int(seconds * 1000)
