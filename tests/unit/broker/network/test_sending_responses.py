"""Responses on real sockets: large ones go from the file to the socket, also to a client that does not take them."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Iterator

import pytest

from barnabas import Broker
from barnabas.broker import runner
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.records import read_batches
from tests.support.core_broker import SocketClient, batch, create, produce

PARTITIONS = 3
VALUES = [random.Random(number).randbytes(300_000) for number in range(10)]
SIZE_OF_ALL = sum(map(len, VALUES))


@pytest.fixture(params=["uvloop", "asyncio"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker in this process with ten batches of 300 KB in each of three partitions."""
    if request.param == "asyncio":
        monkeypatch.setattr(runner, "new_event_loop", asyncio.new_event_loop)
    with Broker(in_process=True) as broker:
        with SocketClient(broker.bootstrap_servers) as client:
            client.request(create("t", PARTITIONS), 7)
            for partition in range(PARTITIONS):
                for value in VALUES:
                    client.request(produce("t", batch(value), partition), 12)
        yield broker


def fetch_all(limit: int = 1 << 30) -> FetchRequest:
    asked = [FetchPartition(partition=index, partition_max_bytes=limit) for index in range(PARTITIONS)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=asked)])


def values(response: object) -> list[list[bytes | None]]:
    return [
        [record.value for found in read_batches(partition.records) for record in found]
        for partition in response.responses[0].partitions  # type: ignore[attr-defined]  # a FetchResponse
    ]


def test_large_responses_come_whole(broker: Broker) -> None:
    with SocketClient(broker.bootstrap_servers) as client:
        for limit, expected in ((1 << 30, 10), (1_000_000, 3), (10, 1)):
            read = values(client.request(fetch_all(limit), 12))
            assert read[0] == VALUES[:expected]


def test_a_client_that_takes_responses_late_gets_them_whole_though_the_topic_is_gone(broker: Broker) -> None:
    requests = 4
    with SocketClient(broker.bootstrap_servers) as slow, SocketClient(broker.bootstrap_servers) as other:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        for _ in range(requests):
            slow.send(fetch_all(), 12)
        # The first response has begun, and the socket cannot hold all of it.
        slow.socket.recv(1, socket.MSG_PEEK)
        deleted = other.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        assert deleted.responses[0].error_code == 0

        responses = [slow.receive(FetchRequest.API_KEY, 12) for _ in range(requests)]

    codes = [[partition.error_code for partition in response.responses[0].partitions] for response in responses]
    whole = [values(response) for response, found in zip(responses, codes, strict=True) if not any(found)]
    assert whole
    assert all(read == [VALUES] * PARTITIONS for read in whole)
    # What was not worked on before the topic was deleted says so.
    assert all(all(found) for found in codes[len(whole) :])


def test_a_response_that_cannot_be_completed_ends_the_connection(broker: Broker) -> None:
    path = os.path.join(broker.data_dir, "t-0", f"{0:020}.log")
    os.truncate(path, SIZE_OF_ALL // 2)
    with SocketClient(broker.bootstrap_servers) as client, pytest.raises(ConnectionError):
        client.request(fetch_all(), 12)
    with SocketClient(broker.bootstrap_servers) as client:
        assert values(client.request(fetch_all(1_000_000), 12))[1] == VALUES[:3]
