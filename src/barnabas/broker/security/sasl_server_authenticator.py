"""Kafka's SaslServerAuthenticator: takes a connection's frames until its client has shown who it is.

Source: KIP-43 (handshake), KIP-152 (SaslAuthenticate), KIP-368 (re-authentication). Before the handshake a client may
ask for ApiVersions; after a handshake of version 0 tokens travel without Kafka's headers.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas import errors
from barnabas.broker.network.login_counts import LoginOutcome
from barnabas.errors import IllegalSaslStateError, InvalidRequestError, ProtocolError, SaslAuthenticationError
from barnabas.protocol.api import request_class
from barnabas.protocol.codec import MAX_ELEMENTS, Decoder
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.broker.network.login_counts import LoginCounts
    from barnabas.broker.security.sasl_listener import SaslListener, SaslMechanism
    from barnabas.broker.security.sasl_server import Identity, SaslServer
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.request_header import RequestHeader

_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 17, 18, 36
_VERSIONS = {_SASL_HANDSHAKE: 1, _SASL_AUTHENTICATE: 2}
#: A client that authenticates again sooner is refused, in seconds (KIP-368).
_SHORTEST_SESSION = 1.0
_NAMES = {_SASL_HANDSHAKE: SaslHandshakeResponse, _API_VERSIONS: ApiVersionsResponse}
#: What an operator is told at most of what clients have sent.
_LONGEST_TOLD = 200


class LoginChannel(Protocol):
    """What a login asks of the broker's connections (`RequestChannel`)."""

    instant: Instant
    logins: LoginCounts
    max_request_size: int

    def handle(self, connection: ClientConnection, frame: memoryview) -> None:
        """Take a request of a client that may ask."""

    def refuse(self, connection: ClientConnection, reason: str) -> None:
        """End a connection, for a reason that the operator should know."""

    def call_later(self, seconds: float, connection: ClientConnection, call: Callable[[], None]) -> None:
        """Call something for a connection after so long."""


class LoginState(Enum):
    """What a connection has to send next."""

    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    #: Tokens without headers, after a handshake of version 0.
    RAW_TOKEN = auto()
    COMPLETE = auto()
    FAILED = auto()


