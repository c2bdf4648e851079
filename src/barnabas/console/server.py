"""The console's server: routes, and their life on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from barnabas import __version__
from barnabas.admin import ConfigResource
from barnabas.clock import wall_clock_ms
from barnabas.console import (
    access,
    cluster_parts,
    group_offsets,
    groups,
    overview,
    schemas,
    spark_queries,
    topic_changes,
    topics,
    topologies,
    transactions,
)
from barnabas.console.anatomy_routes import AnatomyRoutes
from barnabas.console.answers import Body, number_parameter, on_fault, on_kafka_error, parameter
from barnabas.console.change_log import ChangeLog
from barnabas.console.commands import Commands
from barnabas.console.decoders import Decoders
from barnabas.console.guard import LOG_IN, LOGIN, SESSION, Guard, Rules
from barnabas.console.login_routes import Logins
from barnabas.console.proxies import Proxies
from barnabas.console.record_routes import RecordRoutes
from barnabas.console.registry import Registry
from barnabas.console.scan_threads import ScanThreads
from barnabas.console.session_clients import SessionClients, Shared, Views
from barnabas.console.sessions import STRANGER, Sessions
from barnabas.console.settings import ConsoleSettings, check_exposure, host_names
from barnabas.errors import AuthenticationError, ConfigError, IllegalArgumentError, KafkaError

log = logging.getLogger("barnabas.console")

_SHUTDOWN_SECONDS = 2


class Console:
    """A console: made, then `serve`d on an event loop until `stop`, from which `url` and `new_link` tell the way in.

    Raises `ConfigError` when it would be exposed, or its address is taken.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        check_exposure(settings)
        self._settings = settings
        self._socket = _bound(settings)
        self.port: int = self._socket.getsockname()[1]
        self._over_tls = settings.tls_certificate is not None
        # Only a page of this very host, by TLS, can set a cookie with that prefix.
        self._cookie = f"{'__Host-' if self._over_tls else ''}barnabas-console-{self.port}"
        self.commands = Commands(settings.connection)
        self._changes = _change_log(settings.change_log)
        self._server: _Server | None = None
        self._registry = None if settings.schema_registry is None else Registry(settings.schema_registry)
        schema_of = None if self._registry is None else self._registry.schema
        decoders = Decoders(schema_of, settings.messages, settings.message_rules)
        self._shared = Shared(ScanThreads(), decoders, self.commands, self._views())
        self._records = RecordRoutes(settings.masks, self._shared, self._of)
        self._anatomy = AnatomyRoutes(settings.recordings)
        # The clients of all sessions, where people do not log in to the cluster themselves.
        self._clients: SessionClients | None = None
        self._logins = Logins(settings, self._shared, self._set_cookie) if settings.login else None
        self.sessions = Sessions(time.monotonic) if self._logins is None else self._logins.sessions

    def _views(self) -> Views:
        return {
            "overview": lambda sample, points: overview.overview(sample, points, self.commands),
            "rates": overview.rates,
            "lags": groups.lags,
            "reads": groups.reads,
        }

    @property
    def url(self) -> str:
        """Where the console is, without the token that lets in."""
        scheme = "https" if self._settings.tls_certificate else "http"
        host = "[::1]" if self._settings.host == "::1" else self._settings.host
        return f"{scheme}://{host}:{self.port}"

    def new_link(self) -> str:
        """Return a link that lets in once, within five minutes; with logins where one logs in."""
        if self._logins is not None:
            return f"{self.url}/"
        return f"{self.url}{LOGIN}?token={self.sessions.new_link()}"

    async def serve(self, on_ready: Callable[[str], None], on_new_link: Callable[[str], None] | None = None) -> None:
        """Serve until `stop`. `on_ready` gets the first link.

        With `on_new_link` signals are answered too, in the main thread: SIGHUP by giving it a new link, SIGINT and
        SIGTERM by stopping.
        """
        if on_new_link is not None:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, lambda: on_new_link(self.new_link()))
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.stop)
        config = uvicorn.Config(
            self._application(),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            ssl_certfile=self._settings.tls_certificate,
            ssl_keyfile=self._settings.tls_key,
        )
        self._server = _Server(config, [self._end_streams])
        self._on_ready = on_ready
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """End `serve` soon; callable from any thread."""
        if self._server is not None:
            self._server.should_exit = True

    def _end_streams(self) -> None:
        self._anatomy.close()
        for one in (self._clients, self._logins):
            if one is not None:
                one.end_streams()

    def _of(self, request: Request) -> SessionClients:
        """Return the clients of the session that asks. Raises `AuthenticationError` where it has ended."""
        if self._logins is not None:
            return self._logins.clients_of(request.scope["state"]["who"])
        assert self._clients is not None
        return self._clients

    def _application(self) -> Guard:
        rules = Rules(
            hosts=host_names(self._settings, self.port),
            cookie=self._cookie,
            read_only=self._settings.read_only,
            over_tls=self._over_tls,
            by_login=self._logins is not None,
            proxied=frozenset(name.lower() for name in self._settings.allowed_hosts),
            proxies=Proxies(self._settings.trusted_proxies),
        )
        application = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={
                AuthenticationError: self._on_refusal,
                KafkaError: self._on_kafka_error,
                Exception: on_fault,
            },
        )
        return Guard(application, rules, self.sessions, self._changes)

    @contextlib.asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as ending:
            if self._logins is not None:
                await ending.enter_async_context(self._logins)
            elif self._settings.has_cluster:
                self._clients = SessionClients(self._settings.clients, self._shared)
                ending.push_async_callback(self._clients.close)
                self._clients.start()
            self._on_ready(self.new_link())
            yield

    async def _on_refusal(self, request: Request, error: Exception) -> Response:
        """Answer where the cluster does not let a client in any more."""
        if self._logins is not None:
            self._logins.refused(request.scope["state"]["who"])
        return await self._on_kafka_error(request, error)

    async def _on_kafka_error(self, request: Request, error: Exception) -> Response:
        """Answer with an error of the cluster's; or that the session, and with it its clients, ended meanwhile."""
        if self._logins is None or self._logins.is_there(request.scope["state"]["who"]) or _is_login(request):
            return await on_kafka_error(request, error)
        return JSONResponse({"error": "NotLoggedIn", "message": "this session has ended: log in again"}, 401)

    def _routes(self) -> list[BaseRoute]:
        static = StaticFiles(directory=str(files("barnabas.console") / "static"), html=True)
        return [
            *([Route(LOGIN, self._login, methods=["GET"])] if self._logins is None else self._logins.routes()),
            Route(SESSION, self._session, methods=["GET"]),
            *self._anatomy.routes(),
            *self._routes_of_cluster(),
            Route("/api/changes", self._changes_made, methods=["GET"]),
            Route("/api/{path:path}", _no_such_path, methods=["GET", "POST"]),
            Mount("/", GZipMiddleware(static, minimum_size=1000)),
        ]

    def _routes_of_cluster(self) -> list[BaseRoute]:
        if not self._settings.has_cluster:
            return []
        return [
            Route("/api/events", self._events, methods=["GET"]),
            *self._topic_routes(),
            *self._records.routes(),
            *self._group_routes(),
            *self._cluster_routes(),
            *self._schema_routes(),
            *self._job_routes(),
        ]

    def _job_routes(self) -> list[BaseRoute]:
        folders, given = self._settings.checkpoints, self._settings.topologies

        def one(request: Request) -> Awaitable[Any]:
            name = parameter(request, "query")
            return spark_queries.query(self._of(request), folders, name, self.commands)

        def drawn(request: Request) -> Awaitable[Any]:
            return topologies.topology(self._of(request).admin, parameter(request, "application"), given, self.commands)

        return [
            self._get("/api/spark", lambda r: spark_queries.queries(self._of(r), folders)),
            self._get("/api/spark/query", one),
            self._get("/api/streams", lambda r: topologies.applications(self._of(r).admin, given, self.commands)),
            self._get("/api/streams/topology", drawn),
        ]

    def _schema_routes(self) -> list[BaseRoute]:
        registry = self._registry
        if registry is None or not self._has_schemas:
            return []
        return [
            self._get("/api/schemas", lambda _: schemas.subjects(registry)),
            self._get("/api/schema", lambda r: schemas.subject(registry, parameter(r, "subject"))),
            self._post("/api/schema/check", lambda _, body: schemas.check(registry, body)),
            self._post("/api/schema/register", lambda _, body: schemas.register(registry, body)),
            self._post("/api/schema/compatibility", lambda _, body: schemas.set_compatibility(registry, body)),
            self._post("/api/schema/delete", lambda _, body: schemas.delete(registry, body)),
        ]

    def _topic_routes(self) -> list[BaseRoute]:
        one = "/api/topics/{topic}"
        return [
            self._get("/api/topics", lambda r: topics.topic_names(self._of(r).admin, self.commands)),
            self._get("/api/sizes", lambda r: topics.topic_sizes(self._of(r).admin, self.commands)),
            self._get(one, lambda r: topics.topic(self._of(r).admin, r.path_params["topic"], self.commands)),
            self._get(f"{one}/settings", self._topic_settings),
            self._post("/api/topics", lambda r, body: topic_changes.create(self._of(r).admin, body, self.commands)),
            *(
                self._post(f"{one}/{name}", functools.partial(self._change_topic, change))
                for name, change in {
                    "delete": topic_changes.delete,
                    "settings": topic_changes.alter_settings,
                    "partitions": topic_changes.add_partitions,
                    "empty": topic_changes.empty,
                }.items()
            ),
        ]

    def _group_routes(self) -> list[BaseRoute]:
        def one(request: Request) -> Awaitable[Any]:
            name = parameter(request, "group")
            return groups.group(self._of(request), name, wall_clock_ms(), self.commands)

        def move(request: Request, body: Body) -> Awaitable[Any]:
            return group_offsets.move_offsets(self._of(request).admin, body, wall_clock_ms(), self.commands)

        return [
            self._get("/api/groups", lambda r: groups.all_groups(self._of(r).admin, self.commands)),
            self._get("/api/group", one),
            self._post("/api/group/offsets", move),
            self._post("/api/group/offsets/forget", self._changing(group_offsets.forget_offsets)),
            self._post("/api/group/members/remove", self._changing(groups.remove_members)),
            self._post("/api/group/delete", self._changing(groups.delete)),
        ]

    def _transaction_routes(self) -> list[BaseRoute]:
        def hanging(request: Request) -> Awaitable[Any]:
            minutes = number_parameter(request, "minutes", 15)
            return transactions.hanging_transactions(self._of(request).admin, minutes, wall_clock_ms(), self.commands)

        return [
            self._get("/api/transactions", lambda r: transactions.transactions(self._of(r).admin, self.commands)),
            self._get("/api/transactions/hanging", hanging),
            self._post("/api/transactions/end", self._changing(transactions.end_transaction)),
            self._post("/api/transactions/abort-hanging", self._changing(transactions.abort_hanging)),
        ]

    def _cluster_routes(self) -> list[BaseRoute]:
        def of_broker(request: Request) -> Awaitable[Any]:
            return cluster_parts.broker_settings(self._of(request).admin, _broker(request), self.commands)

        def change_broker(request: Request, body: Body) -> Awaitable[Any]:
            return cluster_parts.alter_broker(self._of(request).admin, _broker(request), body, self.commands)

        return [
            *self._transaction_routes(),
            self._get("/api/brokers/{broker}/settings", of_broker),
            self._post("/api/brokers/{broker}/settings", change_broker),
            self._get("/api/quotas", lambda r: cluster_parts.quotas(self._of(r).admin, self.commands)),
            self._get("/api/acls", lambda r: access.acls(self._of(r).admin, self.commands)),
            self._get("/api/users", lambda r: access.users(self._of(r).admin, self.commands)),
            *(
                self._post(f"/api/{path}", self._changing(change))
                for path, change in {
                    "acls": access.add_acl,
                    "acls/delete": access.remove_acl,
                    "users": access.set_password,
                    "users/delete": access.delete_user,
                    "quotas": access.set_quota,
                }.items()
            ),
        ]

    @staticmethod
    def _get(path: str, view: Callable[[Request], Awaitable[Any]]) -> Route:
        async def endpoint(request: Request) -> Response:
            return JSONResponse(await view(request))

        return Route(path, endpoint, methods=["GET"])

    @staticmethod
    def _post(path: str, change: Callable[[Request, Body], Awaitable[Any]]) -> Route:
        async def endpoint(request: Request) -> Response:
            return JSONResponse(await change(request, await Body.of(request)))

        return Route(path, endpoint, methods=["POST"])

    def _topic_settings(self, request: Request) -> Awaitable[topics.Settings]:
        name = request.path_params["topic"]
        command = self.commands.line("config", "get", "topic", name, "--all")
        return topics.settings_of(self._of(request).admin, ConfigResource.topic(name), command)

    def _change_topic(self, change: Callable[..., Awaitable[Any]], request: Request, body: Body) -> Awaitable[Any]:
        return change(self._of(request).admin, request.path_params["topic"], body, self.commands)

    def _changing(self, change: Callable[..., Awaitable[Any]]) -> Callable[[Request, Body], Awaitable[Any]]:
        return lambda request, body: change(self._of(request).admin, body, self.commands)

    async def _login(self, request: Request) -> Response:
        session = self.sessions.redeem(parameter(request, "token"))
        if session is None:
            text = (
                "this link was used already, or is older than five minutes; SIGHUP makes the console print a new one\n"
            )
            return PlainTextResponse(text, 401)
        response = RedirectResponse("/", 303)
        self._set_cookie(request, response, session)
        return response

    def _set_cookie(self, request: Request, response: Response, session: str | None) -> None:
        """Give a session to the browser, or with None have it forget its own."""
        age = None if session is not None else 0
        is_secure = self._over_tls or request.scope["scheme"] == "https"
        response.set_cookie(
            self._cookie, session or "", max_age=age, httponly=True, samesite="strict", secure=is_secure, path="/"
        )

    @property
    def _has_schemas(self) -> bool:
        # A registry knows nothing of the cluster's users, and its subjects are named by topics.
        return self._registry is not None and self._logins is None

    async def _session(self, request: Request) -> Response:
        who = request.scope["state"]["who"]
        if who == STRANGER:
            return JSONResponse({"mechanisms": list(self._settings.login)})
        return JSONResponse(
            {
                "version": __version__,
                "readOnly": self._settings.read_only,
                "connection": self.commands.line().split()[1:],
                "hasCluster": self._settings.has_cluster,
                "hasAnatomy": bool(self._settings.recordings),
                "hasSchemas": self._has_schemas,
                "user": who.user,
            }
        )

    async def _changes_made(self, request: Request) -> Response:
        return JSONResponse({"changes": self._changes.newest(request.scope["state"]["who"].user)})

    async def _events(self, request: Request) -> Response:
        kinds = parameter(request, "kinds").split(",")
        hub = self._of(request).hub
        hub.check(kinds)
        return StreamingResponse(hub.events(kinds), media_type="text/event-stream")


