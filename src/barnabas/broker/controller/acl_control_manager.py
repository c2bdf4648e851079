"""Access control lists (AclControlManager, KIP-801)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.controller_result import (
    DONE,
    MAX_RECORDS_PER_USER_OP,
    ControllerResult,
    Outcome,
    Records,
    check_size,
)
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.security.acl_binding import AclBinding, AclFilter
from barnabas.protocol.kafka_uuid import random_uuid
from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from barnabas.broker.controller.controller_state import ControllerState


class DeletedAcls(NamedTuple):
    """What one filter has found."""

    outcome: Outcome
    deleted: Sequence[AclBinding] = ()


class AclControlManager:
    """Plans ACLs; `random` makes their ids."""

    def __init__(self, state: ControllerState, random: Random) -> None:
        self._state = state
        self._random = random
        self._known_records: Mapping[bytes, AccessControlEntryRecord] | None = None
        self._known: dict[AclBinding, bytes] = {}

    def create_acls(self, acls: Sequence[AclBinding]) -> ControllerResult[list[Outcome]]:
        """Create ACLs; one that is there already is created once more without effect."""
        present = self._present()
        outcomes: list[Outcome] = []
        planned: dict[AclBinding, None] = {}
        for acl in acls:
            try:
                acl.check()
                if acl not in present:
                    planned[acl] = None
                outcomes.append(DONE)
            except errors.InvalidRequestError as problem:
                outcomes.append(Outcome.of(problem))
        records: Records = [ApiMessageAndVersion(self._record(acl)) for acl in planned]
        check_size(records)
        return ControllerResult(records, outcomes, True)

    def delete_acls(self, filters: Sequence[AclFilter]) -> ControllerResult[list[DeletedAcls]]:
        """Delete the ACLs that any filter matches. Raises `InvalidRequestError` if there are too many."""
        results: list[DeletedAcls] = []
        going: dict[bytes, None] = {}
        for wanted in filters:
            try:
                wanted.check()
            except errors.InvalidRequestError as problem:
                results.append(DeletedAcls(Outcome.of(problem)))
                continue
            found = {acl: id for acl, id in self._present().items() if wanted.matches(acl)}
            going.update(dict.fromkeys(found.values()))
            results.append(DeletedAcls(DONE, list(found)))
        if len(going) > MAX_RECORDS_PER_USER_OP:
            # An answer that names a part of them would be read as success.
            raise errors.InvalidRequestError(
                f"Cannot remove more than {MAX_RECORDS_PER_USER_OP} acls in a single delete operation."
            )
        records = [ApiMessageAndVersion(RemoveAccessControlEntryRecord(id=id)) for id in going]
        return ControllerResult(records, results, True)

    def _present(self) -> Mapping[AclBinding, bytes]:
        records = self._state.image.acls
        if records is not self._known_records:
            self._known_records = records
            self._known = {_binding(record): id for id, record in records.items()}
        return self._known

    def _record(self, acl: AclBinding) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(
            id=random_uuid(self._random),
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )


def _binding(record: AccessControlEntryRecord) -> AclBinding:
    return AclBinding(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
