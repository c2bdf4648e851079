"""`Guard`: what every request passes before anything of it is acted on, and the headers of every response."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse

from barnabas.console.change_log import LARGEST_BODY as LARGEST_NOTED
from barnabas.console.change_log import ChangeLog
from barnabas.console.proxies import Proxies
from barnabas.console.sessions import STRANGER, Sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGIN = "/login"
API = "/api/"
#: Where a person logs in with a password, and out again: no change of the cluster, and not noted, for it has a secret.
LOG_IN, LOG_OUT = "/api/login", "/api/logout"
#: Whose the session is; with logins a stranger is told by what one may log in.
SESSION = "/api/session"
LARGEST_BODY = 16 * 1024 * 1024
#: A stranger may send that.
LARGEST_LOGIN = 64 * 1024
_READS = ("GET", "HEAD")
POLICY = "; ".join([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
])  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    error: str
    message: str


_NOT_LOGGED_IN = (
    Refusal(401, "NotLoggedIn", "open the link that `barnabas console` printed; SIGHUP makes it print a new one"),
    Refusal(401, "NotLoggedIn", "log in first"),
)


class Rules(NamedTuple):
    """What is let through: by these `Host`s, with this cookie; changes only unless `read_only`.

    With `by_login` strangers get the page's files, which are the same everywhere, and may log in. `proxied` are those
    of the hosts at which a proxy may speak TLS where the console does not; `proxies` are trusted to say whether.
    """

    hosts: Collection[str]
    cookie: str
    read_only: bool
    over_tls: bool
    by_login: bool = False
    proxied: Collection[str] = ()
    proxies: Proxies = Proxies(())


class Guard:
    """An ASGI application around the console's: refuses, or passes on; see the rules of `barnabas.console`."""

    def __init__(self, app: ASGIApp, rules: Rules, sessions: Sessions, changes: ChangeLog) -> None:
        self._app = app
        self._changes = changes
        self._rules = rules
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the console speaks HTTP only, not {scope['type']}")
        scope = self._rules.proxies.seen_through(scope)
        scope.setdefault("state", {})["status"] = 0

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["state"]["status"] = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        body = bytearray()

        async def receive_noted() -> Message:
            message = await receive()
            if message["type"] == "http.request" and len(body) <= LARGEST_NOTED:
                body.extend(message.get("body", b""))
            return message

        request = HTTPConnection(scope)
        # Asked once: a session that ends meanwhile was still whose the change is.
        who = self._sessions.who(request.cookies.get(self._rules.cookie, "")) if self._is_ours(request) else STRANGER
        scope["state"]["who"] = who
        refusal = self._refusal(request, scope["method"], is_known=who != STRANGER)
        answering = self._app if refusal is None else _response(scope["path"], refusal)
        if scope["method"] in _READS or scope["path"] in (LOG_IN, LOG_OUT):
            await answering(scope, receive, send_guarded)
            return
        try:
            await answering(scope, receive_noted, send_guarded)
        finally:
            self._changes.add(who, address_of(request), scope["path"], bytes(body), scope["state"]["status"])

    def _is_ours(self, request: HTTPConnection) -> bool:
        return request.headers.get("host", "").lower() in self._rules.hosts

    def _refusal(self, request: HTTPConnection, method: str, *, is_known: bool) -> Refusal | None:
        headers = request.headers
        path = request.scope["path"]
        # Before all else, and on every path: a page of another name that leads here by DNS is a stranger.
        if not self._is_ours(request):
            return Refusal(421, "UnknownHost", "this name is not one of the console's: allow it with --allowed-host")
        if method not in (*_READS, "POST"):
            return Refusal(405, "MethodNotAllowed", "the console knows GET and POST only")
        if path == LOGIN and method in _READS:
            return _of_prefetch(headers)
        if not is_known and not self._is_for_strangers(path, method):
            return _NOT_LOGGED_IN[self._rules.by_login]
        if path.startswith(API):
            refusal = _of_origin(headers, self._schemes(request), is_change=method == "POST")
            if refusal is not None:
                return refusal
        if method == "POST":
            return self._of_change(path, headers)
        return None

    def _schemes(self, request: HTTPConnection) -> tuple[str, ...]:
        if self._rules.over_tls or request.scope["scheme"] == "https":
            return ("https",)
        return ("http", "https") if request.headers["host"].lower() in self._rules.proxied else ("http",)

    def _is_for_strangers(self, path: str, method: str) -> bool:
        if not self._rules.by_login:
            return False
        is_reading = method in _READS
        return path == (SESSION if is_reading else LOG_IN) or (is_reading and not path.startswith(API))

    def _of_change(self, path: str, headers: Headers) -> Refusal | None:
        if self._rules.read_only and path not in (LOG_IN, LOG_OUT):
            return Refusal(403, "ReadOnly", "the console was started with --read-only: it changes nothing")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return Refusal(415, "NotJson", "a change has to come as application/json")
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return Refusal(411, "NoLength", "a change has to tell its Content-Length")
        largest = LARGEST_LOGIN if path == LOG_IN else LARGEST_BODY
        if len(length) > 18 or int(length) > largest:
            return Refusal(413, "TooLarge", f"a change has at most {largest} bytes here, this one more")
        return None


def _of_prefetch(headers: Headers) -> Refusal | None:
    # The link is valid once: a browser that fetches ahead of its user would use it up.
    if "prefetch" in headers.get("sec-purpose", headers.get("purpose", "")):
        return Refusal(503, "Prefetch", "the link is not fetched ahead")
    return None


def _of_origin(headers: Headers, schemes: Collection[str], *, is_change: bool) -> Refusal | None:
    stranger = Refusal(403, "OtherOrigin", "the request came from a page of another origin")
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin" and (is_change or site != "none"):
        return stranger
    origin = headers.get("origin")
    if origin is not None:
        found = urlsplit(origin)
        if found.scheme not in schemes or found.netloc.lower() != headers.get("host", "").lower():
            return stranger
    elif is_change and site is None:
        return Refusal(403, "OtherOrigin", "a change has to tell its Origin, or Sec-Fetch-Site")
    return None


def address_of(request: HTTPConnection) -> str:
    """Return where a request came from: as the connection says, or as a trusted proxy does."""
    return request.client.host if request.client else "?"


def _response(path: str, refusal: Refusal) -> ASGIApp:
    if path.startswith(API):
        document = {"error": refusal.error, "message": refusal.message}
        return JSONResponse(document, refusal.status)
    return PlainTextResponse(f"{refusal.message}\n", refusal.status)
