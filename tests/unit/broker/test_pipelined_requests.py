"""What a client sends behind a request that is parked."""

from __future__ import annotations

from barnabas import errors
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest
from tools.core_broker import CoreBroker, CoreClient


def join(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def member(broker: CoreBroker) -> tuple[CoreClient, str]:
    client = broker.connect()
    asked = client.request(join(), 9)
    assert asked.error_code == errors.MemberIdRequiredError.code
    return client, asked.member_id


def test_a_member_that_leaves_behind_its_join_does_not_disturb_the_generation_it_is_answered_with() -> None:
    broker = CoreBroker()
    first, first_id = member(broker)
    first.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    joined = first.request(join(first_id), 9)
    first.request(SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=first_id), 5)
    second, second_id = member(broker)
    assert second.request(join(second_id), 9) is None
    second.send(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=second_id)]), 5)

    rejoined = first.request(join(first_id), 9)

    assert (rejoined.error_code, rejoined.leader) == (0, first_id)
    assert [found.error_code for found in second.responses[-2:]] == [0, 0]
    assert broker.warnings == []
    assert not first.closed
    assert not second.closed
