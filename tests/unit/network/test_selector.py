"""Selector on real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.errors import IllegalStateError
from barnabas.network.kafka_channel import FIRST_RECEIVE_SIZE
from barnabas.network.selector import Selector


class Peer:
    """The other end: a listening socket and the connections it has accepted."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(5)
        self.port: int = self.listening.getsockname()[1]
        self.accepted: list[socket.socket] = []

    def accept(self) -> socket.socket:
        connection, _ = self.listening.accept()
        connection.settimeout(5)
        self.accepted.append(connection)
        return connection

    def close(self) -> None:
        for open_socket in [self.listening, *self.accepted]:
            open_socket.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


@pytest.fixture
def selector() -> Iterator[Selector]:
    made = Selector()
    yield made
    made.close_all()


def poll_until(selector: Selector, is_over: Callable[[], Any], timeout: float = 5.0) -> None:
    """Polls until something holds for the results of one poll."""
    deadline = time.monotonic() + timeout
    while True:
        selector.poll(0.5, 0.0)
        if is_over():
            return
        assert time.monotonic() < deadline, "this never happened"


def connect(selector: Selector, peer: Peer, node_id: int = 1) -> socket.socket:
    selector.connect(node_id, "127.0.0.1", peer.port)
    poll_until(selector, lambda: selector.connected == [node_id])
    return peer.accept()


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def test_a_connection_is_reported_once(selector: Selector, peer: Peer) -> None:
    connect(selector, peer)
    assert selector.is_channel_ready(1)
    selector.poll(0.0, 0.0)
    assert selector.connected == []


