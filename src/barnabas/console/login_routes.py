"""Logging in with a password of the cluster: each session has clients of its own, which end with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import BaseRoute, Route

from barnabas.console.answers import Body
from barnabas.console.attempts import Attempts
from barnabas.console.credentials import Credentials
from barnabas.console.guard import LOG_IN, LOG_OUT, LOGIN, address_of
from barnabas.console.session_clients import SessionClients, Shared
from barnabas.console.sessions import Sessions, Who
from barnabas.errors import AuthenticationError, KafkaError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from barnabas.console.settings import ConsoleSettings

log = logging.getLogger("barnabas.console")

#: So many logins are held against the cluster at the same time.
MOST_AT_ONCE = 8
HOUSEKEEPING_SECONDS = 15.0


class Logins:
    """Those who are logged in, by the numbers of their sessions; an async context manager.

    `set_cookie` puts a session into the response to a request.
    """

    def __init__(
        self, settings: ConsoleSettings, shared: Shared, set_cookie: Callable[[Request, Response, str | None], None]
    ) -> None:
        self.sessions = Sessions(time.monotonic, on_end=self._ended)
        self._settings = settings
        self._shared = shared
        self._set_cookie = set_cookie
        self._attempts = Attempts(time.monotonic)
        self._trying = 0
        self._clients: dict[int, SessionClients] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._housekeeping: asyncio.Task[None] | None = None

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route(LOGIN, self._page, methods=["GET"]),
            Route(LOG_IN, self._log_in, methods=["POST"]),
            Route(LOG_OUT, self._log_out, methods=["POST"]),
        ]

    def clients_of(self, who: Who) -> SessionClients:
        """Return the clients of a session. Raises `AuthenticationError` where it has ended meanwhile."""
        found = self._clients.get(who.number)
        if found is None:
            raise AuthenticationError("this session has ended")
        return found

    def is_there(self, who: Who) -> bool:
        """Whether a session has its clients still."""
        return who.number in self._clients

    def refused(self, who: Who) -> None:
        """End a session whose person the cluster lets in no more."""
        log.info("%s is let in by the cluster no more", who.user)
        self.sessions.end(who.number)

    def end_streams(self) -> None:
        """End what is open, so that its connections can end."""
        for clients in self._clients.values():
            clients.end_streams()

    async def __aenter__(self) -> None:
        self._housekeeping = asyncio.create_task(self._keep_house())

    async def __aexit__(self, *_: object) -> None:
        assert self._housekeeping is not None
        self._housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._housekeeping
        for number in list(self._clients):
            self.sessions.end(number)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            try:
                self._look_after_sessions()
            except Exception:
                log.exception("sessions could not be looked after; it is tried again")

    def _look_after_sessions(self) -> None:
        for number, clients in list(self._clients.items()):
            if clients.is_watched:
                self.sessions.keep(number)
        self.sessions.expire()

    def _ended(self, who: Who) -> None:
        log.info("the session of %s has ended", who.user)
        clients = self._clients.pop(who.number, None)
        if clients is not None:
            task = asyncio.ensure_future(_closed(clients))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _page(self, request: Request) -> Response:
        # The page asks for a login by itself.
        return RedirectResponse("/", 303)

    async def _log_in(self, request: Request) -> Response:
        credentials = Credentials.of(await Body.of(request), self._settings.login)
        address, user = address_of(request), credentials.user
        wait = self._attempts.take(address, user)
        if wait > 0:
            seconds = math.ceil(wait)
            text = f"too many attempts: try again in {seconds} seconds"
            return _refusal(429, "TooManyAttempts", text, {"Retry-After": str(seconds)})
        if self._trying >= MOST_AT_ONCE:
            self._attempts.give_back(address, user)
            return _refusal(503, "TooManyLogins", "many people log in at this moment: try again in some seconds", {})
        try:
            clients = await self._tried(credentials)
        except AuthenticationError as problem:
            log.info("%s: the cluster does not let in %r: %s", address, user, problem)
            return _refusal(401, "WrongLogin", "the cluster lets in no one by this name with this password", {})
        except KafkaError:
            self._attempts.give_back(address, user)
            raise
        self._attempts.give_back(address, user)
        # One browser has one session, and a new login a new secret.
        self.sessions.end(request.scope["state"]["who"].number)
        session = self.sessions.log_in(user)
        if session is None:
            await _closed(clients)
            return _refusal(503, "TooManySessions", "too many people are logged in: one has to log out first", {})
        self._clients[self.sessions.who(session).number] = clients
        clients.start()
        log.info("%s: %r has logged in", address, user)
        response = JSONResponse({"user": user})
        self._set_cookie(request, response, session)
        return response

    async def _tried(self, credentials: Credentials) -> SessionClients:
        """Return a person's clients, once the cluster has answered one. Raises `AuthenticationError`, `KafkaError`."""
        self._trying += 1
        clients = SessionClients(credentials.settings(self._settings.clients), self._shared)
        try:
            await clients.admin.describe_cluster()
        except BaseException:
            await _closed(clients)
            raise
        finally:
            self._trying -= 1
        return clients

    async def _log_out(self, request: Request) -> Response:
        self.sessions.end(request.scope["state"]["who"].number)
        response = JSONResponse({})
        self._set_cookie(request, response, None)
        return response


async def _closed(clients: SessionClients) -> None:
    try:
        await clients.close()
    except Exception:
        log.exception("the clients of a session could not be closed in order")


def _refusal(status: int, error: str, message: str, headers: dict[str, str]) -> Response:
    return JSONResponse({"error": error, "message": message}, status, headers)
