"""Selector with TLS and SASL, against small servers on real sockets."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.errors import KafkaError, SaslAuthenticationError, SslAuthenticationError
from barnabas.network.security.blocking_worker import run_work
from barnabas.network.security.channel_builder import ChannelBuilder
from barnabas.network.security.sasl_client import PlainSaslClient, Work
from barnabas.network.selectable import Authentication
from barnabas.network.selector import Selector
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import (
    FrameReader,
    decode_request,
    decode_request_header,
    encode_request,
    encode_response,
)
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.peers.secure_kafka import Certificates
from tests.support.network_fakes import all_api_versions


class Here:
    """A worker without threads."""

    def submit(self, work: Work, done: Any) -> None:
        run_work(work, done)


class Server:
    """Accepts one connection after the other and has `serve` deal with each in its thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                try:
                    self._serve(connection)
                except OSError:
                    continue

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self._thread.join(5)


@pytest.fixture
def serving() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    servers: list[Server] = []

    def start(serve: Callable[[socket.socket], None]) -> int:
        servers.append(Server(serve))
        return servers[-1].port

    yield start
    for server in servers:
        server.close()


def tls_server(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.broker)
    return context


def echo(certificates: Certificates) -> Callable[[socket.socket], None]:
    """Says back all it hears, through TLS."""
    context = tls_server(certificates)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            while data := wrapped.recv(1 << 20):
                wrapped.sendall(data)

    return serve


def secured(context: ssl.SSLContext | None = None, sasl: bool = False, password: str = "hunter2") -> Selector:
    new = (lambda: PlainSaslClient("alice", password)) if sasl else None
    return Selector(channel_builder=ChannelBuilder("me", context, new, worker=Here()))


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificates.authority)


def poll_until(selector: Selector, is_over: Callable[[], Any], timeout: float = 5.0) -> None:
    deadline = time.monotonic() + timeout
    while not is_over():
        selector.poll(0.2, 0.0)
        assert time.monotonic() < deadline, "this never happened"


@pytest.mark.parametrize("sizes", [[5], [1, 2, 3], [100_000], [3_000_000], [10, 40_000, 7, 20_000, 1] * 20])
def test_frames_travel_whole_through_tls(certificates: Certificates, serving: Any, sizes: list[int]) -> None:
    selector = secured(trusting(certificates))
    selector.connect(1, "localhost", serving(echo(certificates)))
    poll_until(selector, lambda: selector.is_channel_ready(1))
    selector.set_max_receive_size(1, 2**31 - 1)
    frames = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    got: list[bytes] = []

    selector.send(1, [part for frame in frames for part in (len(frame).to_bytes(4, "big"), frame)])

    def collect() -> bool:
        got.extend(bytes(frame) for _, frame in selector.completed_receives)
        selector.completed_receives = []
        return len(got) == len(frames)

    poll_until(selector, collect, 20)
    assert got == frames
    selector.close_all()


def test_what_tls_has_decrypted_already_is_not_waited_for(
    certificates: Certificates, serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.network.selector._READ_BUDGET", 1)
    # One TLS record that holds more than the receive buffer takes at once.
    monkeypatch.setattr("barnabas.network.network_receive._STAGING_SIZE", 64)
    selector = secured(trusting(certificates))
    selector.connect(1, "localhost", serving(echo(certificates)))
    poll_until(selector, lambda: selector.is_channel_ready(1))
    count = 1000
    selector.send(1, [b"\0\0\0\x04ping" * count])
    got = 0
    deadline = time.monotonic() + 10
    while got < count and time.monotonic() < deadline:
        # As an event loop does: it polls only when the descriptor says that there is something.
        readable, _, _ = select.select([selector.fileno()], [], [], 0 if not got else 5)
        if readable or not got:
            selector.poll(0.0, 0.0)
            got += len(selector.completed_receives)
    assert got == count
    selector.close_all()


@pytest.mark.parametrize(
    ("host", "trusts", "reason"),
    [("localhost", False, "is not accepted"), ("127.0.0.1", True, "IP address mismatch")],
)
def test_a_certificate_that_proves_nothing_ends_the_connection_for_good(
    certificates: Certificates, serving: Any, host: str, trusts: bool, reason: str
) -> None:
    selector = secured(trusting(certificates) if trusts else ssl.create_default_context())
    selector.connect(1, host, serving(echo(certificates)))

    poll_until(selector, lambda: selector.disconnected)

    error = selector.disconnected[1].authentication_error
    assert isinstance(error, SslAuthenticationError)
    assert reason in str(error)
    selector.close_all()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["closes", "talks plainly"])
