"""Share groups as their members see them: heartbeats, records acquired and acknowledged, locks, sessions, offsets."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.protocol.messages import (
    alter_share_group_offsets_request,
    delete_share_group_offsets_request,
    describe_share_group_offsets_request,
)
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest
from barnabas.protocol.messages.list_groups_request import ListGroupsRequest
from barnabas.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, batch, create, produce
from tests.support.share_member import ACCEPT, REJECT, RELEASE, RENEW, ShareMember, acquired, code
from tests.unit.broker.share.configs import set_group
from tests.unit.broker.transactions.wire import WireProducer


@pytest.fixture
def shared(broker: CoreBroker) -> CoreBroker:
    """A topic with two partitions, and a group that begins at its start."""
    broker.connect().request(create("t", 2), 7)
    set_group(broker, "share.auto.offset.reset", "earliest")
    return broker


def put(broker: CoreBroker, *values: bytes) -> None:
    broker.connect().request(produce("t", batch(*values)), 12)


def joined(broker: CoreBroker, member_id: str = "m") -> ShareMember:
    member = ShareMember(broker, member_id)
    assert member.heartbeat().error_code == 0
    member.send_fetch()
    return member


# --- members


def test_a_member_has_its_partitions_with_the_first_answer(shared: CoreBroker) -> None:
    response = ShareMember(shared).heartbeat()
    assert [one.partitions for one in response.assignment.topic_partitions] == [[0, 1]]
    assert response.member_epoch > 0


def test_more_members_than_partitions_share_them(shared: CoreBroker) -> None:
    members = [ShareMember(shared, f"m{number}") for number in range(4)]
    for member in members:
        member.heartbeat()
    shared.advance(2)
    found = [member.heartbeat(subscribed_topic_names=["t"]).assignment.topic_partitions for member in members]
    assert [len(one[0].partitions) for one in found] == [1, 1, 1, 1]
    assert sorted(one[0].partitions[0] for one in found) == [0, 0, 1, 1]


def test_a_silent_member_is_put_out(shared: CoreBroker) -> None:
    member = joined(shared)
    shared.advance(46)
    assert member.heartbeat().error_code == errors.UnknownMemberIdError.code
    assert described(shared).group_state == "Empty"


def test_a_member_in_another_epoch_is_fenced(shared: CoreBroker) -> None:
    member = joined(shared)
    assert member.heartbeat(epoch=member.member_epoch + 1).error_code == errors.FencedMemberEpochError.code


def test_who_joins_without_topics_is_refused(shared: CoreBroker) -> None:
    refused = ShareMember(shared).heartbeat(subscribed_topic_names=[])
    assert refused.error_code == errors.InvalidRequestError.code


def test_partitions_that_come_later_are_assigned_too(shared: CoreBroker) -> None:
    member = joined(shared)
    shared.connect().request(create("u", 1), 7)
    shared.advance(2)
    response = member.heartbeat(subscribed_topic_names=["t", "u"])
    assert len(response.assignment.topic_partitions) == 2


def test_groups_are_there_after_a_crash(shared: CoreBroker) -> None:
    member = joined(shared)
    after = shared.crashed()
    after.advance(1)
    again = ShareMember(after)
    again.member_epoch = member.member_epoch
    assert again.heartbeat().error_code == 0
    assert [one.member_id for one in described(after).members] == ["m"]


def described(broker: CoreBroker, group: str = "g") -> Any:
    return broker.connect().request(ShareGroupDescribeRequest(group_ids=[group]), 1).groups[0]


def test_a_share_group_is_described_and_listed(shared: CoreBroker) -> None:
    joined(shared)
    group = described(shared)
    assert (group.group_state, group.assignor_name, group.members[0].client_id) == ("Stable", "simple", "test")
    assert group.members[0].assignment.topic_partitions[0].topic_name == "t"
    listed = shared.connect().request(ListGroupsRequest(types_filter=["share"]), 5).groups
    assert [(one.group_id, one.group_type, one.protocol_type) for one in listed] == [("g", "share", "share")]
    assert described(shared, "none").error_code == errors.GroupIdNotFoundError.code


# --- records


def test_records_are_acquired_once_and_acknowledged(shared: CoreBroker) -> None:
    first, second = joined(shared, "a"), joined(shared, "b")
    put(shared, b"0", b"1", b"2")
    put(shared, b"3")
    response = first.send_fetch(max_records=3)
    assert acquired(response) == [(0, 2, 1)]
    records = response.responses[0].partitions[0].records
    assert [record.value for found in read_batches(records) for record in found] == [b"0", b"1", b"2"]
    assert second.fetch() == [(3, 3, 1)]
    assert code(first.acknowledge((0, 2, ACCEPT))) == 0
    assert first.fetch() == second.fetch() == []


def test_what_is_released_comes_again_and_what_is_rejected_does_not(shared: CoreBroker) -> None:
    member = joined(shared)
    put(shared, *(b"%d" % number for number in range(4)))
    member.fetch()
    assert member.fetch((0, 3, [1, 2, 3, 2])) == [(1, 1, 2), (3, 3, 2)]


def test_a_batch_may_be_taken_in_parts_where_the_limit_is_strict(shared: CoreBroker) -> None:
    member = joined(shared)
    put(shared, *(b"%d" % number for number in range(5)))
    assert member.fetch(max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
    assert member.fetch(max_records=2) == [(2, 4, 1)]


def test_pieces_are_of_the_size_that_was_asked_for(shared: CoreBroker) -> None:
    member = joined(shared)
    for number in range(6):
        put(shared, b"%d" % number)
    assert member.fetch(batch_size=2) == [(0, 1, 1), (2, 3, 1), (4, 5, 1)]


def test_a_fetch_waits_for_records(shared: CoreBroker) -> None:
    member = joined(shared)
    assert member.send_fetch(max_wait_ms=5000) is None
    put(shared, b"x")
    shared.advance(0)
    assert acquired(member.client.responses[-1]) == [(0, 0, 1)]


def test_a_fetch_waits_for_what_another_member_lets_go(shared: CoreBroker) -> None:
    first, second = joined(shared, "a"), joined(shared, "b")
    put(shared, b"x")
    first.fetch()
    assert second.send_fetch(max_wait_ms=5000) is None
    first.acknowledge((0, 0, RELEASE))
    shared.advance(0)
    assert acquired(second.client.responses[-1]) == [(0, 0, 2)]


def test_a_fetch_ends_without_records_when_its_time_is_over(shared: CoreBroker) -> None:
    member = joined(shared)
    assert member.send_fetch(max_wait_ms=300) is None
    shared.advance(0.4)
    assert member.client.responses[-1].error_code == 0
    assert acquired(member.client.responses[-1]) == []


# --- locks


def test_a_lock_that_ends_frees_its_records(shared: CoreBroker) -> None:
    first, second = joined(shared, "a"), joined(shared, "b")
    put(shared, b"x")
    assert first.fetch() == [(0, 0, 1)]
    shared.advance(29)
    assert second.fetch() == []
    shared.advance(2)
    assert second.fetch() == [(0, 0, 2)]
    assert code(first.acknowledge((0, 0, ACCEPT))) == errors.InvalidRecordStateError.code


def test_a_lock_is_renewed(shared: CoreBroker) -> None:
    member = joined(shared)
    put(shared, b"x")
    member.fetch()
    shared.advance(20)
    renewed = member.acknowledge((0, 0, RENEW), is_renew_ack=True)
    assert (code(renewed), renewed.acquisition_lock_timeout_ms) == (0, 30_000)
    shared.advance(20)
    assert code(member.acknowledge((0, 0, ACCEPT))) == 0


def test_a_group_may_forbid_to_renew(shared: CoreBroker) -> None:
    set_group(shared, "share.renew.acknowledge.enable", "false")
    member = joined(shared)
    put(shared, b"x")
    member.fetch()
    refused = member.acknowledge((0, 0, RENEW), is_renew_ack=True)
    assert code(refused) == errors.InvalidRecordStateError.code


def test_a_record_that_was_delivered_too_often_is_archived(shared: CoreBroker) -> None:
    set_group(shared, "share.delivery.count.limit", "2")
    member = joined(shared)
    put(shared, b"bad")
    put(shared, b"good")
    assert member.fetch(max_records=1) == [(0, 0, 1)]
    assert member.fetch((0, 0, RELEASE), max_records=1) == [(0, 0, 2)]
    assert member.fetch((0, 0, RELEASE)) == [(1, 1, 1)]


def test_so_many_records_are_in_flight_at_most(shared: CoreBroker) -> None:
    set_group(shared, "share.partition.max.record.locks", "100")
    member = joined(shared)
    for _ in range(15):
        put(shared, *[b"x"] * 10)
    assert member.fetch(max_records=1000) == [(0, 99, 1)]
    assert member.fetch() == []
    assert member.fetch((0, 9, ACCEPT)) == [(100, 109, 1)]


# --- the log underneath


def test_no_more_is_read_than_there_is_room_for_in_flight(shared: CoreBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    set_group(shared, "share.partition.max.record.locks", "100")
    member = joined(shared)
    for _ in range(50):
        put(shared, *[bytes(1000)] * 10)
    assert member.fetch(max_records=100) == [(0, 99, 1)]
    member.acknowledge((0, 39, ACCEPT))
    read, log_read = [], UnifiedLog.read

    def counted(log: UnifiedLog, *args: Any, **kwargs: Any) -> Any:
        read.append(len(log_read(log, *args, **kwargs).records))
        return log_read(log, *args, **kwargs)

    monkeypatch.setattr(UnifiedLog, "read", counted)
    assert member.fetch(max_records=4000) == [(100, 139, 1)]
    assert 0 < sum(read) < 60_000, "of more than 400,000 bytes"


def test_a_fetch_begins_to_read_one_partition_at_a_time(shared: CoreBroker) -> None:
    put(shared, b"a", b"b")
    request = produce("t", batch(b"c"))
    request.topic_data[0].partition_data[0].index = 1
    shared.connect().request(request, 12)
    members = [ShareMember(shared, "m"), ShareMember(shared, "n")]
    for member in members:
        member.heartbeat()
        member.send_fetch(partition=0, max_records=0)
        member.send_fetch(partition=1, max_records=0)
    assert [member.fetch() for member in members] == [[(0, 1, 1)], [(0, 0, 1)]], "who comes first leaves some"
    members[0].acknowledge((0, 1, RELEASE), partition=0)
    members[1].acknowledge((0, 0, RELEASE), partition=1)
    assert sorted(members[0].fetch()) == [(0, 0, 2), (0, 1, 2)], "later there is no need to"


def test_aborted_records_are_not_delivered_to_who_reads_committed_ones(shared: CoreBroker) -> None:
    set_group(shared, "share.isolation.level", "read_committed")
    member = joined(shared)
    producer = WireProducer(shared.connect())
    producer.init()
    producer.send("t", b"a", b"b")
    put(shared, b"c")
    assert member.fetch() == []
    producer.end(commit=False)
    # The marker at offset 3 is no record; the member says so.
    assert member.fetch() == [(2, 3, 1)]


# --- sessions


def test_a_session_that_ends_frees_what_was_acquired(shared: CoreBroker) -> None:
    first, second = joined(shared, "a"), joined(shared, "b")
    put(shared, b"0")
    put(shared, b"1")
    first.fetch()
    first.acknowledge((0, 0, ACCEPT), epoch=-1)
    assert second.fetch() == [(1, 1, 2)]
    assert first.send_fetch().error_code == errors.ShareSessionNotFoundError.code


def test_a_lost_connection_ends_its_session(shared: CoreBroker) -> None:
    first, second = joined(shared, "a"), joined(shared, "b")
    put(shared, b"0")
    first.fetch()
    first.client.lose()
    assert second.fetch() == [(0, 0, 2)]


def test_a_request_of_another_session_epoch_is_refused(shared: CoreBroker) -> None:
    member = joined(shared)
    assert member.send_fetch(epoch=7).error_code == errors.InvalidShareSessionEpochError.code
    assert ShareMember(shared, "x").send_fetch(epoch=1).error_code == errors.ShareSessionNotFoundError.code


def test_the_first_request_of_a_session_acknowledges_nothing(shared: CoreBroker) -> None:
    assert ShareMember(shared).send_fetch((0, 0, ACCEPT)).error_code == errors.InvalidRequestError.code


@pytest.mark.parametrize(
    ("first", "last", "types"), [(1, 0, [1]), (0, 0, []), (0, 2, [1, 1]), (0, 0, [5]), (0, 0, [-1]), (0, 0, [4])]
)
def test_acknowledgements_without_sense_are_refused(
    shared: CoreBroker, first: int, last: int, types: list[int]
) -> None:
    member = joined(shared)
    put(shared, b"x")
    member.fetch()
    assert code(member.acknowledge((first, last, types))) == errors.InvalidRequestError.code
    assert code(member.acknowledge((0, 0, REJECT))) == 0


# --- offsets


def offsets(broker: CoreBroker) -> list[tuple[int, int, int]]:
    module = describe_share_group_offsets_request
    asked = module.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    group = broker.connect().request(module.DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups[0]
    assert group.error_code == 0
    return [(one.partition_index, one.start_offset, one.lag) for topic in group.topics for one in topic.partitions]


def altered(broker: CoreBroker, offset: int) -> Any:
    module = alter_share_group_offsets_request
    part = module.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topics = [module.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[part])]
    return broker.connect().request(module.AlterShareGroupOffsetsRequest(group_id="g", topics=topics), 0)


def test_offsets_and_lag_are_described(shared: CoreBroker) -> None:
    member = joined(shared)
    put(shared, *[b"x"] * 5)
    member.fetch()
    member.acknowledge((0, 0, ACCEPT), (2, 2, ACCEPT))
    member.acknowledge((1, 1, ACCEPT))
    # What was stored last says where the start was before it moved.
    assert offsets(shared) == [(0, 1, 2), (1, -1, -1)]


def test_offsets_are_altered_while_there_is_no_member(shared: CoreBroker) -> None:
    put(shared, *[b"x"] * 5)
    member = joined(shared)
    assert altered(shared, 3).error_code == errors.GroupNotEmptyError.code
    assert member.heartbeat(epoch=-1).error_code == 0
    assert code(altered(shared, 3)) == 0
    assert offsets(shared)[0] == (0, 3, 2)
    assert ShareMember(shared, "n").fetch() == [(3, 4, 1)]


def test_offsets_are_deleted_while_there_is_no_member(shared: CoreBroker) -> None:
    module = delete_share_group_offsets_request
    topics = [module.DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    request = module.DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
    client = shared.connect()
    assert client.request(request, 0).error_code == errors.GroupIdNotFoundError.code
    member = joined(shared)
    assert client.request(request, 0).error_code == errors.GroupNotEmptyError.code
    member.heartbeat(epoch=-1)
    assert client.request(request, 0).responses[0].error_code == 0
    assert offsets(shared) == []
    assert client.request(request, 0).responses[0].error_code == errors.UnknownTopicOrPartitionError.code


def test_a_deleted_group_is_gone_with_its_states(shared: CoreBroker) -> None:
    put(shared, *[b"x"] * 5)
    member = joined(shared)
    member.fetch()
    member.acknowledge((0, 4, ACCEPT), epoch=-1)
    client = shared.connect()
    assert client.request(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code != 0
    member.heartbeat(epoch=-1)
    assert client.request(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == 0
    assert described(shared).error_code == errors.GroupIdNotFoundError.code
    assert len(shared.state.share_coordinator) == 0
    after = shared.crashed()
    after.advance(1)
    assert described(after).error_code == errors.GroupIdNotFoundError.code


def test_a_deleted_topic_is_forgotten(shared: CoreBroker) -> None:
    joined(shared)
    assert len(shared.state.share_coordinator) == 2
    client = shared.connect()
    client.request(DeleteTopicsRequest(topic_names=["t"]), 5)
    shared.advance(0.1)
    assert len(shared.state.share_coordinator) == 0
    assert offsets(shared) == []
    client.request(create("t", 1), 7)
    shared.advance(2)
    again = ShareMember(shared, "n")
    assert [one.partitions for one in again.heartbeat().assignment.topic_partitions] == [[0]]


# --- crashes


def test_nothing_that_was_acknowledged_comes_back_after_a_crash(shared: CoreBroker) -> None:
    member = joined(shared)
    put(shared, *[b"x"] * 10)
    member.fetch()
    member.acknowledge((0, 3, ACCEPT), (6, 6, REJECT), (8, 8, RELEASE))
    after = shared.crashed()
    after.advance(1)
    again = ShareMember(after, "n")
    again.heartbeat()
    # What was acquired and not acknowledged has no count: the broker that delivered it is gone.
    assert again.fetch() == [(4, 5, 1), (7, 7, 1), (8, 8, 2), (9, 9, 1)]


def test_group_records_are_kafkas(shared: CoreBroker) -> None:
    joined(shared)
    groups = shared.state.group_coordinator
    log = shared.state.replica_manager.partition(GROUP_METADATA_TOPIC, groups.partition_for("g")).log
    records = log.read(0, 1 << 20).records
    types = {int.from_bytes(record.key[:2], "big") for found in read_batches(records) for record in found}
    assert types == {10, 11, 12, 13, 14, 15}


# --- quotas, and where a group begins


def test_what_is_fetched_counts_against_the_quota_and_is_sent_all_the_same(shared: CoreBroker) -> None:
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name="test")])
    entry.ops = [OpData(key="consumer_byte_rate", value=100.0)]
    shared.connect().request(AlterClientQuotasRequest(entries=[entry]), 1)
    member = joined(shared)
    put(shared, bytes(3000))
    response = member.send_fetch()
    assert acquired(response) == [(0, 0, 1)], "what is acquired must not get lost"
    assert response.throttle_time_ms > 10_000


@pytest.mark.parametrize(("reset", "expected"), [("by_duration:PT1M", 1), ("by_duration:PT2H", 0), ("latest", 2)])
def test_a_group_begins_where_its_setting_says(shared: CoreBroker, reset: str, expected: int) -> None:
    put(shared, b"old")
    shared.advance(3600)
    shared.connect().request(produce("t", batch(b"new", now_ms=shared.now_ms)), 12)
    set_group(shared, "share.auto.offset.reset", reset)
    member = ShareMember(shared)
    member.heartbeat()
    before = member.fetch()
    shared.connect().request(produce("t", batch(b"newest", now_ms=shared.now_ms)), 12)
    found = [offset for first, last, _ in before + member.fetch() for offset in range(first, last + 1)]
    assert found == list(range(expected, 3))
