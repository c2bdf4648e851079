"""ConsumerGroupHeartbeat, request by request, against our broker and Apache Kafka: both have to answer the same."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.framing import FrameReader, decode_response, encode_request
from barnabas.protocol.message import Message
from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.contract.waiting import eventually
from tests.support.patience import PATIENCE

#: A little more than group.consumer.assignment.interval.ms.
INTERVAL = 1.2
Answer = tuple[str, int, list[int] | None]


class Client:
    """A connection, a topic of four partitions and a group."""

    def __init__(self, bootstrap_servers: str, new_name: Callable[[str], str]) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 10)
        self.reader = FrameReader(1 << 26)
        self.group, self.topic = new_name("group"), new_name("topic")
        topic = CreatableTopic(name=self.topic, num_partitions=4, replication_factor=1)
        created = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0]
        assert created.error_code == 0
        self.topic_id = bytes(created.topic_id)
        self._wait_for_coordinator()
        eventually(self._coordinator_knows_the_topic)

    def ask(self, request: Message, version: int) -> Any:
        self.socket.sendall(encode_request(request, version, 1, "client"))
        while (frame := self.reader.next_frame()) is None:
            self.reader.feed(self.socket.recv(1 << 16))
        return decode_response(request.API_KEY, version, frame)[1]

    def _wait_for_coordinator(self) -> None:
        end = time.monotonic() + PATIENCE
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        while self.ask(request, 4).coordinators[0].error_code or self.heartbeat("nobody", 1)[0] != "GROUP_ID_NOT_FOUND":
            assert time.monotonic() < end
            time.sleep(0.2)

    def _coordinator_knows_the_topic(self) -> bool:
        """Apache Kafka's coordinator hears of the topic a moment after it was created."""
        found = self.join("early")[2]
        self.forget("early")
        return found == [0, 1, 2, 3]

    def forget(self, *members: str) -> None:
        """Take members out of the group, and end it; the next one to join begins at the first epoch."""
        for member in members:
            assert self.heartbeat(member, -1)[0] == "NONE"
        assert self.ask(DeleteGroupsRequest([self.group]), 2).results[0].error_code == 0

    def heartbeat(self, member: str, epoch: int, owned: set[int] | None = None, **fields: Any) -> Answer:
        """The error, the epoch and the assignment."""
        partitions = [TopicPartitions(self.topic_id, sorted(owned))] if owned else None if owned is None else []
        fields = {"topic_partitions": partitions, **fields}
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **fields)
        response = self.ask(request, 1)
        assigned = None
        if response.assignment is not None:
            assigned = [index for topic in response.assignment.topic_partitions for index in topic.partitions]
        return errors.name_of(response.error_code), response.member_epoch, assigned

    def join(self, member: str, **fields: Any) -> Answer:
        everything = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [self.topic], "topic_partitions": []}
        return self.heartbeat(member, 0, **{**everything, **fields})

    def commit(self, member: str, epoch: int, partition: int) -> str:
        partitions = [OffsetCommitRequestPartition(partition, 5, -1, "")]
        topics = [OffsetCommitRequestTopic("", self.topic_id, partitions)]
        response = self.ask(OffsetCommitRequest(self.group, epoch, member, None, -1, topics), 10)
        return errors.name_of(response.topics[0].partitions[0].error_code)

    def described(self) -> Any:
        return self.ask(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1).groups[0]


@pytest.fixture
def client(bootstrap_servers: str, new_name: Callable[[str], str]) -> Iterator[Client]:
    """A client with a topic and a group of its own."""
    found = Client(bootstrap_servers, new_name)
    yield found
    found.socket.close()