class SaslServerAuthenticator:
    """One connection's. `handle` is what the connection calls with each frame."""

    def __init__(self, sasl: SaslListener, channel: LoginChannel) -> None:
        self._sasl = sasl
        self._channel = channel
        self._state = LoginState.HANDSHAKE_OR_VERSIONS
        self._mechanism: SaslMechanism | None = None
        self._server: SaslServer | None = None
        #: Mechanism and name of the session that is to be renewed.
        self._session: tuple[str, str] | None = None
        self._ends = inf
        self._renewed_at = -inf

    def handle(self, connection: ClientConnection, frame: memoryview) -> None:
        """Take a frame: of the login, or a request of an authenticated client."""
        if self._state is LoginState.RAW_TOKEN:
            self._authenticate_raw(connection, bytes(frame))
        elif self._state is LoginState.COMPLETE:
            self._handle_known(connection, frame)
        elif self._state is not LoginState.FAILED:
            self._log_in(connection, frame)

    # -- before ------------------------------------------------------------------------------------------------------

    def _log_in(self, connection: ClientConnection, frame: memoryview) -> None:
        try:
            header, offset = decode_request_header(frame)
            key, version = header.request_api_key, header.request_api_version
            if key == _API_VERSIONS and self._state is LoginState.HANDSHAKE_OR_VERSIONS:
                self._channel.handle(connection, frame)
                return
            wanted = _SASL_AUTHENTICATE if self._state is LoginState.AUTHENTICATE else _SASL_HANDSHAKE
            if key != wanted or not 0 <= version <= _VERSIONS[key]:
                self._out_of_order(connection, header)
                return
            request = Decoder(frame, offset, -1, MAX_ELEMENTS).message(plan_of(request_class(key), version))
        except (ProtocolError, InvalidRequestError) as problem:
            self._fail(connection, f"a request cannot be understood: {problem}", None)
            return
        if key == _SASL_HANDSHAKE:
            self._shake_hands(connection, header, str(request.mechanism))
        else:
            self._authenticate(connection, header, bytes(request.auth_bytes))

    def _shake_hands(self, connection: ClientConnection, header: RequestHeader, name: str) -> None:
        mechanism = self._sasl.mechanisms.get(name)
        response = SaslHandshakeResponse(mechanisms=list(self._sasl.mechanisms))
        if mechanism is None:
            response.error_code = errors.UnsupportedSaslMechanismError.code
            self._send(connection, header, response)
            self._fail(connection, f"it wants the SASL mechanism {name[:40]!r}, which is not enabled here", None)
            return
        if self._session is not None and self._session[0] != name:
            self._fail(connection, "it has changed its SASL mechanism at re-authentication", None)
            return
        self._send(connection, header, response)
        self._mechanism, self._server = mechanism, mechanism.new_server()
        self._state = LoginState.AUTHENTICATE if header.request_api_version > 0 else LoginState.RAW_TOKEN

    def _authenticate(self, connection: ClientConnection, header: RequestHeader, token: bytes) -> None:
        try:
            answer = self._evaluate(token)
        except SaslAuthenticationError as problem:
            refusal = SaslAuthenticateResponse(error_code=problem.code, error_message=str(problem))
            self._fail(connection, str(problem), lambda: self._send(connection, header, refusal))
            return
        response = SaslAuthenticateResponse(auth_bytes=answer, error_message=None)
        identity = self._identity()
        if identity is not None:
            response.session_lifetime_ms = self._complete(connection, identity)
        self._send(connection, header, response)

    def _authenticate_raw(self, connection: ClientConnection, token: bytes) -> None:
        try:
            answer = self._evaluate(token)
        except SaslAuthenticationError as problem:
            # There is no way to tell the client why.
            self._fail(connection, str(problem), None)
            return
        identity = self._identity()
        if identity is not None:
            self._complete(connection, identity)
        connection.put([len(answer).to_bytes(4, "big") + answer])

    def _evaluate(self, token: bytes) -> bytes:
        assert self._server is not None
        answer = self._server.evaluate(token, self._channel.instant.now_ms)
        identity = self._server.identity
        if identity is not None and self._session is not None and self._session[1] != identity.name:
            raise SaslAuthenticationError(
                "Authentication failed: Cannot change principals during re-authentication from "
                f"User:{self._session[1]} to User:{identity.name}"
            )
        return answer

    def _identity(self) -> Identity | None:
        return None if self._server is None else self._server.identity

    def _complete(self, connection: ClientConnection, identity: Identity) -> int:
        """Let the connection's requests be worked on; gives the lifetime of the session in milliseconds, 0 for ever."""
        assert self._mechanism is not None
        instant, info = self._channel.instant, connection.info
        info.principal = f"User:{identity.name}"
        info.is_token_authenticated = identity.is_token
        info.is_authenticated = True
        lifetimes = [self._mechanism.max_reauth] if self._mechanism.max_reauth > 0 else []
        if identity.lifetime_ms is not None:
            lifetimes.append(max(0.0, (identity.lifetime_ms - instant.now_ms) / 1000))
        self._count(connection, LoginOutcome.SUCCESSFUL if self._session is None else LoginOutcome.RENEWED)
        self._state, self._server = LoginState.COMPLETE, None
        self._session = self._mechanism.name, identity.name
        self._ends = instant.now + min(lifetimes, default=inf)
        connection.buffer.limit(self._channel.max_request_size)
        if not lifetimes:
            # From now on nothing stands between the connection and its requests.
            connection.handle = self._channel.handle
            return 0
        return max(1, int(min(lifetimes) * 1000))

    # -- afterwards, where sessions end -------------------------------------------------------------------------------

    def _handle_known(self, connection: ClientConnection, frame: memoryview) -> None:
        now = self._channel.instant.now
        if frame[:2] == _SASL_HANDSHAKE.to_bytes(2, "big") and now - self._renewed_at >= _SHORTEST_SESSION:
            self._renewed_at = now
            self._state = LoginState.HANDSHAKE
            self._log_in(connection, frame)
        elif now >= self._ends:
            self._count(connection, LoginOutcome.EXPIRED)
            self._channel.refuse(connection, "its session has ended, and it has not authenticated again")
        else:
            self._channel.handle(connection, frame)

    # -- failures ----------------------------------------------------------------------------------------------------

    def _out_of_order(self, connection: ClientConnection, header: RequestHeader) -> None:
        """Answer who knows how to be told; others learn it by the end of the connection, as from Kafka."""
        response = _NAMES.get(header.request_api_key)
        why = f"it has sent {_name_of(header.request_api_key)} before it has authenticated"
        if response is None or self._state is LoginState.HANDSHAKE_OR_VERSIONS:
            self._fail(connection, why, None)
            return
        refusal = response(error_code=IllegalSaslStateError.code)
        # Who asks for a version that the message does not have could not read any answer.
        version = 1 if header.request_api_key != _API_VERSIONS and header.request_api_version > 0 else 0
        self._fail(connection, why, lambda: connection.put(encode_response(refusal, version, header.correlation_id)))

    def _fail(self, connection: ClientConnection, reason: str, tell: Callable[[], None] | None) -> None:
        """End the connection after `connection.failed.authentication.delay.ms`; `tell` sends what the client gets."""
        self._state, self._server = LoginState.FAILED, None
        self._count(connection, LoginOutcome.FAILED if self._session is None else LoginOutcome.NOT_RENEWED)
        text = "".join(letter if letter.isprintable() else "?" for letter in reason[:_LONGEST_TOLD])

        def end() -> None:
            if tell is not None and not connection.closed:
                tell()
            self._channel.refuse(connection, f"failed authentication: {text}")

        if self._sasl.failure_delay > 0:
            connection.mute()
            self._channel.call_later(self._sasl.failure_delay, connection, end)
        else:
            end()

    def _count(self, connection: ClientConnection, outcome: LoginOutcome) -> None:
        mechanism = "" if self._mechanism is None else self._mechanism.name
        self._channel.logins.count(connection.info.listener, mechanism, outcome)

    def _send(self, connection: ClientConnection, header: RequestHeader, response: Message) -> None:
        connection.put(encode_response(response, header.request_api_version, header.correlation_id))


def _name_of(api_key: int) -> str:
    return request_class(api_key).NAME
