"""FaultProxy between a client's socket and a server that echoes: what each fault does, and that it ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from barnabas.errors import IllegalArgumentError, IllegalStateError
from barnabas.testing.fault_proxy import FaultProxy


def _serve(listener: socket.socket) -> None:
    def echo(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                pass

    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=echo, args=(connection,), daemon=True).start()


@pytest.fixture(scope="module")
def echo_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def proxy(echo_server: str) -> Iterator[FaultProxy]:
    with FaultProxy(echo_server) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    with connect(proxy) as client:
        assert exchange(client, b"hello") == b"hello"
        yield client


def connect(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), 5)


def exchange(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return receive(client, len(data))


def receive(client: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer if the connection ends."""
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data


def test_without_faults_everything_passes(proxy: FaultProxy, client: socket.socket) -> None:
    data = bytes(range(256)) * 40_000  # more than the sockets' buffers hold
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    assert receive(client, len(data)) == data
    sender.join()
    assert proxy.connection_count == 1


def test_a_cut_ends_connections_and_new_ones_are_served(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.cut()
    assert client.recv(1) == b""
    with connect(proxy) as another:
        assert exchange(another, b"again") == b"again"
    assert proxy.accepted_count == 2


def test_a_reset_is_an_error(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.cut(reset=True)
    with pytest.raises(ConnectionResetError):
        client.recv(1)


@pytest.mark.parametrize("direction", ["to_client", "to_broker"])
def test_a_connection_is_cut_in_the_middle_of_what_it_carries(
    proxy: FaultProxy, client: socket.socket, direction: str
) -> None:
    proxy.cut_after(3, direction)  # type: ignore[arg-type]  # parameters are strings
    client.sendall(b"12345")
    assert receive(client, 5) in (b"123", b"")
    with connect(proxy) as another:
        assert exchange(another, b"12345") == b"12345"


def test_nobody_listens_until_it_is_healed(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):  # nobody else gets the port meanwhile
        other.bind(("127.0.0.1", proxy.port))
    proxy.heal()
    with connect(proxy) as another:
        assert exchange(another, b"again") == b"again"


def test_a_frozen_connection_stays_and_says_nothing(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.freeze()
    with connect(proxy) as another:
        for side in (client, another):
            side.sendall(b"anybody?")
            side.settimeout(0.1)
            with pytest.raises(TimeoutError):
                side.recv(1)
        proxy.heal()
        for side in (client, another):
            side.settimeout(5)
            assert receive(side, 8) == b"anybody?"


def test_delays_and_narrow_lines_take_their_time(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.delay(0.1)
    started = time.monotonic()
    assert exchange(client, b"late") == b"late"
    assert time.monotonic() - started >= 0.2
    proxy.heal()
    proxy.limit_bandwidth(100_000)
    started = time.monotonic()
    assert exchange(client, b"x" * 30_000) == b"x" * 30_000
    assert time.monotonic() - started >= 0.25


def test_garbage_comes_instead_of_the_answer(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.garble(b"\xde\xad\xbe\xef")
    client.sendall(b"hello")
    assert receive(client, 4) == b"\xde\xad\xbe\xef"
    client.sendall(b"hello")
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(1)
    proxy.heal()
    client.settimeout(5)
    client.sendall(b"well")
    # What was still on its way is delivered now.
    assert receive(client, 4) == b"well" or receive(client, 5) == b"owell"


def test_an_idle_proxy_and_a_frozen_one_use_no_processor(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.freeze()
    client.sendall(b"x" * 1000)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


def test_where_it_leads_can_change_and_nobody_there_closes_the_connection(echo_server: str) -> None:
    with FaultProxy() as proxy:
        with connect(proxy) as client:
            assert client.recv(1) == b""
        proxy.forward_to(echo_server)
        with connect(proxy) as client:
            assert exchange(client, b"found") == b"found"
        with pytest.raises(IllegalArgumentError, match="host:port"):
            proxy.forward_to("localhost")
    proxy.close()
    with pytest.raises(IllegalStateError):
        proxy.cut()
