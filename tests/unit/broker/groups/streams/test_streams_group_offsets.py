"""Offsets of streams groups, the kinds of groups that share an id, and what administrators do with them."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.groups.offsets.transactional_offsets import commit_transactional_offsets
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.streams_member import settle
from tests.unit.broker.groups.streams.streams_group_harness import StreamsHarness

STALE_EPOCH = errors.StaleMemberEpochError.code


def commit_of(harness: StreamsHarness, member_id: str, epoch: int, partition: int = 0, version: int = 9) -> object:
    found = harness.commit({("lines", partition): 5}, member_id, epoch, version=version)
    return 0 if found == {("lines", partition): 0} else found


def test_a_member_commits_from_its_epoch() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    assert commit_of(harness, "a", a.epoch) == 0
    assert commit_of(harness, "a", a.epoch + 1) == STALE_EPOCH
    assert commit_of(harness, "x", a.epoch) == errors.UnknownMemberIdError.code
    assert commit_of(harness, "", -1) == errors.UnknownMemberIdError.code, "the group is not empty"
    assert commit_of(harness, "a", a.epoch, version=8) == errors.UnsupportedVersionError.code


def test_from_an_earlier_epoch_it_commits_what_it_had_then() -> None:
    harness = StreamsHarness()
    a, b = harness.settled("a", "b")
    before = a.epoch
    c = harness.member("c")
    settle(a, b, c)
    mine = min(a.active["0"])
    others = min(b.active.get("0") or c.active["0"])
    assert a.epoch > before
    assert commit_of(harness, "a", before, mine) == 0
    assert commit_of(harness, "a", before, others) == STALE_EPOCH
    assert harness.commit({("t", 0): 1}, "a", before) == STALE_EPOCH, "the topology does not read it"
    new = min(c.active.get("0", set()) | c.active.get("1", set()))
    topic = "lines" if new in c.active.get("0", set()) else "app-words"
    assert harness.commit({(topic, new): 1}, "c", 1) == STALE_EPOCH, "it had nothing then"


def test_what_is_to_be_given_up_may_still_be_committed() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    before = a.epoch
    b = harness.member("b")
    b.heartbeat()
    a.keeps_revoked = True
    a.heartbeat()
    assert a.epoch == before
    for number in range(4):
        assert commit_of(harness, "a", before, number) == 0


def test_transactional_commits_are_fenced_as_well() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")

    def commit(member_id: str, epoch: int) -> int:
        part = TxnOffsetCommitRequestPartition(0, 7, -1, "")
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            generation_id=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic("lines", [part])],
        )
        coordinator = harness.coordinator
        try:
            commit_transactional_offsets(
                coordinator._store, coordinator._offsets, coordinator._settings, request, harness.at
            )
        except errors.KafkaError as error:
            return error.code
        return 0

    assert commit("a", a.epoch) == 0
    assert commit("", -1) == 0
    assert commit("a", a.epoch + 1) == errors.IllegalGenerationError.code
    assert commit("x", a.epoch) == errors.UnknownMemberIdError.code


def test_a_fetch_of_offsets_by_a_member_is_fenced() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    commit_of(harness, "a", a.epoch)

    def fetch(member_id: str | None, epoch: int) -> int:
        request = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        return harness.coordinator.fetch_offsets(request, False).error_code

    assert fetch("a", a.epoch) == 0
    assert fetch(None, -1) == 0
    assert fetch("a", a.epoch - 1) == STALE_EPOCH
    assert fetch("x", a.epoch) == errors.UnknownMemberIdError.code


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    commit_of(harness, "a", a.epoch)
    subscribed = errors.GroupSubscribedToTopicError.code
    assert (delete(harness, "lines"), delete(harness, "other")) == (subscribed, 0)
    a.leave()
    assert delete(harness, "lines") == 0
    assert harness.fetch() == {}


def delete(harness: StreamsHarness, topic: str) -> int:
    topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]
    answer = harness.coordinator.delete_offsets(harness.context(0), OffsetDeleteRequest("g", topics))
    return answer.topics[0].partitions[0].error_code


def test_offsets_expire_once_the_group_is_empty() -> None:
    harness = StreamsHarness(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    [a] = harness.settled("a")
    commit_of(harness, "a", a.epoch)
    for _ in range(20):
        harness.advance(10)
        a.heartbeat()
    assert harness.fetch() == {("lines", 0): 5}
    a.leave()
    harness.advance(70)
    assert harness.coordinator.list_groups([], []) == []


# --- groups of several kinds


def test_an_empty_classic_group_makes_room_and_leaves_its_offsets() -> None:
    harness = StreamsHarness()
    harness.commit({("lines", 0): 5})
    [a] = harness.settled("a")
    assert harness.fetch() == {("lines", 0): 5}
    harness.restart()
    assert harness.fetch() == {("lines", 0): 5}
    settle(a)
    assert harness.group_state() == "Stable"


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_consumer_group_makes_no_room(is_empty: bool) -> None:
    harness = StreamsHarness()
    joins = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        rebalance_timeout_ms=1,
        subscribed_topic_names=["lines"],
        topic_partitions=[],
    )
    harness.coordinator.consumer_group_heartbeat(harness.context(1), joins)
    if is_empty:
        leaves = ConsumerGroupHeartbeatRequest(group_id="g", member_id="c", member_epoch=-1)
        harness.coordinator.consumer_group_heartbeat(harness.context(1), leaves)

    assert harness.member("a").heartbeat().error_code == errors.GroupIdNotFoundError.code


def test_neither_does_a_classic_group_with_members() -> None:
    harness = StreamsHarness()
    harness.stable(None)
    assert harness.member("a").heartbeat().error_code == errors.GroupIdNotFoundError.code


def test_members_of_the_classic_protocol_get_an_empty_streams_group() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    assert harness.join().error == errors.InconsistentGroupProtocolError.code
    assert harness.join("x").error == errors.InconsistentGroupProtocolError.code
    assert harness.group_state() == "Stable"
    commit_of(harness, "a", a.epoch)
    a.leave()
    harness.stable(None)
    assert harness.state() == "Stable"
    harness.restart()
    assert harness.state() == "Stable"
    assert harness.fetch() == {("lines", 0): 5}


def test_members_of_the_consumer_protocol_do_not() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    a.leave()
    joins = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="c", rebalance_timeout_ms=1, subscribed_topic_names=["lines"], topic_partitions=[]
    )
    with pytest.raises(errors.GroupIdNotFoundError):
        harness.coordinator.consumer_group_heartbeat(harness.context(1), joins)


# --- administration


def test_groups_are_listed_described_and_deleted() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    [listed] = harness.coordinator.list_groups(["stable"], ["Streams"])
    assert (listed.group_id, listed.group_type, listed.protocol_type, listed.group_state) == (
        "g",
        "streams",
        "streams",
        "Stable",
    )
    assert harness.coordinator.list_groups([], ["consumer"]) == []
    assert harness.coordinator.describe_group("g", 6).error_code == errors.GroupIdNotFoundError.code
    assert harness.coordinator.count_groups() == {("streams", "Stable"): 1}
    with pytest.raises(errors.GroupNotEmptyError):
        harness.coordinator.delete_group("g", harness.at)
    a.leave()
    harness.coordinator.delete_group("g", harness.at)
    with pytest.raises(errors.GroupIdNotFoundError):
        harness.described()
    harness.restart()
    assert harness.coordinator.list_groups([], []) == []


def test_a_deleted_group_may_run_another_topology() -> None:
    harness = StreamsHarness()
    [a] = harness.settled("a")
    a.leave()
    harness.coordinator.delete_group("g", harness.at)
    other = harness.member("b", tuple(reversed(a.topology))[:1])
    assert other.heartbeat().error_code == errors.StreamsInvalidTopologyError.code


def test_what_is_described() -> None:
    harness = StreamsHarness(group_streams_num_standby_replicas=1)
    a = harness.member("a", endpoint=("h", 1), tags={"zone": "z"})
    b = harness.member("b")
    settle(a, b)
    group = harness.described()
    assert (group.group_epoch, group.assignment_epoch) == (a.epoch, a.epoch)
    assert group.topology is not None
    first, second = group.topology.subtopologies or ()
    assert (first.source_topics, first.repartition_sink_topics) == (["lines"], ["app-words"])
    assert [(topic.name, topic.partitions) for topic in second.state_changelog_topics] == [("app-counts", 4)]
    assert [(topic.name, topic.partitions) for topic in second.repartition_source_topics] == [("app-words", 4)]
    member = group.members[0]
    assert (member.member_id, member.process_id) == ("a", "a")
    assert (member.client_host, member.client_id) == ("/127.0.0.1", "client")
    assert (member.user_endpoint.host, member.user_endpoint.port) == ("h", 1)  # type: ignore[union-attr]
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("zone", "z")]
    assert {tasks.subtopology_id: set(tasks.partitions) for tasks in member.assignment.active_tasks} == a.active
    assert {tasks.subtopology_id: set(tasks.partitions) for tasks in member.assignment.standby_tasks} == a.standby
    assert member.assignment == member.target_assignment
