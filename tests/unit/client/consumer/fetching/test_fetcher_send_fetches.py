"""What `Fetcher.send_fetches` does, and where requests come from and go to, on a scripted cluster."""

from __future__ import annotations

import pytest

from barnabas import TopicPartition
from barnabas.client.consumer.fetching.fetch_config import FetchConfig
from barnabas.client.consumer.fetching.fetch_request import fetch_request
from barnabas.client.consumer.fetching.fetch_session_handler import FetchPartitionData, FetchRequestData
from barnabas.client.consumer.membership.group_requests import (
    GroupIdentity,
    find_coordinator,
    leave_group,
    offset_commit,
    offset_fetch,
)
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.offset_commit_request import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest
from tests.support.scripted_cluster import FOLLOWER, NODE, ScriptedCluster, topic_id

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def two_leaders() -> MetadataResponse:
    """Partitions 0 and 2 lie with the first node, 1 with the second."""
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=0)
        for number, leader in enumerate((NODE[0], FOLLOWER[0], NODE[0]))
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=host, port=port) for n, host, port in (NODE, FOLLOWER)],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id("t"), partitions=partitions)],
    )


@pytest.mark.shows("S1.52", breaks="barnabas.client.consumer.fetching.fetcher:Fetcher.prepare_fetch_requests")
def test_data_for_each_node_a_builder_for_each_node_the_network_client_and_callbacks(cluster: ScriptedCluster) -> None:
    consumer = cluster.consumer()
    consumer.assign([T0, T1, T2])
    for partition in (T0, T1, T2):
        consumer.seek(partition, 7)
    fetcher, client = consumer._parts.fetcher, consumer._parts.client
    consumer._parts.metadata.update(two_leaders(), cluster.now)

    data = {node.id: data for node, data, _ in fetcher.prepare_fetch_requests(cluster.now)}
    assert {node_id: set(found.to_send) for node_id, found in data.items()} == {NODE[0]: {T0, T2}, FOLLOWER[0]: {T1}}
    assert {entry.fetch_offset for found in data.values() for entry in found.to_send.values()} == {7}

    assert fetcher.send_fetches(cluster.now) == 2
    queued = {node_id: [request for request, _ in queue] for node_id, queue in client._unsent.items()}
    assert {node_id: len(requests) for node_id, requests in queued.items()} == {NODE[0]: 1, FOLLOWER[0]: 1}
    for (request,) in queued.values():
        assert isinstance(request.message, RequestBuilder)
        assert isinstance(request.message.build(request.message.high), FetchRequest)

    # Success: data comes to completed_fetches. Failure: the node may be asked again.
    assert fetcher.send_fetches(cluster.now) == 0
    handlers = {node_id: handler for node_id, ((_, handler),) in client._unsent.items()}
    (_, failing), (_, _) = handlers.items()
    failing.future.raise_error(OSError("cut"))  # type: ignore[arg-type]  # any error will do
    assert [node.id for node, _, _ in fetcher.prepare_fetch_requests(cluster.now)] == [NODE[0]]


@pytest.mark.shows("S1.55", breaks="barnabas.client.consumer.fetching.fetch_request:fetch_request")
def test_a_builder_says_which_request_it_makes_behind_one_type_for_all() -> None:
    group = GroupIdentity("g", None, 1, 1)
    data = FetchRequestData(0, 0, {T0: FetchPartitionData(topic_id("t"), 0, 1)}, (), True)
    builders = {
        ApiKey.FETCH: (fetch_request(data, FetchConfig()), FetchRequest),
        ApiKey.FIND_COORDINATOR: (find_coordinator("g"), FindCoordinatorRequest),
        ApiKey.LEAVE_GROUP: (leave_group(group, "m", ""), LeaveGroupRequest),
        ApiKey.OFFSET_COMMIT: (offset_commit(group, None, {}), OffsetCommitRequest),
        ApiKey.OFFSET_FETCH: (offset_fetch(group, []), OffsetFetchRequest),
    }

    for key, (builder, made) in builders.items():
        assert type(builder) is RequestBuilder
        assert builder.api_key == key
        for version in range(builder.low, builder.high + 1):
            message = builder.build(version)
            assert type(message) is made
            message.encode(version)


@pytest.mark.shows(
    "S1.47", breaks="barnabas.client.consumer.membership.coordinator_lookup:CoordinatorLookup._on_answered"
)
def test_any_broker_tells_of_the_cluster_and_the_coordinator_alone_of_the_group(cluster: ScriptedCluster) -> None:
    cluster.nodes = [FOLLOWER, NODE]
    consumer = cluster.consumer("t", group_id="g")
    consumer.poll(1)
    consumer.commit({T0: 1})
    assert cluster.app_selector is not None
    assert cluster.group_selector is not None
    asked = {
        ApiKey(header.request_api_key): node_id
        for selector in (cluster.app_selector, cluster.group_selector)
        for node_id, header, _ in selector.received
    }

    assert asked[ApiKey.METADATA] < 0, "a bootstrap server, before the coordinator is known"
    of_the_group = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT)
    assert len({asked[key] for key in of_the_group}) == 1
    assert asked[ApiKey.JOIN_GROUP] == NODE[0]
