"""SyncGroup of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups.classic.rebalance import Rebalance, sync_response
from barnabas.broker.groups.classic_group import EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup
from barnabas.broker.groups.coordinator_records import group_metadata_record
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.instant import Instant
from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.protocol.messages.sync_group_request import SyncGroupRequest


class SyncGroup:
    """Takes the assignment from the leader and gives each member its part."""

    __slots__ = ("_rebalance", "_store")

    def __init__(self, store: GroupStore, rebalance: Rebalance):
        self._store = store
        self._rebalance = rebalance

    def sync(self, request: SyncGroupRequest, at: Instant) -> SyncGroupResponse | DelayedOperation:
        """Return the member's assignment, or a parked answer until the leader sends it. Raises KafkaError."""
        group = self._store.classic(request.group_id)
        if group is None or group.state == EMPTY:
            raise errors.UnknownMemberIdError()
        group.validate_member(request.member_id, request.group_instance_id)
        group.validate_generation(request.generation_id)
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
            raise errors.InconsistentGroupProtocolError()
        if group.state == PREPARING_REBALANCE:
            raise errors.RebalanceInProgressError()
        member = group.members[request.member_id]
        self._rebalance.synced(group, member.member_id)
        if group.state == STABLE:
            return sync_response(group, member)
        operation = DelayedOperation()
        member.park_sync(operation)
        if group.is_leader(member.member_id):
            self._take_assignments(group, {item.member_id: bytes(item.assignment) for item in request.assignments}, at)
        return operation

    def _take_assignments(self, group: ClassicGroup, assignments: dict[str, bytes], at: Instant) -> None:
        draft = Draft()
        draft.put(
            group_metadata_record(group, assignments), lambda _: self._rebalance.stabilize(group, assignments, at)
        )
        try:
            self._store.commit(group.group_id, draft, at)
        except errors.KafkaError as error:
            self._rebalance.propagate_error(group, coordinator_error_code(error), at)
            self._rebalance.prepare_or_complete(group, at)


def _differs(in_request: str | None, of_group: str | None) -> bool:
    return in_request is not None and of_group is not None and in_request != of_group
