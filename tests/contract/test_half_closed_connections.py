"""A client that sends no more and still reads: all that it has sent is worked on, also behind a long poll."""

from __future__ import annotations

import socket
import time

import pytest

from barnabas import Producer
from tests.support.core_broker import SocketClient, batch, fetch, produce


def test_requests_behind_a_long_poll_are_answered_after_the_end_of_the_input(
    bootstrap_servers: str, topic: str
) -> None:
    record = batch(b"x", now_ms=int(time.time() * 1000))
    with Producer(bootstrap_servers=bootstrap_servers) as producer:  # tries until the new topic has a leader
        producer.send(topic, b"first", partition=0).result(30)
    with SocketClient(bootstrap_servers, timeout=120) as client:
        client.send(fetch(topic, 1, max_wait_ms=300), 12)
        for _ in range(3):
            client.send(produce(topic, record), 12)
        client.socket.shutdown(socket.SHUT_WR)

        assert client.receive(1, 12).responses[0].partitions[0].error_code == 0
        offsets = [client.receive(0, 12).responses[0].partition_responses[0].base_offset for _ in range(3)]

        assert offsets == [1, 2, 3]
        with pytest.raises(ConnectionError, match="closed"):
            client.receive(0, 12)
