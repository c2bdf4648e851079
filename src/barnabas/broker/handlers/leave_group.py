"""LeaveGroup: members that go, or that an administrator puts out (KIP-345).

Versions 0-5. v1 throttle time. v2 throttled after the response (KIP-219). v3 several members, by instance id too
(KIP-345). v4 flexible. v5 reason (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.leave_group_request import MemberIdentity
from barnabas.protocol.messages.leave_group_response import LeaveGroupResponse
from barnabas.protocol.thresholds import LEAVE_GROUP_MEMBERS_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest

API = 13
VERSIONS = (0, 5)

#: From this version on a request names several members.


def handle(broker: BrokerState, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Each member has its own result; before version 3 there is one of both."""
    batched = context.api_version >= LEAVE_GROUP_MEMBERS_FROM
    members = request.members if batched else [MemberIdentity(member_id=request.member_id)]
    try:
        results = broker.group_coordinator.leave_group(context, request.group_id, members)
    except errors.KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(members=results) if batched else LeaveGroupResponse(error_code=results[0].error_code)
