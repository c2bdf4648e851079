"""Keys that are fetched from a URL: how often, and what comes of an endpoint that fails."""

from __future__ import annotations

import contextlib
import gc
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.security import jwks
from barnabas.broker.security.broker_jwt_validator import keys_of
from barnabas.broker.security.jwks import JwksEndpoints, Patience, RefreshingJwks
from barnabas.broker.security.sasl_listener import SaslListener
from barnabas.errors import ConfigError
from tests.contract.waiting import eventually
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
    assert "it is gone; tokens are verified by those that were fetched before" in said[0]


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
    monkeypatch.setattr(JwksEndpoints, "find_keys", lambda self, url, patience, warn: given.append(patience) or list)
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
    SaslListener(
        config, "SASL_PLAINTEXT", lambda mechanism: lambda name, is_token: None, lambda line: None, JwksEndpoints()
    )
    assert given == [Patience(60.0, 0.5, 7.0)]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "nonsense", '{"keys": []}', '{"keys": [{"kty": "none"}]}', "[" * 9999]
)
def test_what_holds_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match="no JWKS"):
        keys_of(text)


def test_a_url_is_fetched_once_for_all_listeners_and_not_waited_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, url, patience = Endpoint(), "https://idp.example.org/keys", Patience(3600, 1, 1)
    monkeypatch.setattr(jwks, "_fetched", lambda url: endpoint.fetch())
    endpoints = JwksEndpoints()
    find = endpoints.find_keys(url, patience, print)
    assert find(token_endpoint.KEY_ID)
    assert endpoints.find_keys(url, patience, print)(token_endpoint.KEY_ID)
    assert [endpoint.asked.acquire(timeout=0.05) for _ in "ab"] == [True, False]

    # While the broker runs: nothing is fetched before `find_keys` returns.
    endpoints.waits = False
    may_go_on = threading.Event()

    def slowly(url: str) -> Any:
        assert may_go_on.wait(10)
        return endpoint.fetch()

    monkeypatch.setattr(jwks, "_fetched", slowly)
    other = endpoints.find_keys("https://idp.example.org/others", patience, print)
    assert other(token_endpoint.KEY_ID) == []
    may_go_on.set()
    assert endpoint.asked.acquire(timeout=10)
    eventually(lambda: bool(other(token_endpoint.KEY_ID)))


def test_keys_that_no_listener_uses_are_fetched_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint()
    monkeypatch.setattr(jwks, "_fetched", lambda url: endpoint.fetch())
    find = JwksEndpoints().find_keys("https://idp.example.org/keys", Patience(0.01, 1, 1), print)
    assert [endpoint.asked.acquire(timeout=10) for _ in range(3)] == [True] * 3
    del find
    gc.collect()
    while endpoint.asked.acquire(timeout=0.1):
        pass


class Tricks(http.server.BaseHTTPRequestHandler):
    """An endpoint that does what one should not."""

    def do_GET(self) -> None:
        way = self.path.removeprefix("/")
        here = f"http://127.0.0.1:{self.server.server_address[1]}/keys"
        redirects = {"redirect": (302, "file:///etc/passwd"), "elsewhere": (307, here)}
        self.send_response(redirects[way][0] if way in redirects else 200)
        if way in redirects:
            self.send_header("Location", redirects[way][1])
        if way == "cut":
            self.send_header("Content-Length", "100")
        self.end_headers()
        bodies = {"huge": [b" " * 65536] * 64, "slow": [b" "] * 200, "deep": [b"[" * 900_000], "cut": [b"{}"]}
        with contextlib.suppress(OSError):
            for part in bodies.get(way, [KEYS.encode()]):
                self.wfile.write(part)
                time.sleep(0.02 if way == "slow" else 0)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tricks) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


class TestUrls:
    def keys(self, url: str) -> Any:
        return JwksEndpoints().find_keys(url, Patience(3600, 1, 1), print)(token_endpoint.KEY_ID)

    def test_the_endpoint_of_the_tests_has_keys(self, server: str) -> None:
        assert self.keys(f"{server}/keys")

    @pytest.mark.parametrize(
        ("way", "says"),
        [
            ("redirect", "HTTP status 302"),
            ("elsewhere", "HTTP status 307"),
            ("cut", "IncompleteRead|no JWKS"),
            ("huge", "more than 1048576 bytes"),
            ("slow", "took longer than"),
            ("deep", "no JWKS"),
        ],
    )
    def test_what_does_more_than_give_keys(
        self, server: str, way: str, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jwks, "_TIMEOUT", 0.2 if way == "slow" else 10)
        with pytest.raises(ConfigError, match=says):
            self.keys(f"{server}/{way}")

    @pytest.mark.parametrize(
        "url",
        ["http://idp.example.org/keys", "http://169.254.169.254/latest", "http://127.0.0.1.example.org/", "ftp://h/k",
         "gopher://h/k", "data:application/json,{}", "http://localhost@evil.example.org/", "//h/k", "keys.json"],
    )  # fmt: skip
    def test_where_keys_are_not_had_from(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr(jwks, "_fetched", asked.append)
        with pytest.raises(ConfigError, match="https"):
            self.keys(url)
        assert not asked
