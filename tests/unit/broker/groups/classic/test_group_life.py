"""A group from its first member to its last, with consumers' own subscriptions and assignments."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.unit.broker.groups.harness import Harness, code

REBALANCE_IN_PROGRESS = code(errors.RebalanceInProgressError)


def subscribed_to(*topics: str) -> dict[str, bytes]:
    return {"range": b"\0\3" + ConsumerProtocolSubscription(topics=list(topics)).encode(3)}


@pytest.mark.shows("S2.8", breaks="barnabas.broker.groups.classic.joining:JoinGroup._new_group")
@pytest.mark.shows("S1.16", breaks="barnabas.broker.groups.classic.joining:JoinGroup._new_group")
def test_consumers_with_one_group_id_form_one_group() -> None:
    harness = Harness()
    together = harness.stable(None, None, group="flights")
    alone = harness.stable(None, group="weather")

    assert harness.member_ids("flights") == [member.id for member in together]
    assert harness.member_ids("weather") == [alone[0].id]


@pytest.mark.shows("S2.16", breaks="barnabas.broker.groups.classic.rebalance:Rebalance._begin_generation")
def test_every_member_has_to_join_before_anybody_is_answered() -> None:
    harness = Harness()
    members = harness.stable(None, None, None)

    answers = []
    for member in members:
        assert all(answer.waits for answer in answers)
        answers.append(harness.join(member.id, protocols={"range": b"new"}))

    assert {answer.response.generation_id for answer in answers} == {members[0].generation + 1}


@pytest.mark.shows("S3.56", breaks="barnabas.broker.groups.embedded_protocol:subscribed_topics")
@pytest.mark.shows("S1.18", breaks="barnabas.broker.groups.embedded_protocol:subscribed_topics")
def test_a_group_subscribes_to_what_its_members_subscribe_to() -> None:
    harness = Harness()
    first = harness.join_dynamic(protocols=subscribed_to("flights")).response
    second = harness.join_dynamic(protocols=subscribed_to("weather", "flights"))
    harness.join(first.member_id, protocols=subscribed_to("flights"))
    assert second.response.generation_id == 2

    group = harness.coordinator._store.group("g")

    assert group.subscribed_topics == {"flights", "weather"}


@pytest.mark.shows("S3.62", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.prepare_or_complete")
@pytest.mark.shows("S1.24", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.remove_member")
@pytest.mark.shows("S1.39", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.prepare")
def test_members_coming_and_going_one_generation_each() -> None:
    harness = Harness()
    first, second = harness.stable(None, None)
    generations = [second.generation]

    third = harness.join_dynamic()
    assert harness.heartbeat(first.id, first.generation) == REBALANCE_IN_PROGRESS
    for member in (first, second):
        harness.join(member.id)
    generations.append(third.response.generation_id)
    harness.leave(second.id)
    harness.leave(third.response.member_id)
    generations.append(harness.join(first.id).response.generation_id)
    harness.leave(first.id)

    assert generations == [2, 3, 4]
    assert harness.state() == "Empty"


@pytest.mark.shows("S3.59", breaks="barnabas.broker.groups.classic.rebalance:sync_response")
@pytest.mark.shows("S2.13", breaks="barnabas.broker.groups.classic.rebalance:Rebalance.stabilize")
@pytest.mark.shows("S3.16", breaks="barnabas.broker.groups.classic.rebalance:sync_response")
def test_a_member_gets_what_the_leader_gave_it_several_partitions_or_none() -> None:
    harness = Harness()
    members = harness.stable(None, None, None)
    for member in members:
        answer = harness.join(member.id, protocols={"range": b"new"})
    generation = answer.response.generation_id
    waiting = [harness.sync(member.id, generation) for member in members[1:]]

    leaders = harness.sync(members[0].id, generation, {members[0].id: b"t-0", members[1].id: b"t-1 t-2"})

    assert [sync.response.assignment for sync in (leaders, *waiting)] == [b"t-0", b"t-1 t-2", b""]
