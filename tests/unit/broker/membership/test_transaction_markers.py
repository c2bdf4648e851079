"""Markers of a member's transactions on their way to the leaders: what counts as written, deleted, or to be retried."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.membership.transaction_marker_channels import BrokerMarkers, ClusterMarkers
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.transactions.marker import Marker, MarkerAnswer
from barnabas.network.node import Node
from barnabas.protocol.message import Message
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from barnabas.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.cluster_member import ME, MemberBroker, broker, change, topic

FLIGHTS = bytes(15) + b"\x01"
AT = Instant(100.0, 100_000)
MARKER = Marker(("flights", 0), 7, 2, True, 5, 2)


@dataclass
class Local:
    """This broker's own partitions."""

    error: errors.KafkaError | None = None

    def write(self, marker: Marker, at: Instant, answer: MarkerAnswer) -> None:
        answer(self.error)


@dataclass
class World:
    """A member that coordinates a transaction in flights-0, which broker `leader` leads; `told` is what it hears."""

    leader: int = 1
    told: list[errors.KafkaError | None] = field(default_factory=list)
    nodes: dict[int, Node] = field(default_factory=lambda: {1: Node(1, "one", 9092), 2: Node(2, "two", 9092)})

    def __post_init__(self) -> None:
        self.member = MemberBroker({}, *broker(1), *broker(2), *topic("flights", FLIGHTS, [self.leader, 1, 2]))
        self.queues = {number: BrokerMarkers(lambda number=number: self.nodes.get(number)) for number in (1, 2)}
        self.local = Local()
        self.markers = ClusterMarkers(ME, self.local, lambda: self.image, self.queues.__getitem__)

    @property
    def image(self) -> MetadataImage:
        return self.member.control.image

    def write(self) -> None:
        self.markers.write(MARKER, AT, self.told.append)

    def asked(self, leader: int = 1) -> tuple[Node, Message]:
        found = self.queues[leader].next_request(AT.now)
        assert found is not None, f"nothing is asked of broker {leader}"
        return found

    def answer(self, code: int, leader: int = 1) -> None:
        self.asked(leader)
        result = WritableTxnMarkerTopicResult("flights", [WritableTxnMarkerPartitionResult(0, code)])
        response = WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[result])])
        self.queues[leader].receive(response, AT)

    @property
    def outcome(self) -> int | None:
        """The code of the only answer, 0 for a marker that is written; None as long as there is none."""
        assert len(self.told) < 2, "a marker is answered once"
        return None if not self.told else 0 if self.told[0] is None else self.told[0].code


def test_what_the_leader_says_of_a_marker_is_what_the_coordinator_hears() -> None:
    world = World()
    world.write()
    node, request = world.asked()
    assert node == world.nodes[1]
    assert isinstance(request, WriteTxnMarkersRequest)
    world.queues[1].unsent, world.queues[1].in_flight = world.queues[1].in_flight, []
    world.answer(0)
    assert world.outcome == 0


def test_a_leader_that_does_not_know_the_partition_has_not_heard_of_it_and_the_marker_is_sent_again() -> None:
    """A broker of Apache Kafka answers so while it opens the log; the transaction would stay open there for good."""
    world = World()
    world.write()
    world.answer(errors.UnknownTopicOrPartitionError.code)
    assert world.outcome == errors.NotLeaderOrFollowerError.code


def test_this_broker_itself_may_not_have_heard_of_the_partition_yet() -> None:
    world = World(leader=ME)
    world.local.error = errors.UnknownTopicOrPartitionError("There is no such topic.")
    world.write()
    assert world.outcome == errors.NotLeaderOrFollowerError.code


def test_a_partition_that_the_metadata_do_not_have_any_more_is_deleted() -> None:
    world = World()
    world.member.tell(RemoveTopicRecord(topic_id=FLIGHTS))
    world.write()
    assert world.outcome == errors.UnknownTopicOrPartitionError.code


def test_a_partition_without_a_leader_is_asked_later() -> None:
    world = World()
    world.member.tell(change(FLIGHTS, leader=-1))
    world.write()
    assert world.outcome == errors.LeaderNotAvailableError.code


@pytest.mark.parametrize("is_known", [True, False])
def test_a_marker_for_a_broker_that_is_gone_is_given_back(is_known: bool) -> None:
    """Another broker leads its partitions by then; a marker that waits for the one that is gone ends nothing."""
    world = World()
    if is_known:
        world.write()
        world.nodes.clear()
        assert world.queues[1].next_deadline() < AT.now, "it is tried where it was last, and is refused there"
        world.asked()
        world.queues[1].disconnected(AT.now)
    else:
        world.nodes.clear()
        world.write()
    assert world.outcome == errors.DisconnectError("").code
