"""What a person logs in with: read from a request, made into settings, and in no text."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("starlette")

from barnabas.config.client_config import ClientConfig
from barnabas.console.answers import Body
from barnabas.console.credentials import MECHANISMS, Credentials, check_leaves_open_who, offered_here
from barnabas.errors import ConfigError, IllegalArgumentError
from barnabas.network.security.oauth_bearer_token import unsecured_jwt

SECRET = "hunter2"
CLIENTS = {section: {"security.protocol": "SASL_SSL"} for section in ("admin", "consumer", "producer")}


def body(**fields: Any) -> Body:
    return Body({"mechanism": "PLAIN", "user": "alice", "password": SECRET, **fields})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_becomes_settings_that_every_client_takes(mechanism: str) -> None:
    settings = Credentials.of(body(mechanism=mechanism, password=' a "b" ;'), MECHANISMS).settings(CLIENTS)

    for section, found in settings.items():
        config = ClientConfig(section, {**found, "bootstrap.servers": "localhost:1"})
        assert (config["sasl.mechanism"], config["sasl.username"]) == (mechanism, "alice")
        assert config["sasl.password"].value == ' a "b" ;'
    assert "sasl.username" not in CLIENTS["admin"]


def test_a_token_says_whose_it_is() -> None:
    token = unsecured_jwt({"sub": "carol", "iat": int(time.time()), "exp": int(time.time()) + 60})
    found = Credentials.of(body(mechanism="OAUTHBEARER", user="mallory", password=f" {token}\n"), MECHANISMS)

    assert found.user == "carol"
    assert found.settings(CLIENTS)["admin"]["sasl.login.callback.handler.class"]() == token


@pytest.mark.parametrize(
    "fields",
    [
        {"mechanism": "GSSAPI"},
        {"mechanism": 5},
        {"user": ""},
        {"user": "x" * 257},
        {"user": "a\nb"},
        {"user": None},
        {"password": ""},
        {"password": SECRET * 10_000},
        {"password": 5},
        {"mechanism": "OAUTHBEARER", "password": SECRET},
        {"mechanism": "OAUTHBEARER", "password": f"{SECRET}.{SECRET}.{SECRET}"},
    ],
)
def test_what_is_wrong_is_said_without_the_secret(fields: dict[str, Any]) -> None:
    with pytest.raises(IllegalArgumentError) as caught:
        Credentials.of(body(**fields), MECHANISMS)

    assert SECRET not in str(caught.value)


def test_the_secret_is_in_no_text_of_what_holds_it() -> None:
    found = Credentials.of(body(), MECHANISMS)

    assert SECRET not in f"{found!r} {found}"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "security.protocol is PLAINTEXT"),
        ({"security.protocol": "SSL"}, "security.protocol is SSL"),
        (
            {"security.protocol": "SASL_SSL", "sasl.password": SECRET, "sasl.username": "x"},
            "sasl.password, sasl.username",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": SECRET}, "sasl.jaas.config"),
    ],
)
def test_settings_that_say_who_one_is_go_with_no_login(settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        check_leaves_open_who(settings)

    assert SECRET not in str(caught.value)


def test_people_log_in_by_what_the_cluster_offers_and_the_console_knows() -> None:
    assert offered_here(["GSSAPI", "PLAIN", "SCRAM-SHA-512"], None) == ("SCRAM-SHA-512", "PLAIN")
    assert offered_here(["PLAIN", "SCRAM-SHA-512"], "plain") == ("PLAIN",)
    for offered, pinned in ((["GSSAPI"], None), ([], None), (["PLAIN"], "SCRAM-SHA-256")):
        with pytest.raises(ConfigError, match="--login: the cluster offers"):
            offered_here(offered, pinned)