def test_a_port_without_tls_is_recognised(certificates: Certificates, serving: Any, answer: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(10_000)
        connection.sendall(answer)

    selector = secured(trusting(certificates))
    selector.connect(1, "localhost", serving(serve))
    poll_until(selector, lambda: selector.disconnected)

    disconnection = selector.disconnected[1]
    assert "TLS" in disconnection.reason
    # An end is worth another attempt, words that are not TLS are not.
    assert (disconnection.authentication_error is not None) == bool(answer)
    selector.close_all()


def sasl_broker(password: str = "hunter2", lifetime_ms: int = 0, seen: list[int] | None = None) -> Any:
    """Speaks just enough SASL, and echoes the frames that come after it with their first 4 bytes in front."""

    def serve(connection: socket.socket) -> None:
        reader = FrameReader(1 << 20)
        while data := connection.recv(65536):
            reader.feed(data)
            while (frame := reader.next_frame()) is not None:
                connection.sendall(answer(frame))

    def answer(frame: memoryview) -> bytes:
        header, _ = decode_request_header(frame)
        _, message = decode_request(frame)
        if seen is not None:
            seen.append(header.request_api_key)
        reply: Any = all_api_versions()
        if header.request_api_key == ApiKey.SASL_HANDSHAKE:
            reply = SaslHandshakeResponse(mechanisms=["PLAIN"])
        elif header.request_api_key == ApiKey.SASL_AUTHENTICATE:
            is_right = message.auth_bytes.endswith(password.encode())  # type: ignore[attr-defined]  # it is one
            reply = SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
            if not is_right:
                reply = SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password")
        return b"".join(
            bytes(part) for part in encode_response(reply, header.request_api_version, header.correlation_id)
        )

    return serve


def test_a_connection_is_ready_when_sasl_is_done(serving: Any) -> None:
    seen: list[int] = []
    selector = secured(sasl=True)
    selector.connect(1, "localhost", serving(sasl_broker(seen=seen)))
    poll_until(selector, lambda: selector.connected)
    poll_until(selector, lambda: selector.is_channel_ready(1))

    assert seen == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    assert not selector.completed_receives
    selector.close_all()


def test_a_refusal_ends_the_connection_with_the_brokers_words(serving: Any) -> None:
    selector = secured(sasl=True, password="guess")
    selector.connect(1, "localhost", serving(sasl_broker()))
    poll_until(selector, lambda: selector.disconnected)

    error = selector.disconnected[1].authentication_error
    assert isinstance(error, SaslAuthenticationError)
    assert str(error).startswith("Invalid username or password (SASL PLAIN at localhost:")
    assert "guess" not in str(error)
    assert not selector.disconnected[1].was_authenticated
    selector.close_all()


def test_a_session_is_renewed_before_the_next_request_and_answers_still_arrive(serving: Any) -> None:
    seen: list[int] = []
    selector = secured(sasl=True)
    selector.connect(1, "localhost", serving(sasl_broker(lifetime_ms=200, seen=seen)))
    poll_until(selector, lambda: selector.authentications)
    assert (selector.is_channel_ready(1), selector.authentications) == (True, [Authentication(1)])
    del seen[:], selector.authentications[:]
    renewals: list[float | None] = []

    def is_answered() -> bool:
        renewals.extend(one.renewed_in for one in selector.authentications)
        selector.authentications = []
        return bool(selector.completed_receives)

    request = encode_request(ApiVersionsRequest(), 0, 7, "me")
    for _ in range(3):
        time.sleep(0.2)
        selector.send(1, [request])
        assert selector.is_send_in_progress(1)
        poll_until(selector, is_answered)
        node, frame = selector.completed_receives[0]
        assert (node, bytes(frame[:4])) == (1, b"\0\0\0\7")
        selector.completed_receives = []

    assert seen == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS] * 3
    assert len(renewals) == 3
    assert all(seconds is not None and 0 < seconds < 5 for seconds in renewals)
    selector.close_all()


