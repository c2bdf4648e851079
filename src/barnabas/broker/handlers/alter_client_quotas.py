"""AlterClientQuotas: limits for users, client ids and addresses (KIP-546).

Versions 0-1. v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_quotas import CLIENT_ID, IP, IP_QUOTAS, USER, USER_AND_CLIENT_QUOTAS
from barnabas.protocol.kinds import AclOperation, ResourceType
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
    from barnabas.protocol.messages.alter_client_quotas_request import EntryData as AskedEntry

API = 49
VERSIONS = (0, 1)
OPERATION = AclOperation.ALTER_CONFIGS
RESOURCE = ResourceType.CLUSTER

_LARGEST = {"int": 2**31 - 1, "long": 2**63 - 1}


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
            entity = _entity(asked)
            if entity in planned:
                raise errors.InvalidRequestError(f"Ignoring duplicate entity {dict(entity)}")
            quotas = dict(broker.metadata.client_quotas.get(entity, {}))
            _apply(quotas, asked.ops, IP_QUOTAS if IP in dict(entity) else USER_AND_CLIENT_QUOTAS)
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


def _entity(asked: AskedEntry) -> QuotaEntity:
    parts = {part.entity_type: part.entity_name for part in asked.entity}
    if not parts:
        raise errors.InvalidRequestError("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise errors.InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise errors.InvalidRequestError(f"Empty {kind} not supported")
    if IP in parts:
        if len(parts) > 1:
            raise errors.InvalidRequestError(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        _check_address(parts[IP])
    return frozenset(parts.items())


def _check_address(address: str | None) -> None:
    from ipaddress import ip_address

    # Kafka also takes host names and resolves them; here that would block the loop.
    try:
        ip_address(address if address is not None else "127.0.0.1")
    except ValueError as problem:
        raise errors.InvalidRequestError(f"{address} is not a valid IP address.") from problem


def _apply(quotas: dict[str, float], operations: list[OpData], known: dict[str, str]) -> None:
    keys = [operation.key for operation in operations]
    if len(set(keys)) < len(keys):
        raise errors.InvalidRequestError(f"Duplicate quota key among {', '.join(keys)}")
    for operation in operations:
        if operation.remove:
            quotas.pop(operation.key, None)
        else:
            _check_value(operation.key, operation.value, known)
            quotas[operation.key] = operation.value


def _check_value(key: str, value: float, known: dict[str, str]) -> None:
    kind = known.get(key)
    if kind is None:
        raise errors.InvalidRequestError(f"Invalid configuration key {key}")
    # Not-a-number is neither.
    if not value > 0:
        raise errors.InvalidRequestError(f"Quota {key} must be greater than 0")
    if kind == "double":
        return
    if value > _LARGEST[kind]:
        raise errors.InvalidRequestError(f"Proposed value for {key} is too large for {kind.upper()}.")
    if value % 1 > 1e-6:
        raise errors.InvalidRequestError(f"{key} cannot be a fractional value.")
