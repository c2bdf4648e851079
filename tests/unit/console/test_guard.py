"""What passes the guard, on every route: host, session, origin, form, read-only mode, headers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.responses import PlainTextResponse

from barnabas.console.change_log import ChangeLog
from barnabas.console.guard import HEADERS, LARGEST_BODY, LARGEST_LOGIN, Guard, Rules
from barnabas.console.sessions import Sessions

HOST = "127.0.0.1:8080"
PROXY = "console.example"
READ = {"host": HOST}
CHANGE = {
    "host": HOST,
    "content-type": "application/json",
    "content-length": "2",
    "sec-fetch-site": "same-origin",
    "origin": f"http://{HOST}",
}


class Guarded:
    def __init__(self, *, read_only: bool = False, over_tls: bool = False, by_login: bool = False) -> None:
        sessions = Sessions(lambda: 0.0)
        self.cookie = f"c={sessions.redeem(sessions.new_link())}"
        self.passed: list[str] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            self.passed.append(scope["path"])
            await PlainTextResponse("passed")(scope, receive, send)

        self.changes = ChangeLog(lambda: 5)
        hosts = {HOST, "localhost:8080", PROXY}
        rules = Rules(hosts, "c", read_only, over_tls, by_login, {PROXY})
        self._guard = Guard(application, rules, sessions, self.changes)

    def ask(self, method: str, path: str, headers: dict[str, str], *, with_cookie: bool = True) -> tuple[int, Any]:
        """Status and headers of the response; whether it passed stands in `passed`."""
        given = {**headers, **({"cookie": self.cookie} if with_cookie else {})}
        scope = {
            "type": "http", "method": method, "path": path, "query_string": b"", "scheme": "http",
            "server": ("127.0.0.1", 8080), "client": ("127.0.0.1", 5),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self._guard(scope, receive, send))
        return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


PATHS = ["/", "/app.mjs", "/login", "/api/session", "/api/events", "/api/topics", "/api/topics/x/delete", "/../etc"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.example:8080", "127.0.0.1", "127.0.0.1:80", "", "127.0.0.1:8080.evil.example"])
def test_another_host_is_refused_on_every_path(method: str, path: str, host: str) -> None:
    guarded = Guarded()

    status, _ = guarded.ask(method, path, {**CHANGE, "host": host})

    assert (status, guarded.passed) == (421, [])


def test_a_request_without_a_host_is_refused() -> None:
    assert Guarded().ask("GET", "/", {})[0] == 421


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/login"])
def test_nothing_but_the_login_is_there_without_a_session(path: str) -> None:
    guarded = Guarded()

    assert guarded.ask("GET", path, READ, with_cookie=False)[0] == 401
    assert guarded.ask("GET", path, {**READ, "cookie": "c=guessed"}, with_cookie=False)[0] == 401
    assert guarded.ask("POST", path, CHANGE, with_cookie=False)[0] == 401
    assert guarded.passed == []
    assert guarded.ask("GET", path, READ)[0] == 200


@pytest.mark.parametrize("purpose", [{"sec-purpose": "prefetch;prerender"}, {"purpose": "prefetch"}])
def test_a_link_is_not_used_up_by_a_browser_that_fetches_ahead(purpose: dict[str, str]) -> None:
    guarded = Guarded()

    assert guarded.ask("GET", "/login", {**READ, **purpose}, with_cookie=False)[0] == 503
    assert guarded.passed == []
    assert guarded.ask("GET", "/login", READ, with_cookie=False)[0] == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_methods_that_there_are_not_are_refused(method: str) -> None:
    assert Guarded().ask(method, "/api/topics", CHANGE)[0] == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": "http://localhost:8080"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=application/json"}, 415),
        ({"content-type": ""}, 415),
        ({"content-length": ""}, 411),
        ({"content-length": "-1"}, 411),
        ({"content-length": str(LARGEST_BODY + 1)}, 413),
    ],
)
def test_a_change_that_no_page_of_ours_would_send_is_refused(headers: dict[str, str], status: int) -> None:
    guarded = Guarded()

    assert guarded.ask("POST", "/api/topics", {**CHANGE, **headers})[0] == status
    assert guarded.passed == []


@pytest.mark.parametrize(
    ("host", "origin", "over_tls", "status"),
    [
        (PROXY, f"https://{PROXY}", False, 200),
        (PROXY, f"http://{PROXY}", False, 200),
        (PROXY, f"https://{PROXY}", True, 200),
        (PROXY, f"http://{PROXY}", True, 403),
        (PROXY, "https://evil.example", False, 403),
        (PROXY, f"ftp://{PROXY}", False, 403),
        (HOST, f"https://{HOST}", False, 403),
        (HOST, f"https://{PROXY}", False, 403),
    ],
)
def test_a_proxy_may_speak_tls_for_the_console(host: str, origin: str, over_tls: bool, status: int) -> None:
    guarded = Guarded(over_tls=over_tls)

    assert guarded.ask("POST", "/api/topics", {**CHANGE, "host": host, "origin": origin})[0] == status


def test_a_change_without_origin_and_fetch_metadata_is_refused() -> None:
    bare = {name: value for name, value in CHANGE.items() if name not in ("origin", "sec-fetch-site")}

    assert Guarded().ask("POST", "/api/topics", bare)[0] == 403


@pytest.mark.parametrize("left_out", ["origin", "sec-fetch-site"])
def test_either_sign_of_the_origin_is_enough(left_out: str) -> None:
    headers = {name: value for name, value in CHANGE.items() if name != left_out}

    assert Guarded().ask("POST", "/api/topics", headers)[0] == 200


def test_another_page_may_not_read_the_api_but_an_address_bar_may() -> None:
    guarded = Guarded()

    assert guarded.ask("GET", "/api/topics", {**READ, "sec-fetch-site": "cross-site"})[0] == 403
    assert guarded.ask("GET", "/api/events", {**READ, "origin": "http://evil.example"})[0] == 403
    assert guarded.ask("GET", "/api/topics", {**READ, "sec-fetch-site": "none"})[0] == 200


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/login"])
def test_read_only_mode_refuses_every_change_and_nothing_else(path: str) -> None:
    guarded = Guarded(read_only=True)

    assert guarded.ask("POST", path, CHANGE)[0] == 403
    assert guarded.passed == []
    assert guarded.ask("GET", path, READ)[0] == 200


FILES = ["/", "/app.mjs", "/vendor/preact.mjs", "/../etc", "/login"]
DATA = [
    "/api/events",
    "/api/topics",
    "/api/topics/x/delete",
    "/api/logout",
    "/api/changes",
    "/api/login/x",
]


@pytest.mark.parametrize("path", FILES)
def test_with_logins_a_stranger_gets_the_files_of_the_page(path: str) -> None:
    guarded = Guarded(by_login=True)

    assert guarded.ask("GET", path, READ, with_cookie=False)[0] == 200
    assert guarded.ask("POST", path, CHANGE, with_cookie=False)[0] == 401
    assert guarded.passed == [path]


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_with_logins_a_stranger_gets_nothing_of_a_cluster(path: str, method: str) -> None:
    guarded = Guarded(by_login=True)

    assert guarded.ask(method, path, CHANGE, with_cookie=False)[0] == 401
    assert guarded.passed == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-length": str(LARGEST_LOGIN + 1)}, 413),
        ({"content-length": "9" * 5000}, 413),
        ({"host": "evil.example"}, 421),
    ],
)
def test_a_login_comes_from_the_page_itself_and_is_short(headers: dict[str, str], status: int) -> None:
    guarded = Guarded(by_login=True)

    assert guarded.ask("POST", "/api/login", {**CHANGE, **headers}, with_cookie=False)[0] == status


def test_one_logs_in_and_out_of_a_console_that_changes_nothing_and_neither_is_noted() -> None:
    guarded = Guarded(by_login=True, read_only=True)

    assert guarded.ask("POST", "/api/login", CHANGE, with_cookie=False)[0] == 200
    assert guarded.ask("POST", "/api/logout", CHANGE)[0] == 200
    assert guarded.ask("POST", "/api/topics", CHANGE)[0] == 403
    assert [change["path"] for change in guarded.changes.newest()] == ["/api/topics"]


def test_a_stranger_is_told_by_what_one_may_log_in() -> None:
    guarded = Guarded(by_login=True)

    assert guarded.ask("GET", "/api/session", READ, with_cookie=False)[0] == 200
    assert guarded.ask("POST", "/api/session", CHANGE, with_cookie=False)[0] == 401
    assert guarded.ask("GET", "/api/login", READ, with_cookie=False)[0] == 401
    assert guarded.ask("GET", "/api/session", {**READ, "sec-fetch-site": "cross-site"}, with_cookie=False)[0] == 403


def test_without_logins_a_stranger_cannot_log_in() -> None:
    guarded = Guarded()

    assert guarded.ask("GET", "/api/session", READ, with_cookie=False)[0] == 401
    assert guarded.ask("POST", "/api/login", CHANGE, with_cookie=False)[0] == 401


def test_every_response_has_the_headers_that_protect_it_and_none_for_other_origins() -> None:
    guarded = Guarded()
    responses = [
        guarded.ask("GET", "/", READ),
        guarded.ask("GET", "/api/topics", {**READ, "origin": "http://evil.example"}),
        guarded.ask("GET", "/", {"host": "evil.example"}),
        guarded.ask("POST", "/api/topics", CHANGE),
    ]

    for _, headers in responses:
        assert {name.lower(): value for name, value in HEADERS.items()}.items() <= headers.items()
        assert headers["cache-control"] == "no-store"
        assert not [name for name in headers if name.startswith("access-control")]


def test_the_policy_runs_scripts_of_the_console_only() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
