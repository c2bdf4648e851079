"""Acting as another's member of a group: the right is on the group, a member id is no secret and gives no right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest
from tests.support.core_broker import CoreClient
from tests.unit.broker.security.test_attacks import GROUP_DENIED, Guarded

GROUP = "billing"


def join(member: str) -> Message:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(GROUP, 10_000, 10_000, member, None, "consumer", protocols)


def commit(member: str) -> Message:
    topics = [OffsetCommitRequestTopic(name="open", partitions=[OffsetCommitRequestPartition(0, 7)])]
    return OffsetCommitRequest(GROUP, 1, member, topics=topics)


#: What a member asks of its coordinator, and the version that is asked.
ASKED: dict[str, tuple[Callable[[str], Message], int]] = {
    "JoinGroup": (join, 5),
    "SyncGroup": (lambda member: SyncGroupRequest(GROUP, 1, member), 4),
    "Heartbeat": (lambda member: HeartbeatRequest(GROUP, 1, member), 4),
    "LeaveGroup": (lambda member: LeaveGroupRequest(GROUP, "", [MemberIdentity(member)]), 4),
    "OffsetCommit": (commit, 8),
}

ILLEGAL_GENERATION, UNKNOWN_MEMBER = 22, 25
#: What the member is told when somebody else has joined anew, or left, in its name.
AFTERWARDS = {"JoinGroup": ILLEGAL_GENERATION, "LeaveGroup": UNKNOWN_MEMBER}


class Group:
    """Alice's group of one member, stable; bob may read the group, mallory may not."""

    def __init__(self) -> None:
        self.guarded = Guarded()
        for name in ("alice", "bob"):
            self.guarded.allow(name, Op.READ, GROUP, ResourceType.GROUP)
        for name in ("alice", "bob", "mallory"):
            self.guarded.allow(name, Op.READ, "open")
        self.alice = self.guarded.client("alice")
        self.member: str = self.ask(self.alice, join(""), 5).member_id
        assert self.ask(self.alice, join(self.member), 5).generation_id == 1
        assert self.ask(self.alice, SyncGroupRequest(GROUP, 1, self.member), 4).error_code == 0

    def ask(self, client: CoreClient, request: Message, version: int) -> Any:
        answer = client.request(request, version)
        self.guarded.broker.advance(0)
        return answer or client.responses[-1]

    def code(self, name: str, asked: str) -> int:
        make, version = ASKED[asked]
        answer = self.ask(self.guarded.client(name), make(self.member), version)
        found: int = answer.topics[0].partitions[0].error_code if asked == "OffsetCommit" else answer.error_code
        return found

    def committed(self) -> int:
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
        topics = self.alice.request(asked, 8).groups[0].topics
        return int(topics[0].partitions[0].committed_offset) if topics else -1


@pytest.mark.parametrize("asked", sorted(ASKED))
def test_who_may_not_read_the_group_gets_nowhere_with_a_members_id(asked: str) -> None:
    group = Group()
    assert group.code("mallory", asked) == GROUP_DENIED
    # Nothing has happened to the member or its generation.
    assert group.code("alice", "Heartbeat") == 0
    assert group.committed() == -1


@pytest.mark.parametrize("asked", sorted(ASKED))
def test_who_may_read_the_group_acts_for_each_of_its_members_as_in_apache_kafka(asked: str) -> None:
    group = Group()
    assert group.code("bob", asked) == 0
    assert group.committed() == (7 if asked == "OffsetCommit" else -1)
    assert group.code("alice", "Heartbeat") == AFTERWARDS.get(asked, 0)


def test_a_quota_of_a_client_id_is_escaped_by_another_one_and_that_of_a_user_is_not() -> None:
    guarded = Guarded()
    for kind, name in (("client-id", "slow"), ("user", "bob")):
        entry = EntryData([EntityData(kind, name)], [OpData("request_percentage", 0.001, remove=False)])
        assert guarded.admin.request(AlterClientQuotasRequest([entry]), 1).entries[0].error_code == 0

    def limit(user: str, client_id: str) -> float | None:
        found: float | None = guarded.broker.state.client_quotas.limit(user, client_id, "request_percentage")
        return found

    assert limit("alice", "slow") == 0.001
    assert limit("alice", "another") is None
    assert limit("bob", "another") == limit("bob", "slow") == 0.001
    assert guarded.client("bob").request(MetadataRequest(topics=[]), 12, client_id="another") is not None
