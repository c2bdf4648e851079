"""Groups that go from the classic to the consumer protocol and back, empty or alive (KIP-848)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.consumer_protocol_subscription import TopicPartition as Owned
from tests.unit.broker.groups.consumer.consumer_group_harness import Assigned, Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import MEMBER_ID_REQUIRED

REBALANCE = errors.RebalanceInProgressError.code


def subscription(owned: Assigned | None = None, topics: tuple[str, ...] = ("t",)) -> bytes:
    topics_owned = [Owned(topic=topic, partitions=sorted(parts)) for topic, parts in (owned or {}).items()]
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=topics_owned, rack_id="r1")
    return struct.pack(">h", 3) + message.encode(3)


def assignment(assigned: Assigned) -> bytes:
    topics = [TopicPartition(topic=topic, partitions=sorted(parts)) for topic, parts in assigned.items()]
    return struct.pack(">h", 3) + ConsumerProtocolAssignment(assigned_partitions=topics).encode(3)


def read(data: bytes) -> Assigned:
    assert struct.unpack_from(">h", data) == (3,)
    message = ConsumerProtocolAssignment.decode(data[2:], 3)
    return {topic.topic: set(topic.partitions) for topic in message.assigned_partitions}


class ClassicConsumer:
    """A cooperative consumer of the classic protocol that does as it is told."""

    def __init__(self, harness: ConsumerHarness, instance: str | None = None) -> None:
        self.harness = harness
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.owned: Assigned = {}

    def join(self, **options: Any) -> Any:
        """JoinGroup, twice for a new member; the answer, or the wait for it."""
        options = {"instance": self.instance, "protocols": {"cooperative-sticky": subscription(self.owned)}, **options}
        pending = self.harness.join(self.id, **options)
        if not pending.waits and pending.error == MEMBER_ID_REQUIRED:
            self.id = pending.response.member_id
            pending = self.harness.join(self.id, **options)
        if not pending.waits:
            self._joined(pending.response)
        return pending

    def _joined(self, response: Any) -> None:
        if not response.error_code:
            self.id, self.generation = response.member_id, response.generation_id

    def sync(self, assignments: dict[str, bytes] | None = None, pending: Any = None) -> int:
        if pending is not None:
            self._joined(pending.response)
        answer = self.harness.sync(
            self.id, self.generation, assignments, instance=self.instance, protocol_name="cooperative-sticky"
        )
        if not answer.error:
            self.owned = read(answer.response.assignment)
        return int(answer.error)

    def heartbeat(self) -> int:
        """A heartbeat, and the rebalance that it asks for."""
        error = self.harness.heartbeat(self.id, self.generation, instance=self.instance)
        if error == REBALANCE and self.join().error == 0:
            self.sync()
        return error


def classic_group(harness: ConsumerHarness, *instances: str | None) -> list[ClassicConsumer]:
    """A stable classic group that shares the four partitions of "t"."""
    members = [ClassicConsumer(harness, instance) for instance in instances]
    waits = [member.join() for member in members]
    if len(members) > 1:
        waits[0] = members[0].join()
    for member, pending in zip(members, waits, strict=True):
        member._joined(pending.response)
    shares = {member.id: {"t": set(range(4)[index :: len(members)])} for index, member in enumerate(members)}
    leader, *others = members
    parked = [
        harness.sync(member.id, member.generation, instance=member.instance, protocol_name="cooperative-sticky")
        for member in others
    ]
    leader.sync({member_id: assignment(share) for member_id, share in shares.items()})
    for member, pending in zip(others, parked, strict=True):
        member.owned = read(pending.response.assignment)
    assert harness.state() == "Stable"
    return members


def settle(members: list[ClassicConsumer], *consumers: Consumer) -> None:
    for _ in range(8):
        for member in (*members, *consumers):
            member.heartbeat()


def check_shared(members: list[Any]) -> None:
    """Each of the four partitions belongs to one member."""
    shares = [sorted(member.owned.get("t", set())) for member in members]
    assert sorted(partition for share in shares for partition in share) == [0, 1, 2, 3], shares
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


# --- empty groups


def test_an_empty_classic_group_makes_room_and_its_offsets_stay() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy="disabled")
    (member,) = classic_group(harness, None)
    harness.commit({("t", 0): 7}, member.id, member.generation)
    harness.leave(member.id)

    a = Consumer(harness, "a")
    a.join()

    assert a.owned == {"t": {0, 1, 2, 3}}
    assert harness.fetch([("t", 0)]) == {("t", 0): 7}
    harness.restart()
    assert [group.group_type for group in harness.coordinator.list_groups([], [])] == ["consumer"]


def test_an_empty_consumer_group_makes_room_and_its_offsets_stay() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy="disabled")
    a = Consumer(harness, "a")
    a.join()
    a.commit(7)
    a.leave()

    (member,) = classic_group(harness, None)

    assert member.generation == 1
    assert harness.fetch([("t", 0)]) == {("t", 0): 7}
    harness.restart()
    assert [group.group_type for group in harness.coordinator.list_groups([], [])] == ["classic"]
    assert harness.state() == "Stable"


def test_offsets_without_a_group_become_the_consumer_groups() -> None:
    harness = ConsumerHarness()
    harness.commit({("t", 0): 7})

    Consumer(harness, "a").join()

    assert harness.fetch([("t", 0)]) == {("t", 0): 7}
    assert harness.group_state() == "Stable"


# --- upgrade


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_living_classic_group_is_not_upgraded_against_the_policy(policy: str) -> None:
    harness = ConsumerHarness(group_consumer_migration_policy=policy)
    (member,) = classic_group(harness, None)

    assert Consumer(harness, "a").error(full=True) is errors.GroupIdNotFoundError
    assert harness.heartbeat(member.id, member.generation) == 0


@pytest.mark.parametrize("policy", ["upgrade", "BIDIRECTIONAL"])
def test_a_consumer_joins_a_living_classic_group_and_all_go_on(policy: str) -> None:
    harness = ConsumerHarness(group_consumer_migration_policy=policy)
    members = classic_group(harness, None, "static")
    harness.commit({("t", 0): 7}, members[0].id, members[0].generation)
    a = Consumer(harness, "a")

    a.join()
    assert (a.epoch, a.owned) == (members[0].generation + 1, {}), "the others have everything"
    settle(members, a)

    check_shared([*members, a])
    assert harness.group_state() == "Stable"
    assert {member.member_id: member.member_type for member in harness.described().members} == {
        members[0].id: 0,
        members[1].id: 0,
        "a": 1,
    }
    assert harness.fetch([("t", 0)]) == {("t", 0): 7}


def test_partitions_move_from_a_classic_member_only_when_it_has_given_them_up() -> None:
    harness = ConsumerHarness()
    (member,) = classic_group(harness, None)
    a = Consumer(harness, "a")
    a.join()

    assert member.heartbeat() == REBALANCE
    assert len(member.owned["t"]) == 2, "told by SyncGroup what is left to it"
    a.heartbeat()
    assert a.owned == {}

    assert member.heartbeat() == REBALANCE
    assert member.heartbeat() == 0
    a.heartbeat()
    check_shared([member, a])


def test_members_that_wait_while_their_group_is_upgraded_are_told_to_join_again() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None, None)
    waiting = harness.join(members[0].id, protocols={"cooperative-sticky": subscription(members[0].owned)})
    assert waiting.waits
    a = Consumer(harness, "a")

    a.join()

    assert waiting.error == REBALANCE
    settle(members, a)
    check_shared([*members, a])


def test_a_group_of_others_than_consumers_is_not_upgraded() -> None:
    harness = ConsumerHarness()
    harness.join_dynamic(protocol_type="connect")

    assert Consumer(harness, "a").error(full=True) is errors.GroupIdNotFoundError


def test_a_malformed_subscription_keeps_the_group_classic() -> None:
    harness = ConsumerHarness()
    harness.stable(None, protocols={"range": b"\x00"})

    assert Consumer(harness, "a").error(full=True) is errors.GroupIdNotFoundError
    assert harness.state() == "Stable"


def test_an_upgrade_that_cannot_be_written_changes_nothing() -> None:
    harness = ConsumerHarness()
    (member,) = classic_group(harness, None)
    harness.storage.failure = errors.KafkaStorageError()

    assert Consumer(harness, "a").error(full=True) is errors.KafkaStorageError

    harness.storage.failure = None
    assert harness.heartbeat(member.id, member.generation) == 0
    assert harness.state() == "Stable"


def test_an_upgraded_group_is_the_same_after_a_restart() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None, "static")
    a = Consumer(harness, "a")
    a.join()
    settle(members, a)
    before = harness.described()

    harness.restart()

    assert harness.described() == before
    assert [member.heartbeat() for member in members] == [0, 0]
    assert a.error() is None


def test_a_static_member_upgrades_itself_by_joining_with_the_other_protocol() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, "one", "two")
    a = Consumer(harness, "a", instance="one")

    a.join()

    assert a.owned == members[0].owned, "it keeps what it had"
    assert harness.heartbeat(members[0].id, members[0].generation, instance="one") == errors.FencedInstanceIdError.code


# --- members of the classic protocol in a consumer group


def test_a_classic_member_joins_a_consumer_group() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    member = ClassicConsumer(harness)

    response = member.join().response
    member.sync()
    settle([member], a)

    assert (response.error_code, response.leader, response.members) == (0, "", [])
    assert (response.protocol_type, response.protocol_name) == ("consumer", "cooperative-sticky")
    check_shared([member, a])


def test_a_classic_member_is_refused_where_migration_is_disabled() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy="disabled")
    Consumer(harness, "a").join()

    assert ClassicConsumer(harness).join().error == errors.InconsistentGroupProtocolError.code


@pytest.mark.parametrize(
    "options", [{"protocol_type": "connect"}, {"protocols": {}}, {"protocols": {"range": b"\x00\x01\xff"}}]
)
def test_who_is_no_consumer_cannot_join_a_consumer_group(options: dict[str, Any]) -> None:
    harness = ConsumerHarness()
    Consumer(harness, "a").join()

    assert ClassicConsumer(harness, "static").join(**options).error == errors.InconsistentGroupProtocolError.code


def test_classic_members_have_a_protocol_in_common() -> None:
    harness = ConsumerHarness()
    Consumer(harness, "a").join()
    ClassicConsumer(harness).join(protocols={"range": subscription()})

    assert ClassicConsumer(harness).join().error == errors.InconsistentGroupProtocolError.code


def test_a_classic_member_is_checked_like_in_a_classic_group() -> None:
    harness = ConsumerHarness()
    Consumer(harness, "a").join()
    member = ClassicConsumer(harness)
    member.join()

    assert harness.heartbeat("nobody", 1) == errors.UnknownMemberIdError.code
    assert harness.heartbeat("a", 1) == errors.UnknownMemberIdError.code, "it speaks the other protocol"
    assert harness.heartbeat(member.id, member.generation + 1) == errors.IllegalGenerationError.code
    assert harness.sync(member.id, member.generation, protocol_name="range").error == (
        errors.InconsistentGroupProtocolError.code
    )
    assert harness.commit({("t", 0): 1}, member.id, member.generation + 1) == errors.IllegalGenerationError.code
    assert harness.commit({("t", 0): 1}, member.id, member.generation, version=8) == {("t", 0): 0}


def test_a_classic_member_has_its_own_session_timeout() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    member = ClassicConsumer(harness)
    member.join(session_timeout_ms=6_000)
    member.sync()

    harness.advance(6.1)
    settle([], a)

    assert a.owned == {"t": {0, 1, 2, 3}}


@pytest.mark.parametrize("syncs", [False, True])
def test_a_classic_member_that_does_not_take_its_next_step_is_put_out(syncs: bool) -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()
    member = ClassicConsumer(harness)
    member.join(rebalance_timeout_ms=8_000)
    if syncs:
        member.sync()
        b.join()

    for _ in range(10):
        harness.heartbeat(member.id, member.generation)
        a.heartbeat()
        harness.advance(1.0)

    assert member.id not in {described.member_id for described in harness.described().members}


def test_members_of_either_protocol_are_put_out_by_id_and_by_instance() -> None:
    harness = ConsumerHarness()
    a, b = Consumer(harness, "a"), Consumer(harness, "b")
    a.join()
    b.join()
    member, static = ClassicConsumer(harness), ClassicConsumer(harness, "static")
    member.join()
    static.join()

    errors_of = harness.leave(member.id, ("", "static"), "nobody", "b")

    assert errors_of == [0, 0, errors.UnknownMemberIdError.code, 0]
    settle([], a)
    assert a.owned == {"t": {0, 1, 2, 3}}


# --- downgrade


def test_when_the_last_consumer_leaves_the_others_are_a_classic_group_again() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None, None)
    a = Consumer(harness, "a")
    a.join()
    settle(members, a)

    a.leave()

    assert harness.state() == "PreparingRebalance"
    assert sorted(harness.member_ids()) == sorted(member.id for member in members)
    waits = [member.join() for member in members]
    leader = next(
        member
        for member, pending in zip(members, waits, strict=True)
        if pending.response.leader == pending.response.member_id
    )
    shares = {member.id: assignment({"t": {0, 1} if member is leader else {2, 3}}) for member in members}
    follower = next(member for member in members if member is not leader)
    follower._joined(waits[members.index(follower)].response)
    parked = harness.sync(follower.id, follower.generation, protocol_name="cooperative-sticky")
    assert leader.sync(shares, waits[members.index(leader)]) == 0
    assert read(parked.response.assignment) == {"t": {2, 3}}
    assert harness.state() == "Stable"


def test_a_consumer_whose_session_ends_leaves_a_classic_group_too() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None)
    a = Consumer(harness, "a")
    a.join()
    settle(members, a)

    for _ in range(10):
        harness.advance(5.0)
        if harness.heartbeat(members[0].id, members[0].generation) == errors.IllegalGenerationError.code:
            break

    assert harness.state() in ("PreparingRebalance", "Stable")
    assert harness.member_ids() == [members[0].id]


def test_a_downgraded_group_is_the_same_after_a_restart() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None)
    a = Consumer(harness, "a")
    a.join()
    settle(members, a)
    a.leave()

    harness.restart()

    described = harness.coordinator.describe_group("g", 6)
    assert (described.group_state, described.protocol_data) == ("Stable", "cooperative-sticky")
    (shown,) = described.members
    assert shown.member_id == members[0].id
    assert read(shown.member_assignment) == members[0].owned


def test_the_group_stays_a_consumer_group_where_downgrading_is_off() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy="upgrade")
    members = classic_group(harness, None, None)
    a = Consumer(harness, "a")
    a.join()
    settle(members, a)

    a.leave()
    settle(members)

    check_shared(members)
    assert harness.group_state() == "Stable"


def test_classic_members_alone_in_a_consumer_group_still_get_new_partitions() -> None:
    harness = ConsumerHarness(group_consumer_migration_policy="upgrade")
    members = classic_group(harness, None)
    a = Consumer(harness, "a")
    a.join()
    settle(members, a)
    a.leave()
    settle(members)

    harness.topic("t", 6)
    settle(members)

    assert members[0].owned == {"t": set(range(6))}


def test_the_last_static_consumer_goes_back_to_the_classic_protocol() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None)
    a = Consumer(harness, "a", instance="one")
    a.join()
    settle(members, a)
    back = ClassicConsumer(harness, "one")

    back.join()

    assert harness.state() == "Stable", "nobody has to move anything"
    assert back.sync() == 0
    assert back.owned == a.owned
    assert harness.heartbeat(back.id, back.generation, instance="one") == 0


def test_a_downgrade_in_the_middle_of_a_move_rebalances() -> None:
    harness = ConsumerHarness()
    members = classic_group(harness, None)
    a = Consumer(harness, "a", instance="one")
    a.join()
    back = ClassicConsumer(harness, "one")

    back.join()

    assert harness.state() == "PreparingRebalance"
    assert sorted(harness.member_ids()) == sorted([members[0].id, back.id])


def test_a_group_too_large_for_the_classic_protocol_is_not_downgraded() -> None:
    harness = ConsumerHarness(group_max_size=1)
    a = Consumer(harness, "a")
    a.join()
    members = [ClassicConsumer(harness) for _ in range(2)]
    for member in members:
        member.join()
    settle(members, a)

    a.leave()

    assert len(harness.described().members) == 2
