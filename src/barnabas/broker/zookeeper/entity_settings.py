"""Quotas and SCRAM credentials as clients ask for them, as edits of znodes (ZkAdminManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import errors
from barnabas.broker.client_quota_validation import check_quota_value, known_quotas, quota_entity
from barnabas.broker.handlers.alter_user_scram_credentials import planned
from barnabas.broker.membership.refusals import refused
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.broker.zookeeper.setting_records import quota_path
from barnabas.broker.zookeeper.znodes import sanitized
from barnabas.network.security.scram import to_base64
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.network.security.scram import StoredCredential
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages import alter_client_quotas_request
    from barnabas.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from barnabas.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
    )

    #: Gives the response: with None, or with why the edits were not made.
    Answer = Callable[[errors.KafkaError | None], Message]


class Edits(NamedTuple):
    """Values that the znode of an entity (`users/alice`) gets; None: loses."""

    entity: str
    values: Mapping[str, str | None]


def _quotas(
    broker: BrokerState, context: RequestContext, request: AlterClientQuotasRequest
) -> tuple[list[Edits], Answer]:
    """Plan AlterClientQuotas: each entity as a whole or not at all."""
    edits: dict[str, Edits] = {}
    entries = []
    for asked in request.entries:
        entry = EntryData(
            error_message=None, entity=[EntityData(part.entity_type, part.entity_name) for part in asked.entity]
        )
        entries.append(entry)
        try:
            path = quota_path(quota_entity(asked.entity))
            if path in edits:
                raise errors.InvalidRequestError(f"Ignoring duplicate entity {path}")
            edits[path] = Edits(path, _quota_values(asked))
        except errors.KafkaError as problem:
            entry.error_code, entry.error_message = problem.code, str(problem)

    def answer(problem: errors.KafkaError | None) -> Message:
        for entry in entries:
            if problem is not None and not entry.error_code:
                entry.error_code, entry.error_message = problem.code, str(problem)
        return AlterClientQuotasResponse(entries=entries)

    return [] if request.validate_only else list(edits.values()), answer


def _quota_values(asked: alter_client_quotas_request.EntryData) -> dict[str, str | None]:
    known = known_quotas(quota_entity(asked.entity))
    times = Counter(operation.key for operation in asked.ops)
    values: dict[str, str | None] = {}
    for operation in asked.ops:
        if times[operation.key] > 1:
            raise errors.InvalidRequestError(f"Duplicate quota key {operation.key}")
        if operation.remove:
            values[operation.key] = None
        else:
            check_quota_value(operation.key, operation.value, known)
            is_whole = known[operation.key] != "double"
            values[operation.key] = str(int(operation.value)) if is_whole else str(float(operation.value))
    return values


def _credentials(
    broker: BrokerState, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> tuple[list[Edits], Answer]:
    """Plan AlterUserScramCredentials: each user once at most."""
    if context.connection.is_token_authenticated:
        response = refused(request, errors.UnsupportedByAuthenticationError.code)
        return [], lambda problem: response
    changes, answer = planned(ScramUsers(broker.metadata), request)
    return [
        Edits(f"users/{sanitized(user)}", {mechanism: None if credential is None else credential_text(credential)})
        for (user, mechanism), credential in changes.items()
    ], answer


def credential_text(credential: StoredCredential) -> str:
    """Return a credential as the znode of its user has it."""
    parts = {
        "salt": to_base64(credential.salt),
        "stored_key": to_base64(credential.stored_key),
        "server_key": to_base64(credential.server_key),
        "iterations": str(credential.iterations),
    }
    return ",".join(f"{name}={value}" for name, value in parts.items())


# A row takes the request of its API; only the table does not tell them apart.
PLANS: dict[int, Callable[[BrokerState, RequestContext, Any], tuple[list[Edits], Answer]]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
}