class _Server(uvicorn.Server):
    """Uvicorn's server, which ends the streams before it waits for connections to end, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config, endings: list[Callable[[], None]]) -> None:
        super().__init__(config)
        self._endings = endings

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for end in self._endings:
            end()
        await super().shutdown(sockets)


def _is_login(request: Request) -> bool:
    return str(request.scope["path"]) == LOG_IN


def _change_log(path: Path | None) -> ChangeLog:
    try:
        return ChangeLog(wall_clock_ms, path)
    except OSError as problem:
        raise ConfigError(f"--change-log {path}: {problem.strerror or problem}") from None


def _broker(request: Request) -> int | None:
    """Return the id of the broker in the path; None for the default of all."""
    text = str(request.path_params["broker"])
    if text != "default" and not text.isdecimal():
        raise IllegalArgumentError(f"a broker is a number, or default, not {text!r}")
    return None if text == "default" else int(text)


async def _no_such_path(request: Request) -> Response:
    return JSONResponse({"error": "NotFound", "message": f"there is no {request.method} {request.url.path}"}, 404)


def _bound(settings: ConsoleSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host.strip("[]"), settings.port), family=family, backlog=128)
    except OSError as problem:
        text = f"the console cannot listen on {settings.host}:{settings.port}: {problem.strerror or problem}"
        raise ConfigError(text) from problem
