"""SaslClientAuthenticator against a scripted broker, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from barnabas.network.client_request import LAST_CORRELATION_ID
from barnabas.network.security.oauth_bearer_sasl_client import OAuthBearerSaslClient
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken
from barnabas.network.security.sasl_client import PlainSaslClient, SaslClient, Work
from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.support.network_fakes import all_api_versions


class Halfway:
    """Not random at all."""

    def random(self) -> float:
        return 0.5


def plain() -> SaslClient:
    return PlainSaslClient("alice", "hunter2")


def bearer() -> SaslClient:
    return OAuthBearerSaslClient(lambda: OAuthBearerToken("abc.def", extensions=(("tenant", "x"),)))


class Exchange:
    """An authenticator and the broker's side of its connection."""

    def __init__(self, new_client: Any = plain) -> None:
        self.authenticator = SaslClientAuthenticator(new_client, "me", "broker:9093", ("barnabas", "1"), Halfway())
        self.now = 100.0

    def read(self, step: object) -> Any:
        """What a step says to the broker."""
        assert isinstance(step, bytes)
        self.header, message = decode_request(memoryview(step)[4:])
        return message

    def answer(self, message: Message, *, version: int | None = None) -> Any:
        frame = self.frame(message, version=version)
        assert self.authenticator.owns(frame)
        return self.authenticator.received(frame, self.now)

    def frame(self, message: Message, *, version: int | None = None) -> bytes:
        version = self.header.request_api_version if version is None else version
        return b"".join(bytes(part) for part in encode_response(message, version, self.header.correlation_id))[4:]

    def until_token(self) -> Any:
        """Past versions and handshake; gives the step that follows."""
        self.read(self.authenticator.start())
        self.read(self.answer(all_api_versions()))
        return self.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))

    def complete(self, **fields: Any) -> None:
        self.read(self.until_token())
        assert self.answer(SaslAuthenticateResponse(**fields)) is None


def test_versions_then_handshake_then_token_then_done() -> None:
    exchange = Exchange()

    assert exchange.read(exchange.authenticator.start()).NAME == "ApiVersionsRequest"
    handshake = exchange.read(exchange.answer(all_api_versions()))
    assert (handshake.NAME, handshake.mechanism) == ("SaslHandshakeRequest", "PLAIN")
    token = exchange.read(exchange.answer(SaslHandshakeResponse(mechanisms=["PLAIN"])))
    assert token.auth_bytes == b"\0alice\0hunter2"
    assert not exchange.authenticator.is_complete
    assert exchange.answer(SaslAuthenticateResponse()) is None
    assert exchange.authenticator.is_complete


def test_a_broker_that_does_not_know_the_newest_api_versions_is_asked_in_one_that_it_knows() -> None:
    exchange = Exchange()
    exchange.read(exchange.authenticator.start())
    too_new = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])

    exchange.read(exchange.answer(too_new, version=0))

    assert exchange.header.request_api_version == 2


def test_its_correlation_ids_are_never_those_of_network_client() -> None:
    exchange = Exchange()
    seen = set()
    exchange.complete()
    for _ in range(20):
        exchange.read(exchange.authenticator.renew())
        seen.add(exchange.header.correlation_id)
        exchange.read(exchange.answer(SaslHandshakeResponse()))
        seen.add(exchange.header.correlation_id)
        exchange.answer(SaslAuthenticateResponse())

    assert min(seen) > LAST_CORRELATION_ID
    assert max(seen) < 2**31