def test_frames_arrive_whole_and_in_order(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    connection.sendall(frame(b"one") + frame(b"") + frame(b"three")[:6])
    received: list[bytes] = []

    def take() -> bool:
        received.extend(bytes(data) for node_id, data in selector.completed_receives if node_id == 1)
        return len(received) == 2

    poll_until(selector, take)
    connection.sendall(frame(b"three")[6:])
    poll_until(selector, lambda: selector.completed_receives)
    assert received == [b"one", b""]
    assert bytes(selector.completed_receives[0][1]) == b"three"


def test_a_send_is_complete_when_the_system_has_taken_all_of_it(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    payload = bytes(range(256)) * 4 * 1024 * 32
    selector.send(1, [len(payload).to_bytes(4, "big"), payload[:100], b"", memoryview(payload)[100:]])
    received = bytearray()

    def read() -> None:
        while len(received) < len(payload) + 4:
            received.extend(connection.recv(1 << 20))

    selector.poll(0.0, 0.0)
    assert selector.is_send_in_progress(1)
    assert selector.completed_sends == []
    reader = threading.Thread(target=read)
    reader.start()
    poll_until(selector, lambda: selector.completed_sends == [1])
    reader.join()
    assert not selector.is_send_in_progress(1)
    assert bytes(received) == frame(payload)


def test_large_frames_come_through_unharmed(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    selector.set_max_receive_size(1, 2**31 - 1)
    payload = bytes(range(251)) * 20_000
    writer = threading.Thread(target=connection.sendall, args=(frame(payload) + frame(b"next"),))
    writer.start()
    received: list[Any] = []
    poll_until(selector, lambda: received.extend(f for _, f in selector.completed_receives) or len(received) == 2)
    writer.join()
    assert received[0] == payload
    assert received[1] == b"next"


def test_a_frame_stays_valid_after_later_ones_have_come(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    connection.sendall(frame(b"first"))
    poll_until(selector, lambda: selector.completed_receives)
    (_, kept) = selector.completed_receives[0]
    for _ in range(50):
        connection.sendall(frame(b"x" * 40_000))
        poll_until(selector, lambda: selector.completed_receives)
    assert bytes(kept) == b"first"


def test_a_closed_connection_is_reported_after_what_came_before(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    connection.sendall(frame(b"last words"))
    connection.close()
    seen: list[str] = []

    def take() -> bool:
        seen.extend(["receive"] * len(selector.completed_receives))
        seen.extend(["disconnect"] * len(selector.disconnected))
        return "disconnect" in seen

    poll_until(selector, take)
    assert seen == ["receive", "disconnect"]
    assert selector.disconnected[1].was_connected
    assert "closed the connection" in selector.disconnected[1].reason
    assert not selector.is_channel_ready(1)


def test_the_bound_of_frames_may_be_raised_after_the_poll_that_also_brought_the_end(
    selector: Selector, peer: Peer
) -> None:
    connection = connect(selector, peer)
    # As much as is read at once: so it is read on, and the end is found.
    connection.sendall(frame(bytes(65536 - 4)))
    connection.close()
    time.sleep(0.1)
    selector.poll(1.0, 0.0)
    assert len(selector.completed_receives) == len(selector.disconnected) == 1

    selector.set_max_receive_size(1, 1 << 20)


def test_a_refused_connection_is_reported_as_one_that_was_never_made(selector: Selector, peer: Peer) -> None:
    peer.close()
    selector.connect(1, "127.0.0.1", peer.port)
    poll_until(selector, lambda: selector.disconnected)
    assert not selector.disconnected[1].was_connected
    assert "refused" in selector.disconnected[1].reason.lower()
    assert str(peer.port) in selector.disconnected[1].address


def test_all_addresses_of_a_host_are_tried(peer: Peer) -> None:
    class TwoAddresses:
        def resolve(self, host: str, port: int, done: Any) -> None:
            family = socket.AF_INET
            done([(family, ("127.0.0.1", unused_port())), (family, ("127.0.0.1", port))])

    selector = Selector(resolver=TwoAddresses())
    selector.connect(1, "somewhere", peer.port)
    poll_until(selector, lambda: selector.connected == [1])
    selector.close_all()


def test_the_next_attempt_begins_with_the_next_address(peer: Peer) -> None:
    tried: list[str] = []

    class Recording(Selector):
        def _open(self, opened: socket.socket, family: int) -> None:
            tried.append("open")
            super()._open(opened, family)

    class TwoAddresses:
        def resolve(self, host: str, port: int, done: Any) -> None:
            done([(socket.AF_INET, ("127.0.0.1", unused_port())), (socket.AF_INET, ("127.0.0.1", port))])

    selector = Recording(resolver=TwoAddresses())
    selector.connect(1, "somewhere", peer.port, attempt=1)
    poll_until(selector, lambda: selector.connected == [1])
    assert tried == ["open"]
    selector.close_all()


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_names_are_looked_up_without_holding_up_poll(selector: Selector, peer: Peer) -> None:
    release = threading.Event()
    made = Selector(resolver=SlowResolver(release))
    made.connect(1, "slow.example", peer.port)
    started = time.monotonic()
    made.poll(0.05, 0.0)
    assert time.monotonic() - started < 1.0
    assert made.connected == []
    release.set()
    poll_until(made, lambda: made.connected == [1])
    made.close_all()


class SlowResolver:
    """Answers from a thread of its own, when it is allowed to."""

    def __init__(self, release: threading.Event) -> None:
        self.release = release

    def resolve(self, host: str, port: int, done: Any) -> None:
        def answer() -> None:
            self.release.wait(5)
            done([(socket.AF_INET, ("127.0.0.1", port))])

        threading.Thread(target=answer, daemon=True).start()


def test_localhost_is_found(selector: Selector, peer: Peer) -> None:
    selector.connect(1, "localhost", peer.port)
    poll_until(selector, lambda: selector.connected == [1])


def test_a_name_that_does_not_exist_is_a_failed_connection(selector: Selector) -> None:
    selector.connect(1, "no such host..", 9092)
    poll_until(selector, lambda: selector.disconnected)
    assert "could not be resolved" in selector.disconnected[1].reason


def test_a_peer_that_does_not_speak_kafka_is_left(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    poll_until(selector, lambda: selector.disconnected)
    assert "does not speak Kafka's protocol" in selector.disconnected[1].reason


def test_before_a_peer_is_known_its_frames_are_bounded(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    connection.sendall((FIRST_RECEIVE_SIZE + 1).to_bytes(4, "big"))
    poll_until(selector, lambda: selector.disconnected)


def test_wakeup_ends_a_poll_that_waits(selector: Selector) -> None:
    threading.Timer(0.05, selector.wakeup).start()
    started = time.monotonic()
    selector.poll(10.0, 0.0)
    assert time.monotonic() - started < 5.0


def test_a_wakeup_before_the_poll_ends_it_and_only_it(selector: Selector) -> None:
    for _ in range(3):
        selector.wakeup()
    started = time.monotonic()
    selector.poll(10.0, 0.0)
    assert time.monotonic() - started < 5.0
    started = time.monotonic()
    selector.poll(0.05, 0.0)
    assert time.monotonic() - started >= 0.04


def test_many_threads_may_wake_it_up(selector: Selector) -> None:
    stop = threading.Event()

    def wake() -> None:
        while not stop.wait(0.0001):
            selector.wakeup()

    threads = [threading.Thread(target=wake) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        selector.poll(5.0, 0.0)
    stop.set()
    for thread in threads:
        thread.join()
    selector.poll(0.0, 0.0)
    selector.wakeup()
    started = time.monotonic()
    selector.poll(5.0, 0.0)
    assert time.monotonic() - started < 2.0


def test_poll_waits_when_there_is_nothing_to_do(selector: Selector, peer: Peer) -> None:
    connect(selector, peer)
    before = time.process_time()
    started = time.monotonic()
    selector.poll(0.2, 0.0)
    assert time.monotonic() - started >= 0.19
    assert time.process_time() - before < 0.1


def test_a_poll_that_sends_the_last_word_returns_at_once(selector: Selector, peer: Peer) -> None:
    connect(selector, peer)
    selector.send(1, [frame(b"no answer, please")], expect_response=False)
    started = time.monotonic()
    selector.poll(10.0, 0.0)
    assert selector.completed_sends == [1]
    assert time.monotonic() - started < 5.0


def test_one_send_at_a_time(selector: Selector, peer: Peer) -> None:
    connect(selector, peer)
    selector.send(1, [frame(b"one")])
    with pytest.raises(IllegalStateError, match="still in progress"):
        selector.send(1, [frame(b"two")])
    with pytest.raises(IllegalStateError, match="no connection to node 2"):
        selector.send(2, [frame(b"two")])
    with pytest.raises(IllegalStateError, match="already a connection"):
        selector.connect(1, "127.0.0.1", peer.port)


def test_closing_is_silent_and_frees_the_node(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    selector.close(1)
    selector.close(1)
    assert connection.recv(10) == b""
    selector.poll(0.0, 0.0)
    assert selector.disconnected == {}
    connect(selector, peer)


def test_sending_to_a_peer_that_is_gone_is_a_disconnection(selector: Selector, peer: Peer) -> None:
    connection = connect(selector, peer)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    selector.send(1, [frame(b"x" * 100_000)])
    poll_until(selector, lambda: selector.disconnected)
    assert selector.disconnected[1].was_connected


def test_one_descriptor_shows_an_event_loop_that_there_is_something_to_do(selector: Selector, peer: Peer) -> None:
    import select

    connection = connect(selector, peer)
    assert select.select([selector.fileno()], [], [], 0)[0] == []
    connection.sendall(frame(b"news"))
    assert select.select([selector.fileno()], [], [], 5)[0] == [selector.fileno()]


def test_socket_buffers_have_the_sizes_asked_for(peer: Peer) -> None:
    selector = Selector(send_buffer=40_000, receive_buffer=50_000)
    selector.connect(1, "127.0.0.1", peer.port)
    poll_until(selector, lambda: selector.connected == [1])
    opened = selector._channels[1].socket
    assert opened is not None
    # Linux doubles what it is asked for.
    assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (40_000, 80_000)
    assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)
    assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    selector.close_all()


def test_a_socket_that_takes_no_options_is_closed_and_the_connection_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    class Stubborn(socket.socket):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            made.append(self)

        def setsockopt(self, *arguments: Any) -> None:
            raise OSError(92, "Protocol not available")

    selector = Selector()
    monkeypatch.setattr(socket, "socket", Stubborn)
    selector.connect(1, "127.0.0.1", 9)
    deadline = time.monotonic() + 10
    while 1 not in selector.disconnected:
        assert time.monotonic() < deadline
        selector.poll(0.05, time.monotonic())
    assert "Protocol not available" in selector.disconnected[1].reason
    assert [opened.fileno() for opened in made] == [-1]
    selector.close_all()
