"""Quotas of clients: how fast who may produce, fetch and ask (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Scope, StaticLookup
from barnabas.client.admin.requests import Answer, KeyedRequest, one_request
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
    from barnabas.protocol.messages.alter_client_quotas_response import EntryData as AlteredEntry
    from barnabas.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
    from barnabas.protocol.messages.describe_client_quotas_response import EntryData as DescribedEntry

_EXACT, _DEFAULT, _ANY = range(3)


class ClientQuotaEntity(NamedTuple):
    """Who a quota is for: names by type (`user`, `client-id`, `ip`), where None is the default of its type."""

    entries: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, **names: str | None) -> ClientQuotaEntity:
        """`of(user="alice")`, `of(user="alice", client_id=None)`, `of(ip="10.0.0.1")`."""
        return cls.of_types({kind.replace("_", "-"): name for kind, name in names.items()})

    @classmethod
    def of_types(cls, names: Mapping[str, str | None]) -> ClientQuotaEntity:
        """Return the entity with these names by type, as the protocol spells the types."""
        return cls(tuple(sorted(names.items())))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in self.entries)


class ClientQuotaFilterComponent(NamedTuple):
    """What an entity must have to be found; made by the class methods."""

    entity_type: str
    match_type: int
    match: str | None

    @classmethod
    def of_entity(cls, entity_type: str, name: str) -> ClientQuotaFilterComponent:
        """Entities with exactly this name."""
        return cls(entity_type, _EXACT, name)

    @classmethod
    def of_default(cls, entity_type: str) -> ClientQuotaFilterComponent:
        """Return the default of a type."""
        return cls(entity_type, _DEFAULT, None)

    @classmethod
    def of_type(cls, entity_type: str) -> ClientQuotaFilterComponent:
        """Every entity that has a name, or the default, of this type."""
        return cls(entity_type, _ANY, None)


Quotas = dict[str, float]
"""Values by quota, such as `producer_byte_rate`."""


def describe_quotas(
    components: Iterable[ClientQuotaFilterComponent], *, strict: bool
) -> KeyedRequest[str, dict[ClientQuotaEntity, Quotas]]:
    """DescribeClientQuotas, at any broker."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=c.entity_type, match_type=c.match_type, match=c.match) for c in components
        ],
        strict=strict,
    )

    def read(response: DescribeClientQuotasResponse) -> dict[ClientQuotaEntity, Quotas]:
        return {_entity(entry): {v.key: v.value for v in entry.values} for entry in response.entries or ()}

    return one_request("describe_client_quotas", lambda timeout_ms: request, read)


def alter_quotas(
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> KeyedRequest[ClientQuotaEntity, None]:
    """AlterClientQuotas, at any broker; None removes a quota."""

    def build(keys: list[ClientQuotaEntity], timeout_ms: int) -> AlterClientQuotasRequest:
        return AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in key.entries],
                    ops=[
                        OpData(key=quota, value=value or 0.0, remove=value is None)
                        for quota, value in changes[key].items()
                    ],
                )
                for key in keys
            ],
            validate_only=validate_only,
        )

    def answers(
        keys: list[ClientQuotaEntity], response: AlterClientQuotasResponse
    ) -> Iterable[Answer[ClientQuotaEntity, None]]:
        for entry in response.entries:
            yield _entity(entry), entry.error_code, entry.error_message, None

    return KeyedRequest("alter_client_quotas", StaticLookup(Scope.ANY), build, answers)


def _entity(entry: DescribedEntry | AlteredEntry) -> ClientQuotaEntity:
    return ClientQuotaEntity.of_types({part.entity_type: part.entity_name for part in entry.entity})
