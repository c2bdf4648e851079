"""Bytes of a connection that has not authenticated: to listeners with SASL and with TLS, as frames or as they come.

The first byte of an input says how: pieces are bytes of the connection and not whole frames (1), they go through TLS
(2), sessions end and are renewed (4). Pieces follow. Nothing of it may fail in the broker, and no connection may have
authenticated whose input does not hold what proves it.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from barnabas.broker.network.tls_transport import TlsTransport
from barnabas.broker.security.certificate_authority import CertificateAuthority
from barnabas.network.security.scram import salted_password
from barnabas.protocol.framing import encode_request
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, fetch, produce
from tools.fuzz.pieces import join, split

_STREAM, _TLS, _SESSIONS = 1, 2, 4
_MOST_FRAMES = 8
_PASSWORD = "pa55word-of-alice"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
#: An input that logs in holds one of these: the password, or claims that were signed.
_END_OF_TIME = 1 << 33


class _Loop:
    """In the place of the pool for handshakes: they are computed at once."""

    def __init__(self) -> None:
        self.input = memoryview(bytearray(256 * 1024))

    def compute(self, shake: Any, done: Any) -> None:
        try:
            shake()
        except Exception as problem:  # noqa: BLE001 - as in Handshakes
            done(problem)
        else:
            done(None)


class _Socket:
    """In the place of a socket under TLS."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing to do: the input has no other end."""

    resume_reading = pause_reading


class _Inner:
    """In the place of the connection above TLS: it must not be told of anything before the handshake is done."""

    def __init__(self) -> None:
        self.is_secured = False

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""

    def secured(self, certificate: bytes | None) -> None:
        self.is_secured = True

    def insecure(self, reason: str) -> None:
        assert reason

    def get_buffer(self, sizehint: int) -> memoryview:
        raise AssertionError("bytes came through TLS without a handshake")

    def eof_received(self) -> bool:
        return False


