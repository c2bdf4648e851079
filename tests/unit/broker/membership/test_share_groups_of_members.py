"""A member of a cluster that leads share-partitions whose states, or coordinates groups whose topics, others have."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC
from barnabas.protocol.messages import delete_share_group_state_response as deleted
from barnabas.protocol.messages import describe_share_group_offsets_request
from barnabas.protocol.messages import initialize_share_group_state_response as initialized
from barnabas.protocol.messages import list_offsets_response as listed
from barnabas.protocol.messages import read_share_group_state_response as read
from barnabas.protocol.messages import read_share_group_state_summary_response as summary
from barnabas.protocol.messages import write_share_group_state_response as written
from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from barnabas.protocol.messages.list_offsets_request import ListOffsetsRequest
from barnabas.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from barnabas.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from tests.support.cluster_member import ME, MemberBroker, broker, change, topic
from tests.support.core_broker import batch, produce
from tests.support.share_member import ACCEPT, ShareMember, acquired, code

T, GROUPS, STATES = b"t" * 16, b"g" * 16, b"s" * 16


def member(*, states: int = 1, topic_leaders: tuple[int, ...] = (ME,)) -> MemberBroker:
    """A broker that has all groups; `states` has the states of share-partitions, `topic_leaders` lead t-0, t-1, ..."""
    made = MemberBroker(
        None,
        FeatureLevelRecord(name="share.version", feature_level=1),
        *broker(1),
        *broker(2),
        *broker(ME, port=9092),
        *topic("t", T, *([leader] for leader in topic_leaders)),
        *topic(GROUP_METADATA_TOPIC, GROUPS, [ME]),
        *topic(SHARE_GROUP_STATE_TOPIC, STATES, [states, *([] if states == ME else [2])]),
    )
    made.unfence()
    made.advance(1)
    return made


def begun(*partitions: int, error_code: int = 0) -> initialized.InitializeShareGroupStateResponse:
    results = [initialized.PartitionResult(partition=index, error_code=error_code) for index in partitions]
    return initialized.InitializeShareGroupStateResponse([initialized.InitializeStateResult(T, results)])


def stored(start_offset: int = 0, *, error_code: int = 0) -> read.ReadShareGroupStateResponse:
    result = read.PartitionResult(partition=0, state_epoch=0, start_offset=start_offset, error_code=error_code)
    return read.ReadShareGroupStateResponse([read.ReadStateResult(T, [result])])


def wrote(*, error_code: int = 0) -> written.WriteShareGroupStateResponse:
    result = written.PartitionResult(partition=0, error_code=error_code)
    return written.WriteShareGroupStateResponse([written.WriteStateResult(T, [result])])


def join(world: MemberBroker) -> ShareMember:
    """A member that has its partition, whose records are read from the start."""
    one = ShareMember(world)
    asked = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
    assert one.client.request(asked, 1) is None, "it waits for the states to be begun"
    request = world.answer("share-states", begun(0))
    assert isinstance(request, InitializeShareGroupStateRequest)
    assert [(topic.topic_id, topic.partitions[0].start_offset) for topic in request.topics] == [(T, -1)]
    world.advance(0)
    (response,) = one.client.responses
    assert [part.partitions for part in response.assignment.topic_partitions] == [[0]]
    one.member_epoch = response.member_epoch
    return one


def reading(world: MemberBroker) -> ShareMember:
    """A member with three records in hands."""
    one = join(world)
    world.connect().request(produce("t", batch(b"0", b"1", b"2")), 12)
    assert one.send_fetch(max_wait_ms=1000) is None
    request = world.answer("share-states", stored())
    assert isinstance(request, ReadShareGroupStateRequest)
    assert request.topics[0].partitions[0].leader_epoch == 0
    assert acquired(one.client.responses[-1]) == [(0, 2, 1)]
    return one


def test_records_are_accepted_when_the_coordinator_elsewhere_has_it() -> None:
    world = member()
    one = reading(world)
    assert one.acknowledge((0, 2, ACCEPT)) is None
    request = world.answer("share-states", wrote())
    assert isinstance(request, WriteShareGroupStateRequest)
    update = request.topics[0].partitions[0]
    assert (update.leader_epoch, update.start_offset, update.delivery_complete_count) == (0, 0, 3)
    assert [tuple(getattr(one, name) for name in one.__slots__) for one in update.state_batches] == [(0, 2, 2, 1)]
    world.advance(0)
    assert code(one.client.responses[-1]) == 0


@pytest.mark.parametrize("problem", [errors.FencedLeaderEpochError, errors.FencedStateEpochError])
def test_who_is_fenced_by_the_coordinator_leads_no_more(problem: type[errors.KafkaError]) -> None:
    world = member()
    one = reading(world)
    assert one.acknowledge((0, 2, ACCEPT)) is None
    world.answer("share-states", wrote(error_code=problem.code))
    world.advance(0)
    assert code(one.client.responses[-1]) == errors.NotLeaderOrFollowerError.code
    assert one.send_fetch(max_wait_ms=1000) is None, "the state is read anew"
    assert isinstance(world.asked("share-states"), ReadShareGroupStateRequest)


def test_another_coordinator_is_asked_when_the_states_move() -> None:
    world = member()
    one = reading(world)
    assert one.acknowledge((0, 2, ACCEPT)) is None
    world.answer("share-states", wrote(error_code=errors.NotCoordinatorError.code))
    world.tell(change(STATES, leader=2, isr=[2]))
    world.advance(0.5)
    assert isinstance(world.answer("share-states", wrote()), WriteShareGroupStateRequest)
    assert world.channel("share-states").requester.target is None
    world.advance(0)
    assert code(one.client.responses[-1]) == 0


def test_who_leads_now_is_told_to_who_asks_the_broker_before() -> None:
    world = member(topic_leaders=(ME, 1))
    one = ShareMember(world)
    world.tell(change(T, 0, leader=1, isr=[1], replicas=[1, ME]))
    response = one.send_fetch(max_wait_ms=0)
    (result,) = response.responses[0].partitions
    assert result.error_code == errors.NotLeaderOrFollowerError.code
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (1, 1)
    assert [(node.node_id, node.host, node.rack) for node in response.node_endpoints] == [(1, "h", "r1")]


def test_a_fetch_that_waits_is_told_when_the_leader_moves() -> None:
    world = member()
    one = join(world)
    assert one.send_fetch(max_wait_ms=60_000) is None
    world.answer("share-states", stored())
    world.tell(change(T, 0, leader=1, isr=[1], replicas=[1, ME]))
    world.advance(0)
    assert code(one.client.responses[-1]) == errors.NotLeaderOrFollowerError.code


def test_the_lag_of_a_partition_that_another_broker_leads_is_asked_for_there() -> None:
    world = member(topic_leaders=(1,))
    module = describe_share_group_offsets_request
    asked = module.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
    group = module.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[asked])
    client = world.connect()
    assert client.request(module.DescribeShareGroupOffsetsRequest(groups=[group]), 1) is None
    result = summary.PartitionResult(partition=0, start_offset=4, delivery_complete_count=2)
    found = summary.ReadShareGroupStateSummaryResponse([summary.ReadStateSummaryResult(T, [result])])
    assert isinstance(world.answer("share-states", found), ReadShareGroupStateSummaryRequest)
    end = listed.ListOffsetsPartitionResponse(partition_index=0, offset=10)
    ends = listed.ListOffsetsResponse(topics=[listed.ListOffsetsTopicResponse(name="t", partitions=[end])])
    assert isinstance(world.answer("end-offsets", ends), ListOffsetsRequest)
    world.advance(0)
    (told,) = client.responses[-1].groups[0].topics[0].partitions
    assert (told.start_offset, told.lag, told.error_code) == (4, 4, 0)


def test_states_of_a_topic_that_is_gone_go_with_it() -> None:
    world = member(states=ME)
    one = ShareMember(world)
    assert one.heartbeat().assignment.topic_partitions, "its state is kept here"
    assert len(world.node.state.share_coordinator) == 1
    world.tell(RemoveTopicRecord(topic_id=T))
    assert len(world.node.state.share_coordinator) == 0


def test_a_group_is_deleted_when_the_coordinator_elsewhere_has_forgotten_its_states() -> None:
    world = member()
    one = join(world)
    one.heartbeat(epoch=-1)
    client = world.connect()
    assert client.request(DeleteGroupsRequest(groups_names=["g", "no-such-group"]), 2) is None
    result = deleted.DeleteStateResult(T, [deleted.PartitionResult(partition=0)])
    answer = deleted.DeleteShareGroupStateResponse([result])
    assert isinstance(world.answer("share-states", answer), DeleteShareGroupStateRequest)
    world.advance(0)
    codes = {found.group_id: found.error_code for found in client.responses[-1].results}
    assert codes == {"g": 0, "no-such-group": errors.GroupIdNotFoundError.code}


def test_a_group_stays_where_the_coordinator_does_not_forget_its_states() -> None:
    world = member()
    one = join(world)
    one.heartbeat(epoch=-1)
    client = world.connect()
    assert client.request(DeleteGroupsRequest(groups_names=["g"]), 2) is None
    refused = errors.UnknownServerError.code
    result = deleted.DeleteStateResult(T, [deleted.PartitionResult(partition=0, error_code=refused)])
    world.answer("share-states", deleted.DeleteShareGroupStateResponse([result]))
    world.advance(0)
    assert [found.error_code for found in client.responses[-1].results] == [refused]
    assert "g" in world.node.state.group_coordinator._store.groups


def test_a_member_does_not_wait_for_ever_for_a_coordinator_that_does_not_answer() -> None:
    world = member()
    one = ShareMember(world)
    asked = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
    assert one.client.request(asked, 1) is None
    world.advance(1.1)
    (response,) = one.client.responses
    assert (response.error_code, response.assignment.topic_partitions) == (0, [])
