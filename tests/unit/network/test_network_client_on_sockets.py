"""NetworkClient with its real selector against a small broker on a real socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from barnabas.client.client_utils import create_network_client
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.config.client_config import ClientConfig
from barnabas.errors import DisconnectError
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.produce_response import ProduceResponse
from tests.support.network_client_utils import await_ready, send_and_receive
from tests.support.network_fakes import ScriptedBroker, metadata_response


def start(port: int = 0, **handlers: Any) -> ScriptedBroker:
    broker = ScriptedBroker(port=port)
    broker.handlers[ApiKey.METADATA] = lambda request: metadata_response([(1, "127.0.0.1", broker.port)], {"t": 1})
    broker.handlers.update({ApiKey[name.upper()]: handler for name, handler in handlers.items()})
    return broker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with start() as running:
        yield running


@pytest.fixture
def new_client() -> Iterator[Callable[..., tuple[NetworkClient, Metadata]]]:
    """Makes clients of a broker, with Kafka's default settings and those given."""
    made: list[NetworkClient] = []

    def make(port: int, **settings: Any) -> tuple[NetworkClient, Metadata]:
        config = ClientConfig("admin", {"bootstrap.servers": f"127.0.0.1:{port}"}, settings)
        metadata = Metadata(MetadataRefresh(0.05, 0.2, 300.0, Random(1)))
        client = create_network_client(config, "me", metadata)
        made.append(client)
        return client, metadata

    yield make
    for client in made:
        client.close()


def poll_until(client: NetworkClient, is_over: Callable[[], bool], timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not is_over():
        assert time.monotonic() < deadline, "this never happened"
        client.poll(0.5, time.monotonic())


def connected(client: NetworkClient, metadata: Metadata) -> Node:
    """Polls until the metadata is there and its only broker is ready."""
    poll_until(client, lambda: not metadata.fetch().is_bootstrap_configured)
    (node,) = metadata.fetch().nodes
    assert await_ready(client, node, time.monotonic, 10.0)
    return node


def test_it_finds_the_cluster_and_talks_to_it(broker: ScriptedBroker, new_client: Any) -> None:
    client, metadata = new_client(broker.port)
    node = connected(client, metadata)
    request = client.new_client_request(node.id, MetadataRequest(topics=[]), time.monotonic())
    response = send_and_receive(client, request, time.monotonic)
    assert response.message.brokers[0].port == broker.port
    assert 0 <= response.latency < 10


def test_megabytes_go_both_ways_unharmed(new_client: Any) -> None:
    records = bytes(range(256)) * 12_000
    fetched = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(partition_index=0, records=records)])]
    )
    with start(fetch=lambda request: fetched, produce=lambda request: ProduceResponse()) as broker:
        client, metadata = new_client(broker.port)
        node = connected(client, metadata)
        data = PartitionProduceData(index=0, records=memoryview(records))
        produce = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
        send_and_receive(client, client.new_client_request(node.id, produce, time.monotonic()), time.monotonic)
        _, received = broker.received[-1]
        assert received.topic_data[0].partition_data[0].records == records

        fetch = FetchRequest(max_wait_ms=0, min_bytes=0)
        request = client.new_client_request(node.id, fetch, time.monotonic())
        response = send_and_receive(client, request, time.monotonic)
        assert response.message.responses[0].partitions[0].records == records


def test_it_comes_back_by_itself_after_the_broker_was_gone_and_never_spins(
    broker: ScriptedBroker, new_client: Any
) -> None:
    client, metadata = new_client(broker.port, reconnect_backoff_max_ms=200)
    node = connected(client, metadata)
    port = broker.port
    broker.close()

    before = time.process_time()
    gone_until = time.monotonic() + 1.0
    polls = 0
    while time.monotonic() < gone_until:
        client.ready(node, time.monotonic())
        client.poll(0.5, time.monotonic())
        polls += 1
    assert time.process_time() - before < 0.5
    assert polls < 200

    with start(port=port):
        assert await_ready_again(client, metadata)


def await_ready_again(client: NetworkClient, metadata: Metadata) -> bool:
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        if any(client.ready(node, time.monotonic()) for node in metadata.fetch().nodes):
            return True
        client.poll(0.2, time.monotonic())
    return False


def test_what_is_in_flight_when_the_broker_goes_fails(new_client: Any) -> None:
    with start(fetch=lambda request: None) as broker:
        client, metadata = new_client(broker.port)
        node = connected(client, metadata)
        request = client.new_client_request(node.id, FetchRequest(), time.monotonic())
        client.send(request, time.monotonic())
        poll_until(client, lambda: any(h.request_api_key == ApiKey.FETCH for h, _ in broker.received))
        broker.drop_connections()
        failed = client.poll(5.0, time.monotonic()) or client.poll(5.0, time.monotonic())
        assert failed[0].request is request
        assert isinstance(failed[0].error, DisconnectError)


def test_a_client_with_nothing_to_do_costs_nothing(broker: ScriptedBroker, new_client: Any) -> None:
    client, metadata = new_client(broker.port)
    connected(client, metadata)
    before, started, polls = time.thread_time(), time.monotonic(), 0
    while time.monotonic() < started + 1.0:
        client.poll(0.25, time.monotonic())
        polls += 1
    assert polls <= 6
    assert time.thread_time() - before < 0.05


def test_a_peer_that_is_no_broker_is_told_from_one_that_is_away(
    new_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listening.accept()
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    client, _ = new_client(listening.getsockname()[1])
    poll_until(client, lambda: "does not speak Kafka's protocol" in caplog.text)
    thread.join()
    listening.close()
