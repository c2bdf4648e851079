"""Streams groups on a whole broker: internal topics are made in the member's name, rights, features (KIP-1071)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import AclPermissionType, PatternType
from barnabas.protocol.kinds import ResourceType as Res
from barnabas.protocol.messages import streams_group_heartbeat_request as said
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.core_broker import CoreBroker, CoreClient, create
from tests.support.streams_member import WORD_COUNT, StreamsMember, subtopology, topic

NO_INTERNAL = 3
QUICK = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
STORED = (subtopology("0", "lines", changelogs=("app-store",)),)


class World:
    """A broker with the topic lines of two partitions."""

    def __init__(self, **settings: Any) -> None:
        self.broker = CoreBroker({**QUICK, **settings})
        admin = self.client("User:admin")
        admin.request(create("lines", 2), 7)

    def client(self, principal: str) -> CoreClient:
        client = self.broker.connect()
        client.connection.info.principal = principal
        return client

    def member(self, member_id: str, topology: Any = WORD_COUNT, principal: str = "User:m") -> StreamsMember:
        client = self.client(principal)
        return StreamsMember(lambda request: client.request(request, 0), member_id, topology)

    def run(self, *members: StreamsMember, rounds: int = 4) -> None:
        for _ in range(rounds):
            for member in members:
                response = member.heartbeat()
                assert response.error_code == 0, response.error_message
            self.broker.advance(0.1)

    def describe(self, principal: str = "User:admin", group: str = "g") -> Any:
        return self.client(principal).request(StreamsGroupDescribeRequest([group]), 0).groups[0]


def test_internal_topics_are_made_with_their_settings() -> None:
    world = World()
    part = subtopology("0", "lines")
    part.state_changelog_topics = [topic("app-store", **{"cleanup.policy": "compact", "retention.ms": "77"})]
    member = world.member("m", (part,))
    world.run(member)
    made = world.broker.node.metadata.topic("app-store")
    assert made is not None
    assert made.partitions == 2
    assert {name: made.configs[name] for name in ("cleanup.policy", "retention.ms")} == {
        "cleanup.policy": "compact",
        "retention.ms": "77",
    }
    assert member.active == {"0": {0, 1}}
    assert world.describe().group_state == "Stable"


def test_a_topic_that_cannot_be_made_is_told_of_and_tried_again_later() -> None:
    world = World()
    part = subtopology("0", "lines")
    part.state_changelog_topics = [topic("app-store", replicas=3)]
    member = world.member("m", (part,))
    world.run(member, rounds=2)
    assert "Creation failed: app-store (Replication factor 3 cannot be reached" in member.statuses[NO_INTERNAL]
    internal = world.broker.state.streams_internal_topics
    tried = dict(internal._failed)
    world.run(member, rounds=2)
    assert internal._failed == tried, "it is left alone for two heartbeats"
    world.broker.advance(11)
    world.run(member, rounds=1)
    assert internal._failed != tried


def test_metrics_count_groups_and_epochs() -> None:
    world = World()
    world.run(world.member("m"))
    coordinator = world.broker.state.group_coordinator
    assert coordinator.count_groups() == {("streams", "Stable"): 1}
    assert coordinator.streams.rebalances == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets"),
        ("no/topic", "Topic name 'no/topic' is not valid"),
    ],
)
def test_topics_of_no_application_are_refused(name: str, message: str) -> None:
    answer = World().member("m", (subtopology("0", name),)).heartbeat()
    assert answer.error_code == errors.StreamsInvalidTopologyError.code
    assert message in (answer.error_message or "")


def test_a_group_without_the_feature_is_refused() -> None:
    world = World()
    admin = world.client("User:admin")
    names = {one.name for one in admin.request(ApiVersionsRequest("c", "1"), 3).finalized_features}
    assert "streams.version" in names
    off = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("streams.version", 0, upgrade_type=2)])
    admin.request(off, 1)
    world.broker.advance(1)
    refused = errors.UnsupportedVersionError.code
    assert world.member("m").heartbeat().error_code == refused
    assert world.describe().error_code == refused


# --- rights


def allow(world: World, operation: Op, kind: Res, name: str) -> None:
    acl = AclBinding(kind, name, PatternType.LITERAL, "User:m", "*", operation, AclPermissionType.ALLOW)
    world.broker.state.authorization.create([acl], lambda problem: None)


def secured() -> World:
    return World(**{"authorizer.class.name": "standard", "super.users": "User:admin"})


def test_a_member_needs_its_group_and_its_topics() -> None:
    world = secured()
    member = world.member("m", STORED)
    assert member.heartbeat().error_code == errors.GroupAuthorizationError.code
    allow(world, Op.READ, Res.GROUP, "g")
    assert member.heartbeat().error_code == errors.TopicAuthorizationError.code
    allow(world, Op.DESCRIBE, Res.TOPIC, "lines")
    assert member.heartbeat().error_code == errors.TopicAuthorizationError.code, "the changelog is to be described, too"
    allow(world, Op.DESCRIBE, Res.TOPIC, "app-store")
    assert member.heartbeat().error_code == 0
    assert "Unauthorized to CREATE on topics app-store" in member.statuses[NO_INTERNAL]
    assert world.broker.node.metadata.topic("app-store") is None


@pytest.mark.parametrize(("kind", "name"), [(Res.TOPIC, "app-store"), (Res.CLUSTER, "kafka-cluster")])
def test_internal_topics_are_made_for_who_may_make_them(kind: Res, name: str) -> None:
    world = secured()
    for operation, resource, wanted in (
        (Op.READ, Res.GROUP, "g"),
        (Op.DESCRIBE, Res.TOPIC, "lines"),
        (Op.DESCRIBE, Res.TOPIC, "app-store"),
        (Op.CREATE, kind, name),
    ):
        allow(world, operation, resource, wanted)
    member = world.member("m", STORED)
    world.run(member)
    assert member.active == {"0": {0, 1}}


def test_a_description_hides_what_may_not_be_seen() -> None:
    world = secured()
    world.run(world.member("m", STORED, "User:admin"))
    assert world.describe("User:m").error_code == errors.GroupAuthorizationError.code
    allow(world, Op.DESCRIBE, Res.GROUP, "g")
    found = world.describe("User:m")
    assert (found.error_code, found.topology, found.members) == (errors.TopicAuthorizationError.code, None, [])
    allow(world, Op.DESCRIBE, Res.TOPIC, "lines")
    allow(world, Op.DESCRIBE, Res.TOPIC, "app-store")
    found = world.describe("User:m")
    assert (found.error_code, len(found.members)) == (0, 1)


def test_a_description_of_what_is_no_streams_group() -> None:
    world = World()
    assert world.describe(group="none").error_code == errors.GroupIdNotFoundError.code
    assert world.describe(group="").error_code == errors.InvalidGroupIdError.code


def test_a_member_says_what_it_wants_to_leave_out() -> None:
    world = World()
    member = world.member("m")
    world.run(member)
    request = said.StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=member.epoch)
    answer = member.send(request)
    assert (answer.error_code, answer.active_tasks, answer.member_epoch) == (0, None, member.epoch)
