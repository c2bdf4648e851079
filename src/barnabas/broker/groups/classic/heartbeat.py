"""Heartbeat of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.classic.rebalance import Rebalance
from barnabas.broker.groups.classic_group import PREPARING_REBALANCE
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.instant import Instant
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest


class Heartbeat:
    """Keeps the sessions of members and tells them when they have to join again."""

    __slots__ = ("_rebalance", "_store")

    def __init__(self, store: GroupStore, rebalance: Rebalance):
        self._store = store
        self._rebalance = rebalance

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> HeartbeatResponse:
        """Keep the member's session; tell it when it has to join again. Raises KafkaError."""
        group = self._store.classic(request.group_id)
        if group is None:
            raise errors.UnknownMemberIdError()
        group.validate_member(request.member_id, request.group_instance_id)
        group.validate_generation(request.generation_id)
        self._rebalance.sessions.renew(group, group.members[request.member_id], at)
        if group.state == PREPARING_REBALANCE:
            raise errors.RebalanceInProgressError()
        return HeartbeatResponse()
