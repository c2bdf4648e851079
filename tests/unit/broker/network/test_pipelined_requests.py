"""What a client sends behind a request that is parked."""

from __future__ import annotations

from barnabas import errors
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.produce_response import ProduceResponse
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


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


def waiting_for_data(broker: CoreBroker) -> CoreClient:
    """A client whose Fetch is parked, with two Produces behind it."""
    client = broker.connect()
    client.request(create("t"), 7)
    assert client.request(fetch("t", max_wait_ms=1000), 12) is None
    for value in (b"a", b"b"):
        client.send(produce("t", batch(value)), 12)
    client.responses.clear()
    return client


def test_what_a_client_sent_before_the_end_of_its_input_is_worked_on_and_answered() -> None:
    broker = CoreBroker()
    client = waiting_for_data(broker)

    client.connection.input_ended(broker.instant)
    assert not client.closed
    broker.advance(1)

    assert [type(message) for message in client.responses] == [FetchResponse, ProduceResponse, ProduceResponse]
    assert broker.state.replica_manager.partition("t", 0).log.log_end_offset == 2
    assert client.closed


def test_a_client_that_waits_for_nothing_is_closed_with_the_end_of_its_input() -> None:
    broker = CoreBroker()
    client = broker.connect()
    client.send_bytes(b"\0\0")

    client.connection.input_ended(broker.instant)

    assert client.closed
    assert client.connection.buffer.memory == 0


def test_a_slow_client_is_closed_when_it_has_taken_its_responses_after_the_end_of_its_input() -> None:
    broker = CoreBroker()
    client = broker.connect()
    client.connection.output_blocked(1 << 20)

    client.connection.input_ended(broker.instant)
    assert not client.closed
    client.connection.output_resumed(broker.instant)

    assert client.closed


def test_what_stands_behind_a_parked_request_goes_with_the_socket() -> None:
    broker = CoreBroker()
    client = waiting_for_data(broker)

    client.lose()
    broker.advance(1)

    assert client.responses == []
    assert broker.state.purgatory.parked == 0
    assert broker.state.replica_manager.partition("t", 0).log.log_end_offset == 0
