"""A client at the wrong port: whatever it is asked for, its error says what became of the connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.errors import KafkaTimeoutError

PATIENCE = 1.5
# What servers say to a plain Kafka request: one for HTTP, and one that expects TLS, by an alert.
ANSWERS = {"HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS": bytes.fromhex("15030300020246")}


def admin(address: str) -> None:
    with AdminClient(bootstrap_servers=address) as client:
        client.list_topics(timeout=PATIENCE)


def producer(address: str) -> None:
    with Producer(bootstrap_servers=address, max_block_ms=int(PATIENCE * 1000)) as client:
        client.partitions_for("t")


def consumer(address: str) -> None:
    with Consumer(bootstrap_servers=address) as client:
        client.end_offsets([TopicPartition("t", 0)], timeout=PATIENCE)


@pytest.fixture(params=ANSWERS)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where something listens that is no broker."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(ANSWERS[request.param])

    thread = threading.Thread(target=serve)
    thread.start()
    host, port = listener.getsockname()
    yield f"{host}:{port}"
    # Closing alone would not end a thread that waits in accept().
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("use", [admin, producer, consumer])
def test_the_error_names_the_address_and_supposes_tls(address: str, use: Callable[[str], None]) -> None:
    with pytest.raises(KafkaTimeoutError) as caught:
        use(address)

    assert f"the connection to {address} ended before the broker said what it understands" in str(caught.value)
    assert "does it expect TLS or SASL?" in str(caught.value)
