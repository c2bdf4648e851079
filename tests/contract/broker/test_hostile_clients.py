"""Hostile and broken clients against a broker's process: they hurt only themselves. Memory is the process's own."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas import Broker
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.support.core_broker import SocketClient, batch, create, fetch, produce

MEGABYTE = 1 << 20
CROWD = 2000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Broker() as running:
        yield running
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def crowd(broker: Broker) -> Iterator[Callable[[int], list[socket.socket]]]:
    """So many raw connections; they are closed at the end."""
    with contextlib.ExitStack() as stack:

        def connect(count: int) -> list[socket.socket]:
            return [stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), 10)) for _ in range(count)]

        yield connect


def memory_of(broker: Broker) -> float:
    """The private memory of the broker's process, in megabytes."""
    status = Path(f"/proc/{broker.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def settled(broker: Broker) -> float:
    """The memory once it has stopped to grow."""
    before, now = -1.0, memory_of(broker)
    while now - before > 0.5:
        time.sleep(0.3)
        before, now = now, memory_of(broker)
    return now


def time_to_answer(broker: Broker) -> float:
    """The median time of a small request on a connection of its own, in seconds."""
    with SocketClient(broker.bootstrap_servers) as client:
        times = []
        for _ in range(15):
            started = time.perf_counter()
            assert client.request(MetadataRequest(topics=[]), 12) is not None
            times.append(time.perf_counter() - started)
    return sorted(times)[7]


def test_readers_that_never_read_do_not_make_the_broker_grow(
    broker: Broker, crowd: Callable[[int], list[socket.socket]]
) -> None:
    with SocketClient(broker.bootstrap_servers) as client:
        client.request(create("big", max_message_bytes=str(2 * MEGABYTE)), 7)
        for _ in range(20):
            code = client.request(produce("big", batch(bytes(MEGABYTE))), 12).responses[0]
            assert code.partition_responses[0].error_code == 0
        before = settled(broker)
        asked = fetch("big", partition_max_bytes=50 * MEGABYTE, max_bytes=50 * MEGABYTE)
        request = encode_request(asked, 12, 1, "never reads")
        for reader in crowd(40):
            reader.sendall(request * 20)
        # All together ask for 16 GB; each of them holds a megabyte at most once 64 are held.
        assert settled(broker) - before < 200
        assert time_to_answer(broker) < 0.5
        # A reader who reads gets on meanwhile.
        assert len(client.request(fetch("big"), 12).responses[0].partitions[0].records) > MEGABYTE


def test_requests_that_claim_much_and_send_nothing_take_no_memory(
    broker: Broker, crowd: Callable[[int], list[socket.socket]]
) -> None:
    before = settled(broker)
    for claimant in crowd(100):
        claimant.sendall((100 * MEGABYTE).to_bytes(4, "big") + b"\0\0\0\x0c" + bytes(1000))
    assert settled(broker) - before < 100
    assert time_to_answer(broker) < 0.5


def test_a_request_of_two_gigabytes_ends_its_connection(
    broker: Broker, crowd: Callable[[int], list[socket.socket]]
) -> None:
    (claimant,) = crowd(1)
    claimant.sendall((2**31 - 1).to_bytes(4, "big") + bytes(1000))
    claimant.settimeout(10)
    with contextlib.suppress(ConnectionResetError):
        assert claimant.recv(1) == b""


def test_thousands_of_connections_that_do_nothing(broker: Broker, crowd: Callable[[int], list[socket.socket]]) -> None:
    before = settled(broker)
    request = encode_request(MetadataRequest(topics=[]), 12, 1, "one of many")
    for connection in crowd(CROWD):
        connection.sendall(request)
    assert (settled(broker) - before) / CROWD < 0.02, "20 kB for each connection"
    assert time_to_answer(broker) < 0.5


def test_half_requests_and_garbage_hurt_nobody_else(
    broker: Broker, crowd: Callable[[int], list[socket.socket]]
) -> None:
    source = random.Random(5)
    request = encode_request(FetchRequest(), 12, 1, "half")
    connections = crowd(300)
    for _ in range(10):
        for number, connection in enumerate(connections):
            with contextlib.suppress(OSError):
                if number % 3 == 0:
                    connection.sendall(request[: source.randrange(1, len(request))])
                elif number % 3 == 1:
                    connection.sendall(source.randbytes(source.randrange(1, 200)))
                else:
                    connection.send(request[:1])
        assert time_to_answer(broker) < 0.5
    text = broker.log_text()
    assert "please report this" not in text
    assert len(text.splitlines()) < 50


def test_small_requests_for_much_hold_up_nobody_else(
    broker: Broker, crowd: Callable[[int], list[socket.socket]]
) -> None:
    with SocketClient(broker.bootstrap_servers) as client:
        assert client.request(create("amplified", 10_000), 7).topics[0].error_code == 0
        before = settled(broker)
        repeated = MetadataRequest(topics=[MetadataRequestTopic(name="amplified")] * 1000)
        (hostile,) = crowd(1)
        hostile.sendall(encode_request(repeated, 12, 1, "hostile") * 20)

        waits = []
        for _ in range(50):
            began = time.monotonic()
            assert client.request(MetadataRequest(topics=[]), 12) is not None
            waits.append(time.monotonic() - began)

        assert sorted(waits)[len(waits) // 2] < 0.1
        assert memory_of(broker) - before < 30


def test_requests_behind_one_that_waits_stay_with_their_client(
    broker: Broker, crowd: Callable[[int], list[socket.socket]]
) -> None:
    with SocketClient(broker.bootstrap_servers) as client:
        client.request(create("empty"), 7)
    before = settled(broker)
    first = encode_request(fetch("empty", max_wait_ms=60_000), 12, 1, "greedy")
    many = encode_request(MetadataRequest(topics=[]), 12, 1, "greedy") * 50_000
    (greedy,) = crowd(1)
    greedy.sendall(first)
    greedy.settimeout(0.5)
    with pytest.raises(TimeoutError):
        greedy.sendall(many * 50)
    assert settled(broker) - before < 5


def test_connections_that_are_idle_are_closed() -> None:
    with Broker(connections_max_idle_ms=1000) as broker, SocketClient(broker.bootstrap_servers) as idle:
        started = time.monotonic()
        assert idle.request(MetadataRequest(topics=[]), 12) is not None
        assert idle.socket.recv(1) == b""
        assert time.monotonic() - started > 0.99
