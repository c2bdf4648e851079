"""DescribeClientQuotas: the limits of the entities that a filter lets through (KIP-546).

Versions 0-1. v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_quota_manager import CLIENT_ID, IP, USER
from barnabas.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.cluster_metadata import QuotaEntity
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

API = 48
VERSIONS = (0, 1)

_EXACT, _DEFAULT, _ANY = range(3)
#: Entity type → the name that it must have: a string, None for the default; `...` for any.
_Filter = dict[str, object]


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return an entity passes when it has every part of the filter; when it is strict, no other part either."""
    try:
        wanted = _filter(request.components)
    except errors.KafkaError as problem:
        return DescribeClientQuotasResponse(error_code=problem.code, error_message=str(problem), entries=None)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity)],
            values=[ValueData(key=key, value=quotas[key]) for key in sorted(quotas)],
        )
        for entity, quotas in broker.metadata.client_quotas.items()
        if _passes(entity, wanted, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _filter(components: list[ComponentData]) -> _Filter:
    wanted: _Filter = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise errors.InvalidRequestError("Invalid empty entity type.")
        if kind in wanted:
            raise errors.InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise errors.UnsupportedVersionError(f"Unsupported entity type {kind}")
        wanted[kind] = _match(component)
    if IP in wanted and len(wanted) > 1:
        raise errors.InvalidRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return wanted


def _match(component: ComponentData) -> object:
    kind, name = component.match_type, component.match
    if kind == _EXACT:
        if name is None:
            raise errors.InvalidRequestError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return name
    if kind not in (_DEFAULT, _ANY):
        raise errors.InvalidRequestError(f"Unknown match type {kind}")
    if name is not None:
        shown = "MATCH_TYPE_DEFAULT" if kind == _DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise errors.InvalidRequestError(f"Request specified {shown}, but also specified a match string.")
    return None if kind == _DEFAULT else ...


def _passes(entity: QuotaEntity, wanted: _Filter, *, strict: bool) -> bool:
    parts = dict(entity)
    if strict and len(parts) != len(wanted):
        return False
    return all(kind in parts and (match is ... or parts[kind] == match) for kind, match in wanted.items())
