"""Quotas of users, client ids and addresses (ClientQuotaControlManager, KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_quota_validation import check_quota_value, known_quotas, quota_entity
from barnabas.broker.controller.controller_result import DONE, ControllerResult, Outcome, Records, check_size
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.broker.metadata.metadata_image import QuotaEntity
    from barnabas.protocol.messages.alter_client_quotas_request import EntryData


class ClientQuotaControlManager:
    """Plans changes of quotas: each entity as a whole or not at all."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_client_quotas(self, entries: Sequence[EntryData]) -> ControllerResult[list[Outcome]]:
        """Change the quotas of entities; the response has an outcome for each entry."""
        records: Records = []
        outcomes: list[Outcome] = []
        seen: set[QuotaEntity] = set()
        for entry in entries:
            try:
                entity = quota_entity(entry.entity)
                if entity in seen:
                    raise errors.InvalidRequestError(f"Ignoring duplicate entity {dict(entity)}")
                seen.add(entity)
                records += self._altered(entry, entity)
                outcomes.append(DONE)
            except errors.KafkaError as problem:
                outcomes.append(Outcome.of(problem))
        check_size(records)
        return ControllerResult(records, outcomes, True)

    def _altered(self, entry: EntryData, entity: QuotaEntity) -> Records:
        present = self._state.image.client_quotas.get(entity, {})
        keys = [operation.key for operation in entry.ops]
        if len(set(keys)) < len(keys):
            raise errors.InvalidRequestError(
                f"Duplicate quota key among {', '.join(keys)} not updating quota for this entity {dict(entity)}"
            )
        records: Records = []
        for operation in entry.ops:
            key = operation.key
            if not operation.remove:
                check_quota_value(key, operation.value, known_quotas(entity))
            value = None if operation.remove else operation.value
            if present.get(key) != value:
                parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str)]
                record = ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=operation.remove)
                records.append(ApiMessageAndVersion(record))
        return records
