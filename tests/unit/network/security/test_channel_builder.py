"""What the settings sasl.* and security.protocol come to."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas.config.client_config import ClientConfig
from barnabas.errors import ConfigError, KafkaError, SaslAuthenticationError
from barnabas.network.security.channel_builder import create_channel_builder
from barnabas.network.security.jaas_config import parse_jaas_config
from barnabas.network.security.oauth_bearer_login import OAuthBearerLogin
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken, RefreshPolicy, token_from_jwt, unsecured_jwt
from barnabas.network.security.sasl_client import Work


def first_words(**settings: Any) -> bytes:
    """What the mechanism of these settings says first."""
    config = ClientConfig("producer", {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT"}, settings)
    builder = create_channel_builder(config, "me")
    assert builder is not None
    assert builder._new_sasl_client is not None
    said = builder._new_sasl_client().initial_response()
    return said.run() if isinstance(said, Work) else said


def test_user_and_password_by_name_or_in_jaas_are_the_same() -> None:
    by_name = first_words(sasl_mechanism="plain", sasl_username="a", sasl_password="b c")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b c";'

    assert by_name == b"\0a\0b c"
    assert first_words(sasl_mechanism="PLAIN", sasl_jaas_config=jaas) == by_name


def test_every_scram_exchange_has_a_nonce_of_its_own() -> None:
    settings = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "a", "sasl_password": "b"}
    assert first_words(**settings).startswith(b"n,,n=a,r=")
    assert first_words(**settings) != first_words(**settings)


def test_a_delegation_token_is_marked_in_jaas() -> None:
    jaas = 'ScramLoginModule required username="id" password="hmac" tokenauth=true;'
    assert first_words(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas).endswith(b",tokenauth=true")


def test_unsecured_tokens_and_extensions_come_from_jaas() -> None:
    jaas = (
        "OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=me "
        'unsecuredLoginListClaim_scope=",a,b" unsecuredLoginNumberClaim_n=3 extension_tenant="x y";'
    )

    said = first_words(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=jaas)

    token = token_from_jwt(said.partition(b"Bearer ")[2].partition(b"\1")[0].decode())
    assert token.principal == "me"
    assert token.lifetime_ms is not None
    assert abs(token.lifetime_ms - (time.time() + 3600) * 1000) < 60_000
    assert said.endswith(b"\1tenant=x y\1\1")


def test_a_token_function_may_give_a_pair_or_raise() -> None:
    def fails() -> str:
        raise OSError("no route")

    soon = int(time.time() * 1000) + 60_000
    said = first_words(sasl_mechanism="OAUTHBEARER", sasl_login_callback_handler_class=lambda: ("opaque", soon))
    assert b"Bearer opaque\1" in said
    with pytest.raises(KafkaError, match="the token callback raised OSError: no route"):
        first_words(sasl_mechanism="OAUTHBEARER", sasl_login_callback_handler_class=fails)
    with pytest.raises(SaslAuthenticationError, match="returned int"):
        first_words(sasl_mechanism="OAUTHBEARER", sasl_login_callback_handler_class=lambda: 3)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "GSSAPI .*is not supported; set sasl.mechanism to one of PLAIN"),
        ({"sasl_mechanism": "DIGEST-MD5"}, "'DIGEST-MD5' is not supported; there are PLAIN"),
        ({"sasl_mechanism": "PLAIN"}, "needs a user and a password: set sasl.username"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "u"}, "needs a user and a password"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": "ScramLoginModule required a=b;"}, "goes with PlainLogin"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_jaas_config": "PlainLoginModule required a=b;"},
            "both given",
        ),
        ({"sasl_mechanism": "OAUTHBEARER"}, "needs a source of tokens"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_username": "u"}, "client.credentials.client.id"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": "http://x"},
            "needs sasl.oauthbearer.client.credentials",
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": "ftp://x"},
            "must be http, https or file",
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_login_callback_handler_class": "com.example.Handler"},
            "'package.module:name'",
        ),
    ],
)
def test_settings_that_lack_or_contradict_something_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        first_words(**settings)


def test_settings_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    config = ClientConfig("admin", {"bootstrap.servers": "a:1", "sasl.username": "u", "sasl.password": "hunter2"})

    assert create_channel_builder(config, "me") is None

    assert "me: security.protocol=PLAINTEXT makes no use of sasl.password, sasl.username" in caplog.text
    assert "hunter2" not in caplog.text + repr(config) + str(config.given)


def test_jaas_text_has_quotes_escapes_and_comments() -> None:
    module = parse_jaas_config(
        'a.b.PlainLoginModule /* who */ REQUIRED\n // and what\n username="a \\"b\\"; \\\\c" password=p-w_d$1 x="";'
    )
    assert module == ("PlainLoginModule", {"username": 'a "b"; \\c', "password": "p-w_d$1", "x": ""})
    assert "p-w_d$1" not in repr(module)


@pytest.mark.parametrize(
    "text",
    ["", "hunter2", "M required", 'M required a="hunter2;', "M required a;", "M required =b;", "M sometimes a=b;", ";"],
)
def test_jaas_text_that_does_not_parse_is_never_shown(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl.jaas.config=\[hidden\] is not valid") as caught:
        parse_jaas_config(text)
    assert "hunter2" not in str(caught.value)


# Tokens


class Zero:
    def random(self) -> float:
        return 0.0


def login(lifetimes: list[int | KafkaError | None], clock: list[int]) -> OAuthBearerLogin:
    """A login whose tokens are "0", "1", ..., each valid that many seconds."""
    numbers = iter(range(100))

    def retrieve() -> OAuthBearerToken:
        number = next(numbers)
        lifetime = lifetimes[number]
        if isinstance(lifetime, KafkaError):
            raise lifetime
        return OAuthBearerToken(str(number), None if lifetime is None else clock[0] + lifetime * 1000)

    return OAuthBearerLogin(retrieve, RefreshPolicy(), lambda: clock[0], Zero())


def test_a_token_is_kept_for_four_fifths_of_its_life() -> None:
    clock = [0]
    tokens = login([3600, 3600], clock)
    values = []
    for second in (0, 2879, 2881):
        clock[0] = second * 1000
        values.append(tokens.token().value)
    assert values == ["0", "0", "1"]


def test_a_token_without_an_end_is_fetched_each_time() -> None:
    tokens = login([None, None], [0])
    assert [tokens.token().value for _ in range(2)] == ["0", "1"]


def test_while_a_token_is_valid_a_failure_to_fetch_the_next_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0]
    tokens = login([3600, KafkaError("down"), KafkaError("down")], clock)
    assert tokens.token().value == "0"
    clock[0] = 3_500_000
    assert tokens.token().value == "0"
    assert "could not be refreshed" in caplog.text
    clock[0] = 3_700_000
    with pytest.raises(KafkaError, match="down"):
        tokens.token()


def test_a_token_that_has_expired_already_is_refused() -> None:
    with pytest.raises(SaslAuthenticationError, match="compare the clocks"):
        login([-1], [10_000]).token()


@pytest.mark.parametrize(
    ("lifetime", "expected"),
    [(3600, 2880), (1000, 700), (100, 80), (400, 100)],
    ids=["a share of it", "not in the last 300 s", "too short for the bounds", "between the bounds"],
)
def test_when_a_token_is_refreshed(lifetime: int, expected: int) -> None:
    token = OAuthBearerToken("x", lifetime * 1000)
    assert RefreshPolicy().refresh_at_ms(token, 0, 0.0) == expected * 1000


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"sub": "me"}, "'exp' is missing"),
        ({"sub": "me", "exp": "soon"}, "'exp' is negative, or no number"),
        ({"exp": 5}, "'sub' is missing"),
        ({"exp": 5, "sub": " "}, "'sub' is missing"),
        ({"exp": 5, "sub": "me", "scope": ["a", " a"]}, "'scope' is empty, or holds something empty or twice"),
        ({"exp": 5, "sub": "me", "scope": ""}, "'scope' is empty"),
        ({"exp": -5, "sub": "me"}, "'exp' is negative"),
    ],
)
def test_a_jwt_must_say_who_and_how_long(claims: dict[str, Any], problem: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=problem):
        token_from_jwt(unsecured_jwt(claims))


@pytest.mark.parametrize("text", ["", "a.b", "a.!.c", "a.YQ.c", "a.WzFd.c"])
def test_what_is_no_jwt_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SaslAuthenticationError, match="not a JWT"):
        token_from_jwt(text)


def test_tokens_are_not_shown() -> None:
    assert "secret-token" not in repr(OAuthBearerToken("secret-token"))
