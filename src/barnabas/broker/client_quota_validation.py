"""Whose quotas may be set, and to what (ClientQuotaControlManager's rules, KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_quota_manager import CLIENT_ID, IP, USER
from barnabas.config.quota_config import IP_QUOTAS, USER_AND_CLIENT_QUOTAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.metadata.cluster_metadata import QuotaEntity
    from barnabas.protocol.messages.alter_client_quotas_request import EntityData

_LARGEST = {"int": 2**31 - 1, "long": 2**63 - 1}


def known_quotas(entity: QuotaEntity) -> dict[str, str]:
    """Return the quotas that an entity can have, with the types of their values."""
    return IP_QUOTAS if IP in dict(entity) else USER_AND_CLIENT_QUOTAS


def quota_entity(asked: Sequence[EntityData]) -> QuotaEntity:
    """Return whose quotas are meant. Raises `InvalidRequestError` for a combination that has none."""
    parts = {part.entity_type: part.entity_name for part in asked}
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


def check_quota_value(key: str, value: float, known: dict[str, str]) -> None:
    """Raise `InvalidRequestError` unless a quota may have this value; `known` are the quotas of its entity."""
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
