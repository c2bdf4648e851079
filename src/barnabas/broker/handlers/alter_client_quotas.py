"""AlterClientQuotas: limits for users, client ids and addresses (KIP-546).

Versions 0-1. v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_quota_validation import check_quota_value, known_quotas, quota_entity
from barnabas.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.cluster_metadata import QuotaEntity
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, OpData

API = 49
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse | DelayedOperation:
    """Each entity is changed as a whole or not at all; what can be changed is changed in one commit."""
    return broker.in_turn(lambda: _change(broker, context, request))


def _change(
    broker: BrokerState, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse | DelayedOperation:
    planned: dict[QuotaEntity, dict[str, float]] = {}
    entries = []
    for asked in request.entries:
        entry = EntryData(
            error_message=None,
            entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in asked.entity],
        )
        try:
            entity = quota_entity(asked.entity)
            if entity in planned:
                raise errors.InvalidRequestError(f"Ignoring duplicate entity {dict(entity)}")
            quotas = dict(broker.metadata.client_quotas.get(entity, {}))
            _apply(quotas, asked.ops, known_quotas(entity))
            planned[entity] = quotas
        except errors.KafkaError as problem:
            entry.error_code, entry.error_message = problem.code, str(problem)
        entries.append(entry)

    def answer(problem: errors.KafkaError | None) -> AlterClientQuotasResponse:
        for entry in entries:
            if problem is not None and entry.error_code == errors.NONE:
                entry.error_code, entry.error_message = problem.code, str(problem)
        return AlterClientQuotasResponse(entries=entries)

    if not planned or request.validate_only:
        return answer(None)
    return broker.commit(lambda done: broker.metadata.put_client_quotas(planned, done), answer)


def _apply(quotas: dict[str, float], operations: list[OpData], known: dict[str, str]) -> None:
    keys = [operation.key for operation in operations]
    if len(set(keys)) < len(keys):
        raise errors.InvalidRequestError(f"Duplicate quota key among {', '.join(keys)}")
    for operation in operations:
        if operation.remove:
            quotas.pop(operation.key, None)
        else:
            check_quota_value(operation.key, operation.value, known)
            quotas[operation.key] = operation.value
