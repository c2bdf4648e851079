"""What a client does about nodes that do not answer: it asks another for metadata, and leaves those that are gone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.client.default_metadata_updater import DefaultMetadataUpdater
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.errors import DisconnectError
from barnabas.network.client_request import ClientResponse
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.join_group_request import JoinGroupRequest
from barnabas.protocol.messages.share_fetch_request import ShareFetchRequest
from tests.support.network_fakes import all_api_versions, metadata_response

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
BOOT = Node(-1, "boot", 9090)


class Cluster:
    """A client of brokers 1 to 3, which answer Metadata at once; what else they are asked waits."""

    def __init__(self, new_world: Any, **settings: Any) -> None:
        self.metadata = Metadata(MetadataRefresh(0.1, 1.0, 300.0, Random(1)))
        self.metadata.bootstrap([BOOT])
        updater = DefaultMetadataUpdater(self.metadata, request_timeout=30.0, rebootstrap_trigger=300.0)
        self.world = new_world(updater=updater, **settings)
        self.selector = self.world.selector
        self.brokers = [(n, "host", 9090 + n) for n in (1, 2, 3)]
        #: Brokers that take requests and answer nothing.
        self.dead: set[int] = set()
        self.selector.handlers = {
            ApiKey.API_VERSIONS: lambda request: all_api_versions(),
            ApiKey.METADATA: self._metadata,
        }
        self.responses: list[ClientResponse] = []
        self.run(1.0)
        self.began = self.world.now

    def _metadata(self, request: Any) -> Any:
        node_id = self.selector.received[-1][0]
        return None if node_id in self.dead else metadata_response(self.brokers, {"t": 1})

    def run(self, seconds: float, step: float = 0.05) -> None:
        until = self.world.now + seconds
        while self.world.now < until - 1e-9:
            self.responses += self.world.client.poll(step, self.world.now)
            self.world.now += step

    def connect(self, *nodes: int) -> None:
        for node_id in nodes:
            node = self.metadata.fetch().node(node_id)
            while not self.world.client.ready(node, self.world.now):
                self.run(0.05)
        self.began = self.world.now
        self.selector.received.clear()

    def send(self, node_id: int, message: Any = HEARTBEAT, **options: Any) -> Any:
        return self.world.send(message, Node(node_id, "host", 9090 + node_id), **options)

    def lose(self, node_id: int) -> None:
        """The machine is gone, without a word on its connections; the others know."""
        self.dead.add(node_id)
        self.selector.silent.add(9090 + node_id)
        self.brokers = [broker for broker in self.brokers if broker[0] != node_id]

    @property
    def asked(self) -> list[int]:
        """The nodes that metadata was asked of."""
        return [node for node, header, _ in self.selector.received if header.request_api_key == ApiKey.METADATA]


@pytest.fixture
def cluster(new_world: Any) -> Cluster:
    return Cluster(new_world)


def test_a_request_without_an_answer_for_a_second_has_another_node_asked_for_metadata(cluster: Cluster) -> None:
    cluster.connect(1, 2)
    cluster.send(1)
    cluster.run(0.9)
    assert cluster.asked == []
    cluster.run(0.4)
    assert len(cluster.asked) == 1
    assert cluster.asked[0] != 1
    assert cluster.responses == [], "the node is listed, so it is waited for"


def test_a_node_that_the_metadata_list_no_more_is_left_with_what_it_was_asked(cluster: Cluster) -> None:
    cluster.connect(1, 2)
    sent = [cluster.send(1) for _ in range(3)]
    cluster.lose(1)
    cluster.run(1.5)
    assert [response.request for response in cluster.responses] == sent
    assert all(response.disconnected and not response.timed_out for response in cluster.responses)
    assert isinstance(cluster.responses[0].error, DisconnectError)
    assert "does not list" in str(cluster.responses[0].error)
    assert cluster.selector.closed == [1]


def test_an_attempt_to_connect_to_a_node_that_is_gone_ends(cluster: Cluster) -> None:
    cluster.connect(2)
    node = cluster.metadata.fetch().node(1)
    cluster.lose(1)
    cluster.world.client.ready(node, cluster.world.now)
    cluster.run(1.5)
    assert cluster.selector.closed == [1]
    assert cluster.world.client.connection_failed(node)


def test_metadata_that_come_later_by_themselves_have_the_node_left_at_once(cluster: Cluster) -> None:
    cluster.connect(1, 2)
    cluster.send(1)
    cluster.run(1.4)
    cluster.lose(1)
    cluster.metadata.request_update()
    cluster.run(0.3)
    assert len(cluster.responses) == 1


def test_a_node_that_answers_is_not_left_although_it_is_listed_no_more(cluster: Cluster) -> None:
    """One that shuts down in order answers all that it took."""
    cluster.connect(1, 2)
    for _ in range(4):
        cluster.send(1)
    cluster.brokers = cluster.brokers[1:]
    cluster.metadata.request_update()
    for _ in range(4):
        cluster.run(0.8)
        cluster.selector.respond(1, HeartbeatResponse())
    cluster.run(0.1)
    assert [response.error for response in cluster.responses] == [None] * 4
    assert cluster.selector.closed == []


def test_a_node_is_not_left_for_metadata_from_before_its_silence(cluster: Cluster) -> None:
    """A coordinator that has just started is known from FindCoordinator before the metadata list it."""
    cluster.brokers = cluster.brokers[1:]
    cluster.metadata.request_update()
    cluster.run(0.5)
    cluster.brokers = [*cluster.brokers, (1, "host", 9091)]
    cluster.connect(2)
    node = Node(1, "host", 9091)
    while not cluster.world.client.ready(node, cluster.world.now):
        cluster.run(0.05)
    cluster.send(1)
    cluster.run(3.0)
    assert cluster.selector.closed == []


def test_bootstrap_servers_are_not_left_because_no_metadata_list_them(cluster: Cluster) -> None:
    cluster.connect(2)
    cluster.world.send(HEARTBEAT, BOOT)
    cluster.run(5.0)
    assert cluster.asked != []
    assert cluster.selector.closed == []


def test_a_silence_that_lasts_is_asked_about_less_and_less(cluster: Cluster) -> None:
    cluster.connect(1, 2, 3)
    cluster.send(1)
    cluster.run(5.0)
    assert 6 <= len(cluster.asked) <= 12
    before = len(cluster.asked)
    cluster.run(24.0)
    assert 5 <= len(cluster.asked) - before <= 9


def test_brokers_that_are_slow_for_long_are_asked_about_no_oftener(cluster: Cluster) -> None:
    cluster.connect(1, 2, 3)
    for _ in range(40):
        cluster.send(1)
        cluster.run(1.5)
        cluster.selector.respond(1, HeartbeatResponse())
        cluster.run(0.1)
    assert len(cluster.asked) <= 20, "in a minute"


def test_after_a_calm_time_a_silence_is_asked_about_at_once_again(cluster: Cluster) -> None:
    cluster.connect(1, 2, 3)
    cluster.send(1)
    cluster.run(25.0)
    cluster.selector.respond(1, HeartbeatResponse())
    cluster.run(30.0)
    cluster.selector.received.clear()
    cluster.send(1)
    cluster.run(4.5)
    assert 6 <= len(cluster.asked) <= 12


@pytest.mark.parametrize("timeouts", [1.0, 30.0], ids=["impatient", "default"])
@pytest.mark.parametrize("known_after", [1.0, 1.3, 1.9, 2.2, 2.6, 2.9, 3.3, 4.2, 5.7, 6.4, 8.1])
def test_a_node_that_is_gone_is_left_a_quarter_later_than_the_cluster_knows_it_at_most(
    new_world: Any, known_after: float, timeouts: float
) -> None:
    """Whether a request timed out, or attempts to connect did, meanwhile: it is tried again and again."""
    setup = {"connection_setup_timeout": timeouts, "connection_setup_timeout_max": timeouts}
    cluster = Cluster(new_world, request_timeout=timeouts, reconnect_backoff_max=0.1, **setup)
    cluster.connect(1, 2, 3)
    node, brokers = cluster.metadata.fetch().node(1), cluster.brokers
    for _ in range(10):  # answers that say the same again and again have others asked for ever more slowly
        cluster.metadata.request_update(reset_equivalent_backoff=False)
        cluster.run(1.2)
    cluster.began = cluster.world.now
    cluster.send(1)
    cluster.lose(1)
    while cluster.metadata.fetch().node(1) is not None or not cluster.world.client.connection_failed(node):
        took = cluster.world.now - cluster.began
        cluster.brokers = brokers[1:] if took >= known_after else brokers
        assert took < 1.25 * known_after + 0.3
        cluster.world.client.ready(node, cluster.world.now)
        cluster.run(0.01, step=0.01)


def test_a_node_that_is_heard_again_after_a_time_out_is_waited_for_as_any_other(new_world: Any) -> None:
    cluster = Cluster(new_world, request_timeout=1.5)
    cluster.connect(1, 2)
    cluster.dead.add(1)
    cluster.send(1)
    cluster.run(2.5)
    assert cluster.selector.closed == [1]
    cluster.connect(1)
    cluster.selector.break_connection(1)
    cluster.run(12.0)
    cluster.selector.received.clear()
    cluster.selector.silent.add(9091)
    assert not cluster.world.client.ready(Node(1, "host", 9091), cluster.world.now)
    cluster.run(0.9)
    assert cluster.asked == []


def test_the_metadata_request_itself_may_be_at_the_silent_node(cluster: Cluster) -> None:
    cluster.connect(1)
    cluster.selector.break_connection(-1)
    cluster.run(0.3)
    cluster.selector.received.clear()
    cluster.lose(1)
    cluster.metadata.request_update()
    cluster.run(0.2)
    assert cluster.asked == [1]
    cluster.send(1)
    cluster.run(1.8)
    assert cluster.asked[1] in (2, 3)
    assert len(cluster.responses) == 1


def test_an_answer_with_metadata_that_takes_long_everywhere_is_taken_from_whom_it_comes_first(cluster: Cluster) -> None:
    cluster.connect(1, 2, 3)
    cluster.dead |= {1, 2, 3}
    cluster.metadata.request_update()
    cluster.run(1.2)
    first, second = cluster.asked
    assert first != second
    cluster.brokers = [*cluster.brokers, (4, "host", 9094)]
    cluster.selector.respond(first, metadata_response(cluster.brokers))
    cluster.run(0.1)
    assert cluster.metadata.fetch().node(4) is not None

    cluster.brokers = [*cluster.brokers, (5, "host", 9095)]
    cluster.selector.respond(second, metadata_response(cluster.brokers))
    cluster.run(0.1)
    assert cluster.metadata.fetch().node(5) is not None


def test_an_answer_to_a_metadata_request_that_was_given_up_is_not_taken_after_anothers(cluster: Cluster) -> None:
    cluster.connect(1)
    cluster.selector.break_connection(-1)
    cluster.run(0.3)
    cluster.selector.received.clear()
    cluster.dead.add(1)
    cluster.metadata.request_update()
    while cluster.asked in ([], [1]):
        cluster.run(0.05)
    cluster.run(0.1)
    assert 1 not in cluster.asked[1:]
    version = cluster.metadata.update_version
    cluster.selector.respond(1, metadata_response([(9, "old", 9)]))
    cluster.run(0.1)
    assert cluster.metadata.update_version == version
    assert cluster.metadata.fetch().node(9) is None


def test_a_connection_that_takes_long_does_not_keep_metadata_from_being_asked_of_others(cluster: Cluster) -> None:
    cluster.connect(1)
    for node_id in (-1, 2, 3):
        cluster.selector.break_connection(node_id)
    cluster.run(2.0)
    cluster.selector.received.clear()
    cluster.selector.silent.add(9092)
    cluster.world.client.ready(Node(2, "host", 9092), cluster.world.now)
    cluster.selector.break_connection(1)
    cluster.selector.silent.add(9091)
    cluster.run(3.0)
    assert cluster.asked
    assert set(cluster.asked) == {3}


def test_a_silent_node_is_asked_only_where_there_is_no_other(cluster: Cluster) -> None:
    cluster.brokers = cluster.brokers[:1]
    cluster.metadata.request_update()
    cluster.run(0.5)
    cluster.connect(1)
    cluster.dead.add(1)
    cluster.send(1)
    cluster.run(5.0)
    assert cluster.asked == [], "it would answer nothing else before"
    cluster.metadata.request_update()
    cluster.run(0.2)
    assert cluster.asked == [1], "but this was asked for by somebody"


@pytest.mark.parametrize(
    ("request_message", "wait"),
    [
        (FetchRequest(max_wait_ms=3000), 3.0),
        (ShareFetchRequest(group_id="g", member_id="m", max_wait_ms=3000), 3.0),
        (JoinGroupRequest(group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=3000), 3.0),
    ],
    ids=["Fetch", "ShareFetch", "JoinGroup"],
)
def test_what_a_broker_may_wait_with_by_its_request_is_no_silence(
    cluster: Cluster, request_message: Any, wait: float
) -> None:
    cluster.connect(1, 2)
    cluster.send(1, request_message)
    cluster.run(wait + 0.9)
    assert cluster.asked == []
    cluster.run(0.4)
    assert len(cluster.asked) == 1


def test_a_client_that_knows_its_nodes_by_itself_asks_and_leaves_nobody(world: Any) -> None:
    world.make_ready()
    world.send(HEARTBEAT)
    world.updater.nodes = []
    polls = len(world.selector.polled)
    for _ in range(3):
        world.poll(5.0)
    assert world.selector.closed == []
    assert world.selector.polled[polls:] == [5.0, 5.0, 5.0], "and is not woken for it"
