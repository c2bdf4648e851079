"""Delegation tokens: secrets that stand for a user for some time (DelegationTokenControlManager; KIP-48, KIP-900)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.controller_result import ControllerResult
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.security.delegation_tokens import USER
from barnabas.protocol.kafka_uuid import random_uuid, to_text
from barnabas.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from random import Random

    from barnabas.broker.controller.controller_result import ControllerRequestContext, Records
    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest

_MOST_EXPIRED_AT_ONCE = 1000
_LAST = 2**63 - 1
#: From this version on CreateDelegationToken tells who asked for the token (KIP-373).
_TELLS_REQUESTER_FROM = 3


class TokenSettings(NamedTuple):
    """`secret` makes the proofs; without one there are no tokens. The times are in milliseconds."""

    secret: str | None = None
    max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    expiry_ms: int = 24 * 3600 * 1000


class DelegationTokenControlManager:
    """Makes, renews and ends tokens; `random` makes their ids."""

    def __init__(self, state: ControllerState, settings: TokenSettings, random: Random) -> None:
        self._state = state
        self._settings = settings
        self._random = random

    def create(
        self, context: ControllerRequestContext, request: CreateDelegationTokenRequest
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        """Make a token for the requester, or for the owner who is named."""
        requester_type, _, requester = context.principal.partition(":")
        owner_type, owner = requester_type, requester
        if request.owner_principal_name:
            owner_type, owner = request.owner_principal_type or USER, request.owner_principal_name
        response = CreateDelegationTokenResponse(principal_type=owner_type, principal_name=owner)
        if context.api_version >= _TELLS_REQUESTER_FROM:
            response.token_requester_principal_type = requester_type
            response.token_requester_principal_name = requester
        try:
            self._check_enabled()
            # Apache Kafka takes any type of owner, and a client with such a token is a user of that name.
            if any(kind != USER for kind in (owner_type, *(one.principal_type for one in request.renewers))):
                raise errors.InvalidPrincipalTypeError()
        except errors.KafkaError as problem:
            response.error_code = problem.code
            return ControllerResult((), response, True)
        now = context.now.now_ms
        lifetime = self._settings.max_lifetime_ms
        if request.max_lifetime_ms > 0:
            lifetime = min(lifetime, request.max_lifetime_ms)
        record = DelegationTokenRecord(
            owner=f"{owner_type}:{owner}",
            requester=context.principal,
            renewers=[f"{found.principal_type}:{found.principal_name}" for found in request.renewers],
            issue_timestamp=now,
            max_timestamp=_sum(now, lifetime),
            expiration_timestamp=min(_sum(now, lifetime), _sum(now, self._settings.expiry_ms)),
            token_id=to_text(random_uuid(self._random)),
        )
        response.issue_timestamp_ms, response.max_timestamp_ms = now, record.max_timestamp
        response.expiry_timestamp_ms = record.expiration_timestamp
        response.token_id, response.hmac = record.token_id, self._hmac(record.token_id)
        return ControllerResult([ApiMessageAndVersion(record)], response, True)

    def renew(
        self, context: ControllerRequestContext, request: RenewDelegationTokenRequest
    ) -> ControllerResult[RenewDelegationTokenResponse]:
        """Put off a token's end, at most to the end of its life."""
        now = context.now.now_ms
        try:
            token = self._token(request.hmac)
            if _has_expired(token, now):
                raise errors.DelegationTokenExpiredError()
            self._check_renewer(context, token)
        except errors.KafkaError as problem:
            return ControllerResult((), RenewDelegationTokenResponse(error_code=problem.code), True)
        period = self._settings.expiry_ms
        if request.renew_period_ms > 0:
            period = min(period, request.renew_period_ms)
        expiry = min(token.max_timestamp, _sum(now, period))
        record = _with_expiry(token, expiry)
        return ControllerResult(
            [ApiMessageAndVersion(record)], RenewDelegationTokenResponse(expiry_timestamp_ms=expiry), True
        )

    def expire(
        self, context: ControllerRequestContext, request: ExpireDelegationTokenRequest
    ) -> ControllerResult[ExpireDelegationTokenResponse]:
        """End a token, now (a negative period) or after a time."""
        now = context.now.now_ms
        try:
            token = self._token(request.hmac)
            self._check_renewer(context, token)
            if request.expiry_time_period_ms >= 0 and _has_expired(token, now):
                raise errors.DelegationTokenExpiredError()
        except errors.KafkaError as problem:
            return ControllerResult((), ExpireDelegationTokenResponse(error_code=problem.code), True)
        if request.expiry_time_period_ms < 0:
            gone = ApiMessageAndVersion(RemoveDelegationTokenRecord(token_id=token.token_id))
            return ControllerResult([gone], ExpireDelegationTokenResponse(expiry_timestamp_ms=now), True)
        expiry = min(token.max_timestamp, _sum(now, request.expiry_time_period_ms))
        record = ApiMessageAndVersion(_with_expiry(token, expiry))
        return ControllerResult([record], ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry), True)

    def sweep_expired(self, now_ms: int) -> ControllerResult[bool]:
        """Remove tokens that have expired; the response: whether there may be more."""
        expired = [token for token in self._state.image.delegation_tokens.values() if _has_expired(token, now_ms)]
        records: Records = [
            ApiMessageAndVersion(RemoveDelegationTokenRecord(token_id=token.token_id))
            for token in expired[:_MOST_EXPIRED_AT_ONCE]
        ]
        return ControllerResult(records, len(expired) > _MOST_EXPIRED_AT_ONCE)

    def _check_enabled(self) -> None:
        if self._settings.secret is None:
            raise errors.DelegationTokenDisabledError()
        if not self._state.metadata_version.is_delegation_token_supported:
            raise errors.UnsupportedVersionError()

    def _hmac(self, token_id: str) -> bytes:
        return hmac.digest((self._settings.secret or "").encode(), token_id.encode(), "sha512")

    def _token(self, proof: bytes) -> DelegationTokenRecord:
        self._check_enabled()
        for token in self._state.image.delegation_tokens.values():
            if hmac.compare_digest(self._hmac(token.token_id), bytes(proof)):
                return token
        raise errors.DelegationTokenNotFoundError()

    def _check_renewer(self, context: ControllerRequestContext, token: DelegationTokenRecord) -> None:
        if context.principal not in (token.owner, *token.renewers):
            raise errors.DelegationTokenOwnerMismatchError()


def _has_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def _with_expiry(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=token.token_id,
    )


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(_LAST, now_ms + duration_ms)