@cache
def _token() -> tuple[str, str]:
    """Return a token that never ends, and the URL of the keys that it is signed with."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    public = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("=")
    keys = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": public, "kid": "1", "alg": "EdDSA"}]}
    descriptor, path = tempfile.mkstemp(suffix=".json")
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(keys, file)
    return jwt.encode({"sub": "dora", "exp": _END_OF_TIME, "iat": 1}, key, "EdDSA", {"kid": "1"}), f"file://{path}"


@cache
def _context() -> ssl.SSLContext:
    now = datetime.now(UTC)
    authority = CertificateAuthority.make(now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(authority.issue(["localhost"], now))
        file.flush()
        context.load_cert_chain(file.name)
    return context


@cache
def _broker(has_sessions: bool) -> CoreBroker:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "listener.name.sasl.plain.sasl.jaas.config": f'PlainLoginModule required user_alice="{_PASSWORD}";',
        "sasl.oauthbearer.jwks.endpoint.url": _token()[1],
        "delegation.token.secret.key": "a secret",
        "connections.max.reauth.ms": 5000 if has_sessions else 0,
    }
    broker = CoreBroker(settings)
    broker.state.advertised["SASL"] = ("127.0.0.1", 9093)
    salted = salted_password("SCRAM-SHA-256", _PASSWORD.encode(), b"a salt", 4096)
    user = ScramCredentialUpsertion("carol", 1, 4096, b"a salt", salted)
    broker.connect().request(AlterUserScramCredentialsRequest(upsertions=[user]), 0)
    return broker


def run(data: bytes) -> None:
    """See the module."""
    flags = data[0] if data else 0
    pieces = split(data[1:], _MOST_FRAMES)
    if flags & _TLS:
        _shake(pieces)
    else:
        _log_in(pieces, flags)


def _shake(pieces: list[bytes]) -> None:
    shared, inner, socket = _Loop(), _Inner(), _Socket()
    transport = TlsTransport(cast("Any", shared), _context(), cast("Any", inner))
    transport.connection_made(cast("Any", socket))
    for piece in pieces:
        shared.input[: len(piece)] = piece
        if not socket.closed:
            transport.buffer_updated(len(piece))
    transport.eof_received()
    # Its last message needs a key that only who runs the exchange has.
    assert not inner.is_secured


def _log_in(pieces: list[bytes], flags: int) -> None:
    broker = _broker(bool(flags & _SESSIONS))
    del broker.warnings[:]
    client = broker.connect("SASL")
    client.transport.write = lambda buffers: None
    for piece in pieces:
        data = piece if flags & _STREAM else len(piece).to_bytes(4, "big") + piece
        _send(client, data)
        broker.node.core.settle(broker.instant)
        broker.advance(3 if flags & _SESSIONS else 0.2)
        _check(client, b"".join(pieces))
    broker.advance(1)
    client.lose()
    faults = [warning for warning in broker.warnings if "please report this" in warning]
    assert not faults, faults[0]
    assert not any(_PASSWORD in warning for warning in broker.warnings)
    assert broker.connect().request(MetadataRequest(topics=[]), 12) is not None
    assert len(broker.node.core.channel.connections) <= 2 * _MOST_FRAMES
    for connection in list(broker.node.core.channel.connections.values()):
        broker.node.core.channel.disconnected(connection)


def _check(client: CoreClient, sent: bytes) -> None:
    """Hold that who has authenticated has sent a proof."""
    info = client.connection.info
    if not info.is_authenticated:
        assert info.principal == "User:ANONYMOUS"
        assert client.connection.buffer.memory <= 1 << 20
        return
    proofs = {"User:alice": _PASSWORD.encode(), "User:dora": _token()[0].split(".")[1].encode()}
    assert proofs[info.principal] in sent


def _send(client: CoreClient, data: bytes) -> None:
    connection = client.connection
    while data and connection.wants_input and not client.closed:
        space = connection.buffer.space()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        data = data[count:]
        connection.received(count, client.broker.instant)


def _frames(mechanism: str, *tokens: bytes, then: Message | None = None, version: int = 1) -> list[bytes]:
    messages: list[tuple[Message, int]] = [(ApiVersionsRequest(client_software_name="a"), 3)]
    messages.append((SaslHandshakeRequest(mechanism=mechanism), version))
    if version:
        messages += [(SaslAuthenticateRequest(auth_bytes=token), 2) for token in tokens]
    found = [encode_request(message, number, 1, "c")[4:] for message, number in messages]
    if not version:
        found += tokens
    if then is not None:
        found.append(encode_request(then, 12 if isinstance(then, MetadataRequest) else 2, 1, "c")[4:])
    return found


def seeds() -> list[bytes]:
    """Logins of every mechanism, right and wrong ones, requests before and behind them, and hellos of TLS."""
    bearer = b"n,,\1auth=Bearer " + _token()[0].encode() + b"\1\1"
    plain = f"\0alice\0{_PASSWORD}".encode()
    first = b"n,,n=carol,r=rOprNGfwEbeRWgbNEkqO"
    final = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    found = []
    for sequence in (
        _frames("PLAIN", plain, then=MetadataRequest(topics=[])),
        _frames("PLAIN", b"\0alice\0wrong", plain),
        _frames("PLAIN", b"bob\0alice\0x"),
        _frames("PLAIN", plain, version=0, then=MetadataRequest(topics=[])),
        _frames("PLAIN", plain) + _frames("PLAIN", plain)[1:],
        _frames("PLAIN", plain) + _frames("OAUTHBEARER", bearer)[1:],
        _frames("SCRAM-SHA-256", first, final, then=MetadataRequest(topics=[])),
        _frames("SCRAM-SHA-512", first, final),
        _frames("SCRAM-SHA-256", b"n,a=admin,n=carol,r=x", b"y,,n=carol,r=x,tokenauth=true"),
        _frames("SCRAM-SHA-256", first + b",tokenauth=true", final, version=0),
        _frames("OAUTHBEARER", bearer, then=CreateDelegationTokenRequest()),
        _frames("OAUTHBEARER", b"n,a=dora,\1auth=Bearer e30.e30.\1traceId=1\1\1", b"\1"),
        _frames("OAUTHBEARER", bearer[:40]),
        _frames("GSSAPI", b"\x60\x28"),
        [encode_request(produce("t", batch(b"x" * 50, compression="gzip")), 12, 1, "c")[4:]],
        [encode_request(fetch("t"), 12, 1, "c")[4:], encode_request(MetadataRequest(), 1, 1, None)[4:]],
    ):
        whole = join(sequence)
        stream = join([b"".join(len(frame).to_bytes(4, "big") + frame for frame in sequence)])
        found += [b"\0" + whole, b"\4" + whole, b"\1" + stream]
    return [*found, *(b"\2" + join(hello) for hello in _hellos())]


def _hellos() -> list[list[bytes]]:
    found = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context()
        context.maximum_version = version
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello = to_server.read()
        found += [[hello], [hello[:50], hello[50:]], [hello, hello], [hello, b"\x15\x03\x03\x00\x02\x01\x00"]]
    return [
        *found,
        [os.urandom(300)],
        [b"GET / HTTP/1.1\r\n\r\n"],
        [b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(900)],
    ]