def test_who_is_refused_when_the_session_is_renewed_was_let_in_before(serving: Any) -> None:
    passwords = ["hunter2", "old"]
    builder = ChannelBuilder("me", None, lambda: PlainSaslClient("alice", passwords.pop(0)), worker=Here())
    selector = Selector(channel_builder=builder)
    selector.connect(1, "localhost", serving(sasl_broker(lifetime_ms=1)))
    poll_until(selector, lambda: selector.authentications)
    time.sleep(0.01)
    selector.send(1, [encode_request(ApiVersionsRequest(), 0, 7, "me")])
    poll_until(selector, lambda: selector.disconnected)

    assert isinstance(selector.disconnected[1].authentication_error, SaslAuthenticationError)
    assert selector.disconnected[1].was_authenticated
    selector.close_all()


def test_tls_alone_lets_a_client_in_too(certificates: Certificates, serving: Any) -> None:
    selector = secured(trusting(certificates))
    selector.connect(1, "localhost", serving(echo(certificates)))
    poll_until(selector, lambda: selector.authentications)
    assert (selector.is_channel_ready(1), selector.authentications) == (True, [Authentication(1)])
    selector.close_all()


def test_work_that_fails_ends_the_connection_and_leaves_room_for_another_attempt(serving: Any) -> None:
    class Failing(PlainSaslClient):
        def initial_response(self) -> Any:
            def fail() -> bytes:
                raise KafkaError("the endpoint is down")

            return Work(fail)

    selector = Selector(channel_builder=ChannelBuilder("me", None, lambda: Failing("a", "b")))
    selector.connect(1, "localhost", serving(sasl_broker()))
    poll_until(selector, lambda: selector.disconnected)

    assert selector.disconnected[1].reason == "the endpoint is down"
    assert selector.disconnected[1].authentication_error is None
    selector.close_all()


def test_a_broker_without_the_request_that_carries_a_token_is_refused_not_feared(serving: Any) -> None:
    class Waiting(PlainSaslClient):
        def initial_response(self) -> Any:
            return Work(lambda: b"a token")

    def serve(connection: socket.socket) -> None:
        reader = FrameReader(1 << 20)
        while data := connection.recv(65536):
            reader.feed(data)
            while (frame := reader.next_frame()) is not None:
                header, _ = decode_request_header(frame)
                reply: Any = SaslHandshakeResponse(mechanisms=["PLAIN"])
                if header.request_api_key == ApiKey.API_VERSIONS:
                    reply = all_api_versions()
                    reply.api_keys = [api for api in reply.api_keys if api.api_key != ApiKey.SASL_AUTHENTICATE]
                for part in encode_response(reply, header.request_api_version, header.correlation_id):
                    connection.sendall(part)

    selector = Selector(channel_builder=ChannelBuilder("me", None, lambda: Waiting("a", "b")))
    selector.connect(1, "localhost", serving(serve))
    poll_until(selector, lambda: selector.disconnected)

    assert isinstance(selector.disconnected[1].authentication_error, SaslAuthenticationError)
    selector.close_all()
