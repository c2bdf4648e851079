"""A controller that answers nothing and closes nothing, for it is paused or its machine is gone, holds no broker up."""

from __future__ import annotations

from barnabas import errors
from barnabas.network.node import Node
from barnabas.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tests.support.cluster_member import MemberBroker, broker


def test_a_controller_is_waited_for_as_long_as_the_quorum_and_the_session_allow() -> None:
    settings = {"controller.quorum.request.timeout.ms": 1500, "broker.session.timeout.ms": 8000}
    found = MemberBroker(settings, *broker(1), *broker(2))
    assert found.channel("raft").timeout == 1.5
    assert found.channel("heartbeat").timeout == 8.0
    assert found.channel("forwarding").timeout == 30.0


def test_what_a_controller_was_asked_is_asked_the_next_one_as_soon_as_that_leads() -> None:
    found = MemberBroker({}, *broker(1), *broker(2))
    part = PartitionData(
        error_code=errors.FencedLeaderEpochError.code, current_leader=LeaderIdAndEpoch(leader_id=101, leader_epoch=2)
    )
    endpoints = [NodeEndpoint(101, "other", 9001)]
    found.answer("raft", FetchResponse(responses=[FetchableTopicResponse(partitions=[part])], node_endpoints=endpoints))
    left = {channel.name for channel in found.channels if channel.only == Node(101, "other", 9001)}
    assert left == {"raft", "heartbeat", "alter-partition", "forwarding"}