def test_the_brokers_own_words_say_why_it_refuses() -> None:
    exchange = Exchange()
    exchange.read(exchange.until_token())

    with pytest.raises(SaslAuthenticationError) as caught:
        exchange.answer(SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: Invalid"))

    assert str(caught.value) == "Authentication failed: Invalid (SASL PLAIN at broker:9093)"
    assert not exchange.authenticator.is_complete


def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are() -> None:
    exchange = Exchange()
    exchange.read(exchange.authenticator.start())
    exchange.read(exchange.answer(all_api_versions()))

    with pytest.raises(UnsupportedSaslMechanismError, match=r"PLAIN.*enabled are: GSSAPI, OAUTHBEARER"):
        exchange.answer(SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI", "OAUTHBEARER"]))


def test_a_listener_without_sasl_says_so() -> None:
    exchange = Exchange()
    exchange.read(exchange.authenticator.start())
    exchange.read(exchange.answer(all_api_versions()))

    with pytest.raises(IllegalSaslStateError):
        exchange.answer(SaslHandshakeResponse(error_code=34))


@pytest.mark.parametrize("code", [77, -1, 12345])
def test_an_error_that_has_nothing_to_do_with_it_is_an_authentication_error_too(code: int) -> None:
    exchange = Exchange()
    exchange.read(exchange.authenticator.start())
    exchange.read(exchange.answer(all_api_versions()))

    with pytest.raises(SaslAuthenticationError):
        exchange.answer(SaslHandshakeResponse(error_code=code))


def test_a_broker_without_the_sasl_requests_is_refused() -> None:
    exchange = Exchange()
    exchange.read(exchange.authenticator.start())

    with pytest.raises(SaslAuthenticationError, match="is this listener a SASL one"):
        exchange.answer(ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=3)]))


def test_garbage_is_an_authentication_error() -> None:
    exchange = Exchange()
    exchange.read(exchange.authenticator.start())
    with pytest.raises(SaslAuthenticationError, match="cannot be read"):
        exchange.authenticator.received(b"\x7f\xff\xff\xf8\xff", 0.0)


def test_fetching_a_token_is_work_for_another_thread() -> None:
    exchange = Exchange(bearer)

    work = exchange.until_token()

    assert isinstance(work, Work)
    token = exchange.read(exchange.authenticator.worked(work.run()))
    assert token.auth_bytes == b"n,,\1auth=Bearer abc.def\1tenant=x\1\1"
    assert exchange.answer(SaslAuthenticateResponse()) is None
    assert exchange.authenticator.is_complete


def test_a_refused_token_is_ended_politely() -> None:
    exchange = Exchange(bearer)
    work = exchange.until_token()
    exchange.read(exchange.authenticator.worked(work.run()))

    last = exchange.read(exchange.answer(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')))

    assert last.auth_bytes == b"\1"
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        exchange.answer(SaslAuthenticateResponse())


@pytest.mark.parametrize("error", [SaslAuthenticationError("no"), KafkaError("the endpoint is down")])
def test_only_a_refusal_of_the_credentials_is_final(error: KafkaError) -> None:
    exchange = Exchange(bearer)
    exchange.until_token()

    outcome = exchange.authenticator.work_failed(error)

    assert isinstance(outcome, AuthenticationError) == isinstance(error, AuthenticationError)
    assert str(error) in str(outcome)


def test_a_session_without_an_end_is_not_renewed() -> None:
    exchange = Exchange()
    exchange.complete()
    assert not exchange.authenticator.is_renewal_due(1e12)


def test_a_session_is_renewed_at_nine_tenths_of_its_life_and_ends_in_a_new_one() -> None:
    exchange = Exchange()
    exchange.complete(session_lifetime_ms=60_000)
    assert not exchange.authenticator.is_renewal_due(100 + 53.9)
    assert exchange.authenticator.is_renewal_due(100 + 54.1)

    assert exchange.read(exchange.authenticator.renew()).mechanism == "PLAIN"
    assert not exchange.authenticator.is_complete
    assert exchange.authenticator.was_complete
    exchange.read(exchange.answer(SaslHandshakeResponse()))
    exchange.now = 200.0
    exchange.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000))

    assert exchange.authenticator.is_complete
    assert not exchange.authenticator.is_renewal_due(208.9)
    assert exchange.authenticator.is_renewal_due(209.1)


def test_during_a_renewal_the_answers_to_other_requests_are_not_its_own() -> None:
    exchange = Exchange()
    exchange.complete(session_lifetime_ms=60_000)
    exchange.read(exchange.authenticator.renew())
    assert not exchange.authenticator.owns((7).to_bytes(4, "big") + b"an answer to a fetch")
    assert exchange.authenticator.owns(exchange.frame(SaslHandshakeResponse()))
