"""How a NetworkClient keeps its metadata fresh."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.client.default_metadata_updater import DefaultMetadataUpdater
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.errors import UnsupportedVersionError
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.metadata_response import MetadataResponse
from tests.support.network_fakes import all_api_versions, metadata_response

BOOT = Node(-1, "host", 9092)


class Updated:
    """A client whose metadata starts from one bootstrap server; requests are answered at once by `handlers`."""

    def __init__(self, new_world: Any, *, rebootstrap_trigger: float | None = 300.0) -> None:
        self.metadata = Metadata(MetadataRefresh(0.1, 1.0, 300.0, Random(1)))
        self.metadata.bootstrap([BOOT])
        updater = DefaultMetadataUpdater(self.metadata, request_timeout=30.0, rebootstrap_trigger=rebootstrap_trigger)
        self.world = new_world(updater=updater)
        self.selector = self.world.selector
        self.brokers = [(1, "host", 9093)]
        self.selector.handlers = {
            ApiKey.API_VERSIONS: lambda request: all_api_versions(),
            ApiKey.METADATA: lambda request: metadata_response(self.brokers, {"t": 1}),
        }

    def run(self, turns: int = 10, step: float = 0.1) -> None:
        for _ in range(turns):
            self.world.client.poll(step, self.world.now)
            self.world.now += step

    @property
    def asked(self) -> list[int]:
        """The nodes that metadata was asked of."""
        return [node for node, header, _ in self.selector.received if header.request_api_key == ApiKey.METADATA]


@pytest.fixture
def updated(new_world: Any) -> Updated:
    return Updated(new_world)


def test_polling_alone_brings_the_first_metadata(updated: Updated) -> None:
    updated.run()
    assert updated.asked == [-1]
    assert updated.metadata.fetch().nodes == [Node(1, "host", 9093)]
    assert updated.metadata.fetch().partition_count_for_topic("t") == 1


def test_no_request_goes_before_a_metadata_request_that_is_due(updated: Updated) -> None:
    updated.run()
    node = updated.metadata.fetch().nodes[0]
    while not updated.world.client.ready(node, updated.world.now):
        updated.run(1)
    updated.metadata.request_update()
    assert not updated.world.client.is_ready(node, updated.world.now)
    updated.run(3)
    assert updated.world.client.is_ready(node, updated.world.now)
    assert updated.asked == [-1, 1]


def test_it_is_asked_for_again_when_it_is_old(updated: Updated) -> None:
    updated.run()
    updated.run(4, step=100.0)
    updated.run()
    assert updated.asked == [-1, 1]


def test_a_lost_connection_asks_for_metadata(updated: Updated) -> None:
    updated.run()
    node = updated.metadata.fetch().nodes[0]
    while not updated.world.client.ready(node, updated.world.now):
        updated.run(1)
    updated.selector.break_connection(1)
    updated.run(20)
    assert len(updated.asked) == 2


def test_while_nothing_answers_it_tries_again_without_spinning(updated: Updated) -> None:
    updated.selector.refusing.add(9092)
    started = updated.world.now
    polls = 0
    while updated.world.now < started + 60:
        updated.world.client.poll(10.0, updated.world.now)
        updated.world.now += 0.0 if updated.selector.disconnected else updated.selector.polled[-1]
        polls += 1
    # One attempt about every second, and a few polls for each.
    assert 50 <= len(updated.selector.connects) <= 90
    assert polls < 6 * len(updated.selector.connects)

    updated.selector.refusing.clear()
    updated.run(40)
    assert not updated.metadata.fetch().is_bootstrap_configured


def test_when_no_known_broker_can_be_reached_it_starts_again_from_the_bootstrap_servers(new_world: Any) -> None:
    updated = Updated(new_world, rebootstrap_trigger=20.0)
    updated.run()
    node = updated.metadata.fetch().nodes[0]
    while not updated.world.client.ready(node, updated.world.now):
        updated.run(1)
    updated.selector.refusing.add(9093)
    updated.selector.break_connection(1)
    updated.selector.break_connection(-1)
    updated.brokers = [(2, "host", 9094)]
    updated.run(250)
    assert updated.metadata.fetch().nodes == [Node(2, "host", 9094)]


def test_without_rebootstrap_it_keeps_to_the_brokers_it_knows(new_world: Any) -> None:
    updated = Updated(new_world, rebootstrap_trigger=None)
    updated.run()
    updated.selector.refusing.add(9093)
    updated.selector.break_connection(-1)
    updated.brokers = [(2, "host", 9094)]
    updated.metadata.request_update()
    updated.run(50)
    assert updated.metadata.fetch().nodes == [Node(1, "host", 9093)]
    updated.selector.refusing.clear()
    updated.run(50)
    assert updated.metadata.fetch().nodes == [Node(2, "host", 9094)]


def test_brokers_that_answer_nothing_are_left_for_the_bootstrap_servers_after_the_trigger(new_world: Any) -> None:
    updated = Updated(new_world, rebootstrap_trigger=120.0)
    updated.run()
    updated.selector.break_connection(-1)
    updated.selector.silent.add(9093)
    updated.brokers = [(2, "host", 9094)]
    updated.metadata.request_update()
    started = updated.world.now
    while updated.metadata.fetch().nodes != [Node(2, "host", 9094)]:
        updated.run(1, step=5.0)
        assert updated.world.now < started + 1000
    assert updated.world.now - started >= 30.0


def test_a_broker_may_tell_the_client_to_start_again(updated: Updated) -> None:
    updated.run()
    answers = [MetadataResponse(error_code=129), metadata_response([(3, "host", 9095)])]
    updated.selector.handlers[ApiKey.METADATA] = lambda request: answers.pop(0)
    updated.metadata.request_update()
    updated.run(30)
    assert answers == []
    assert updated.asked[-1] == -1
    assert updated.metadata.fetch().nodes == [Node(3, "host", 9095)]


def test_an_answer_without_brokers_is_no_answer(updated: Updated) -> None:
    answers = [MetadataResponse(), metadata_response([(1, "host", 9093)])]
    updated.selector.handlers[ApiKey.METADATA] = lambda request: answers.pop(0)
    updated.run(20)
    assert updated.metadata.fetch().nodes == [Node(1, "host", 9093)]


def test_metadata_that_never_comes_is_asked_for_again_after_the_request_timeout(updated: Updated) -> None:
    updated.selector.handlers[ApiKey.METADATA] = lambda request: None
    updated.run()
    assert updated.asked == [-1]
    updated.run(50, step=1.0)
    assert len(updated.asked) >= 2


def test_the_clients_own_requests_do_not_show_among_its_responses(updated: Updated) -> None:
    for _ in range(10):
        assert updated.world.client.poll(0.1, updated.world.now) == []
    node = updated.metadata.fetch().nodes[0]
    while not updated.world.client.ready(node, updated.world.now):
        updated.run(1)
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    updated.world.send(message, node)
    updated.metadata.request_update()
    updated.selector.break_connection(1)
    responses = updated.world.client.poll(0.1, updated.world.now)
    assert [response.request.message for response in responses] == [message]


def test_a_server_that_gives_no_metadata_is_told_of_at_once(updated: Updated) -> None:
    versions = all_api_versions()
    versions.api_keys = [key for key in versions.api_keys if key.api_key != ApiKey.METADATA]
    updated.selector.handlers[ApiKey.API_VERSIONS] = lambda request: versions
    waits: list[float] = []
    original = updated.selector.poll

    def poll(timeout: float, now: float) -> float:
        waits.append(timeout)
        return original(timeout, now)

    updated.selector.poll = poll  # type: ignore[method-assign]  # the test's own object
    while not updated.metadata.has_fatal_error:
        updated.world.client.poll(60.0, updated.world.now)
        updated.world.now += 0.1
    assert waits[-1] == 0, "there is nothing to wait for"
    with pytest.raises(UnsupportedVersionError, match=r"METADATA.*bootstrap\.servers must lead to brokers"):
        updated.metadata.raise_fatal_error()
