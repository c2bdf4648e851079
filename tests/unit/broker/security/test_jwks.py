"""Keys that are fetched from a URL: how often, and what comes of an endpoint that fails."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.security import jwks
from barnabas.broker.security.broker_jwt_validator import keys_of
from barnabas.broker.security.jwks import Patience, RefreshingJwks
from barnabas.broker.security.sasl_listener import SaslListener
from barnabas.errors import ConfigError
from tests.support import token_endpoint

KEYS = json.dumps(token_endpoint.TokenEndpoint(token_endpoint.rsa_key(), {}).jwks)


class Endpoint:
    """Gives keys, or raises what stands in `problems` first."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.asked = threading.Semaphore(0)

    def fetch(self) -> Any:
        self.asked.release()
        if self.problems:
            raise self.problems.pop(0)
        return keys_of(KEYS)


def test_they_are_fetched_again_after_a_while_and_after_a_failure() -> None:
    said: list[str] = []
    endpoint = Endpoint()
    found = RefreshingJwks(endpoint.fetch, Patience(0.02, 0.01, 0.05), said.append)
    endpoint.problems.append(OSError("it is gone"))
    for _ in range(4):
        assert endpoint.asked.acquire(timeout=10)
    assert found.find(token_endpoint.KEY_ID)
    assert "it is gone; tokens are verified by the keys that were fetched before" in said[0]


def test_without_keys_at_first_there_is_no_listener() -> None:
    with pytest.raises(ConfigError, match="no keys could be fetched: refused"):
        RefreshingJwks(Endpoint(OSError("refused")).fetch, Patience(60, 1, 1), lambda line: None)


def test_unknown_keys_are_asked_for_but_not_too_often() -> None:
    now = [0.0]
    endpoint = Endpoint()
    found = RefreshingJwks(endpoint.fetch, Patience(3600, 1, 1), lambda line: None, lambda: now[0])
    assert endpoint.asked.acquire(timeout=10)
    for _ in range(1000):
        assert found.find("unknown") == []
    assert not endpoint.asked.acquire(timeout=0.1)
    now[0] = 11.0
    assert found.find("unknown") == []
    assert endpoint.asked.acquire(timeout=10)
    for _ in range(1000):
        found.find("unknown")
    assert not endpoint.asked.acquire(timeout=0.1)


def test_the_settings_say_how_often_keys_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Patience] = []
    monkeypatch.setattr(jwks, "find_keys", lambda url, patience, warn: given.append(patience) or list)
    prefix = "sasl.oauthbearer.jwks.endpoint"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.url": "https://idp.example.org/keys",
        f"{prefix}.refresh.ms": 60_000,
        f"{prefix}.retry.backoff.ms": 500,
        f"{prefix}.retry.backoff.max.ms": 7000,
    }
    config = BrokerConfig(settings)
    SaslListener(config, "SASL_PLAINTEXT", lambda mechanism: lambda name, is_token: None, lambda line: None)
    assert given == [Patience(60.0, 0.5, 7.0)]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "nonsense", '{"keys": []}', '{"keys": [{"kty": "none"}]}', "[" * 9999]
)
def test_what_holds_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match="no JWKS"):
        keys_of(text)