def test_two_members_share_step_by_step(client: Client) -> None:
    assert client.join("a") == ("NONE", 2, [0, 1, 2, 3])
    assert client.heartbeat("a", 2) == ("NONE", 2, None)
    time.sleep(INTERVAL)
    assert client.join("b") == ("NONE", 3, [])
    assert client.heartbeat("a", 2) == ("NONE", 2, [0, 1])
    assert client.heartbeat("b", 3) == ("NONE", 3, None)
    group = client.described()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert client.commit("a", 2, 3) == "NONE", "it is to give it up, and has it still"
    assert client.heartbeat("a", 2, {0, 1}) == ("NONE", 3, None)
    assert client.heartbeat("b", 3) == ("NONE", 3, [2, 3])
    assert client.described().group_state == "Stable"
    assert [client.commit("a", 2, index) for index in (0, 3)] == ["NONE", "STALE_MEMBER_EPOCH"]
    assert [client.commit("b", epoch, 3) for epoch in (2, 3, 4)] == ["STALE_MEMBER_EPOCH", "NONE", "STALE_MEMBER_EPOCH"]
    assert client.heartbeat("a", -1) == ("NONE", -1, None)
    time.sleep(INTERVAL)
    assert client.heartbeat("b", 3) == ("NONE", 4, [0, 1, 2, 3])


def test_the_next_target_waits_for_its_interval(client: Client) -> None:
    while True:
        began = time.monotonic()
        client.join("a")
        joined = client.join("b")
        if time.monotonic() - began < 0.9:
            break
        client.forget("a", "b")  # the machine stood still: the interval was over
    assert joined == ("NONE", 2, [])
    assert client.described().group_state == "Assigning"
    time.sleep(INTERVAL)
    assert client.heartbeat("a", 2) == ("NONE", 2, [0, 1])


def test_a_static_member_leaves_for_a_while(client: Client) -> None:
    client.join("a", instance_id="one")
    assert client.join("b", instance_id="one") == ("UNRELEASED_INSTANCE_ID", 0, None)
    assert client.heartbeat("a", -2, instance_id="one") == ("NONE", -2, None)
    assert client.heartbeat("a", 2, instance_id="one") == ("FENCED_MEMBER_EPOCH", 0, None)
    assert client.join("b", instance_id="one") == ("NONE", 2, [0, 1, 2, 3])
    assert client.heartbeat("a", 2, instance_id="one") == ("FENCED_INSTANCE_ID", 0, None)
    assert client.heartbeat("b", 2, instance_id="two") == ("UNKNOWN_MEMBER_ID", 0, None)


def test_refusals(client: Client) -> None:
    refused = {
        "no such group": client.heartbeat("a", 1),
        "epoch": client.heartbeat("a", -3),
        "no member id": client.join(""),
        "no instance": client.heartbeat("a", -2),
        "no timeout": client.join("a", rebalance_timeout_ms=-1),
        "owns something": client.join("a", owned={1}, topic_partitions=[TopicPartitions(client.topic_id, [1])]),
        "no subscription": client.join("a", subscribed_topic_names=None),
        "assignor": client.join("a", server_assignor="none"),
        "expression": client.join("a", subscribed_topic_regex="("),
    }
    client.join("a")
    refused["later epoch"] = client.heartbeat("a", 3)
    refused["no such member"] = client.heartbeat("b", 2)
    assert {name: answer[0] for name, answer in refused.items()} == {
        "no such group": "GROUP_ID_NOT_FOUND",
        "epoch": "INVALID_REQUEST",
        "no member id": "INVALID_REQUEST",
        "no instance": "INVALID_REQUEST",
        "no timeout": "INVALID_REQUEST",
        "owns something": "INVALID_REQUEST",
        "no subscription": "INVALID_REQUEST",
        "assignor": "UNSUPPORTED_ASSIGNOR",
        "expression": "INVALID_REGULAR_EXPRESSION",
        "later epoch": "FENCED_MEMBER_EPOCH",
        "no such member": "UNKNOWN_MEMBER_ID",
    }


def test_a_group_without_topics_is_in_epoch_1(client: Client) -> None:
    assert client.join("a", subscribed_topic_names=[]) == ("NONE", 1, [])
    group = client.described()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
