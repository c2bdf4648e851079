"""Kafka's SaslClientAuthenticator: the requests by which one connection shows who the client is.

Source: https://kafka.apache.org/protocol (SASL Authentication Sequence), KIP-43, KIP-152, KIP-368 (re-authentication).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    KafkaError,
    ProtocolError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    for_code,
    name_of,
)
from barnabas.network.client_request import LAST_CORRELATION_ID
from barnabas.network.exponential_backoff import RandomSource
from barnabas.network.node_api_versions import NodeApiVersions, next_version_to_try
from barnabas.network.security.sasl_client import SaslClient, Work
from barnabas.network.selectable import Buffer
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
    from barnabas.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
    from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

# A client renews its session somewhere in 85% to 95% of its lifetime, so that not all do at once (KIP-368).
_EARLIEST_RENEWAL = 0.85
_RENEWAL_JITTER = 0.10
# Version 0 of the handshake is followed by tokens without headers; brokers since 1.0 know version 1.
_HANDSHAKE_WITH_AUTHENTICATE = 1
_RESERVED_CORRELATION_IDS = 8

Step = bytes | Work | None
"""What to do: send a frame (its size included), have work done, or nothing but wait for the broker."""


class SaslState(Enum):
    """What the authenticator waits for."""

    INITIAL = "nothing yet"
    API_VERSIONS = "the broker's API versions"
    HANDSHAKE = "the answer to the handshake"
    WORK = "a token or a proof"
    AUTHENTICATE = "the broker's next word"
    COMPLETE = "nothing more"
    FAILED = "nothing more, after a failure"


class SaslClientAuthenticator:
    """Sans-IO; the Selector carries its frames, before any of NetworkClient's and again before the session ends.

    Its requests use correlation ids that NetworkClient never does, so that during re-authentication their responses
    are told from others (`owns`). `new_client` makes the SaslClient of one exchange. Every method but the properties
    raises AuthenticationError when that is the end of it; `target` names the broker in its message.
    """

    def __init__(
        self,
        new_client: Callable[[], SaslClient],
        client_id: str,
        target: str,
        software: tuple[str, str],
        random: RandomSource,
    ) -> None:
        self._new_client = new_client
        self._client_id = client_id
        self._target = target
        self._software = software
        self._random = random
        self._client = new_client()
        self._state = SaslState.INITIAL
        self._asked: tuple[ApiKey, int, int] | None = None
        self._sent = 0
        self._was_complete = False
        self._api_versions: NodeApiVersions | None = None
        self._session_ends_at: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the broker has accepted the client and no re-authentication is in progress."""
        return self._state is SaslState.COMPLETE

    @property
    def was_complete(self) -> bool:
        """Whether the broker had accepted the client before: this is a re-authentication, others' frames come too."""
        return self._was_complete

    def is_renewal_due(self, now: float) -> bool:
        """Whether the session is to be renewed before anything else is sent."""
        return self._session_ends_at is not None and now >= self._session_ends_at

    def start(self) -> Step:
        """Return the first step on a new connection."""
        return self._ask_api_versions(ApiVersionsRequest.VALID_VERSIONS[1])

    def renew(self) -> Step:
        """Return the first step of a re-authentication, on a connection that is in use."""
        self._was_complete = True
        self._client = self._new_client()
        return self._shake_hands()

    def owns(self, frame: Buffer) -> bool:
        """Whether a frame answers the authenticator's request rather than one of NetworkClient's."""
        correlation_id = int.from_bytes(bytes(frame[:4]), "big", signed=True)
        return self._asked is not None and correlation_id == self._asked[2]

    def received(self, frame: Buffer, now: float) -> Step:
        """Return the next step after a frame that it `owns`; for the first exchange all frames are its own."""
        asked, self._asked = self._asked, None
        if asked is None:
            raise self._failure(IllegalSaslStateError("the broker sent a message that nobody asked for"))
        key, version, correlation_id = asked
        try:
            answered, message = decode_response(key, version, frame)
            if answered != correlation_id:
                raise ProtocolError(f"the response carries the correlation id {answered}, not {correlation_id}")
        except (ProtocolError, UnsupportedVersionError) as error:
            raise self._failure(
                SaslAuthenticationError(f"the broker's {key.name} response cannot be read: {error}")
            ) from None
        return self._HANDLERS[key](self, message, version, now)

    def worked(self, result: bytes) -> bytes:
        """Return the frame to send after Work gave `result`."""
        return self._authenticate(result)

    def work_failed(self, error: KafkaError) -> KafkaError:
        """Return what to end the connection with after Work raised `error`; only AuthenticationError is final."""
        self._state = SaslState.FAILED
        return self._failure(error) if isinstance(error, AuthenticationError) else error

    def _ask_api_versions(self, version: int) -> bytes:
        name, number = self._software
        message = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        return self._request(message, version, SaslState.API_VERSIONS)

    def _handle_api_versions(self, message: ApiVersionsResponse, version: int, now: float) -> Step:
        if message.error_code:
            retry_version = next_version_to_try(version, message)
            if retry_version is None:
                raise self._failure(_refusal(message.error_code, None))
            return self._ask_api_versions(retry_version)
        self._api_versions = NodeApiVersions.from_response(message)
        return self._shake_hands()

    def _shake_hands(self) -> bytes:
        version = self._version_of(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_WITH_AUTHENTICATE)
        return self._request(SaslHandshakeRequest(mechanism=self._client.mechanism), version, SaslState.HANDSHAKE)

    def _handle_handshake(self, message: SaslHandshakeResponse, version: int, now: float) -> Step:
        if message.error_code == UnsupportedSaslMechanismError.code:
            enabled = ", ".join(message.mechanisms) or "none"
            raise self._failure(
                UnsupportedSaslMechanismError(
                    f"the broker does not support the SASL mechanism {self._client.mechanism} on this listener; "
                    f"enabled are: {enabled}"
                )
            )
        if message.error_code:
            raise self._failure(_refusal(message.error_code, None))
        return self._go_on(self._client.initial_response())

    def _handle_authenticate(self, message: SaslAuthenticateResponse, version: int, now: float) -> Step:
        if message.error_code:
            raise self._failure(_refusal(message.error_code, message.error_message))
        try:
            step = self._client.evaluate_challenge(message.auth_bytes)
        except SaslAuthenticationError as error:
            raise self._failure(error) from None
        if self._client.is_complete and step is None:
            self._state = SaslState.COMPLETE
            lifetime = message.session_lifetime_ms / 1000
            share = _EARLIEST_RENEWAL + _RENEWAL_JITTER * self._random.random()
            self._session_ends_at = now + lifetime * share if lifetime > 0 else None
            return None
        return self._go_on(b"" if step is None else step)

    def _go_on(self, step: bytes | Work) -> Step:
        if isinstance(step, Work):
            self._state = SaslState.WORK
            return step
        return self._authenticate(step)

    def _authenticate(self, data: bytes) -> bytes:
        version = self._version_of(ApiKey.SASL_AUTHENTICATE, stable_versions(ApiKey.SASL_AUTHENTICATE)[1])
        return self._request(SaslAuthenticateRequest(auth_bytes=data), version, SaslState.AUTHENTICATE)

    def _version_of(self, key: ApiKey, highest: int) -> int:
        assert self._api_versions is not None
        low = _HANDSHAKE_WITH_AUTHENTICATE if key == ApiKey.SASL_HANDSHAKE else stable_versions(key)[0]
        try:
            return self._api_versions.latest_usable_version(key, low, highest)
        except UnsupportedVersionError as error:
            raise self._failure(SaslAuthenticationError(f"{error}; is this listener a SASL one?")) from None

    def _request(self, message: Message, version: int, state: SaslState) -> bytes:
        correlation_id = LAST_CORRELATION_ID + 1 + self._sent % _RESERVED_CORRELATION_IDS
        self._sent += 1
        self._state = state
        self._asked = (ApiKey(message.API_KEY), version, correlation_id)
        return encode_request(message, version, correlation_id, self._client_id)

    def _failure(self, error: KafkaError) -> KafkaError:
        """Return the same error with where it happened; its message, Kafka's own, comes first."""
        self._state = SaslState.FAILED
        return type(error)(f"{error} (SASL {self._client.mechanism} at {self._target})")

    _HANDLERS: ClassVar[Mapping[ApiKey, Callable[[SaslClientAuthenticator, Any, int, float], Step]]] = {
        ApiKey.API_VERSIONS: _handle_api_versions,
        ApiKey.SASL_HANDSHAKE: _handle_handshake,
        ApiKey.SASL_AUTHENTICATE: _handle_authenticate,
    }


def _refusal(code: int, message: str | None) -> KafkaError:
    """Return the error of a code.

    One that has nothing to do with authentication is an authentication error here, too.
    """
    error = for_code(code, message or None)
    return error if isinstance(error, AuthenticationError) else SaslAuthenticationError(f"{name_of(code)}: {error}")
