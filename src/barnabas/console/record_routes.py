"""The routes of records: streams of a scan, one record, files, and producing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import BaseRoute, Route

from barnabas.clock import wall_clock_ms
from barnabas.console import export, records, redrive
from barnabas.console.answers import Body, number_parameter, parameter
from barnabas.console.masking import Masks
from barnabas.console.visible_topics import check_topics
from barnabas.errors import ConfigError, IllegalArgumentError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from barnabas.console.masking import Rule
    from barnabas.console.scan import ScanRequest
    from barnabas.console.session_clients import SessionClients, Shared

_LONGEST_SCAN = 600
_SIDES = ("key", "value")
#: Also where the other topic has the same rules: those are the console's, and others read that topic without it.
_NOT_REDRIVEN = (
    "they are not sent to another topic, for who may read that one with a client of their own, this console does not "
    "know"
)


class RecordRoutes:
    """Reading and producing, with the clients of the session that asks (`clients_of`)."""

    def __init__(self, masks: Iterable[Rule], shared: Shared, clients_of: Callable[[Request], SessionClients]) -> None:
        self._masks = Masks(masks)
        self._decoders = shared.decoders
        self._commands = shared.commands
        self._clients_of = clients_of

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        topic = "/api/topics/{topic}"
        return [
            Route(f"{topic}/forms", self._forms, methods=["GET"]),
            Route(f"{topic}/scan", self._scan, methods=["GET"]),
            Route(f"{topic}/export", self._export, methods=["GET"]),
            Route(f"{topic}/records/{{partition:int}}/{{offset:int}}", self._one, methods=["GET"]),
            Route(f"{topic}/records", self._produce, methods=["POST"]),
            Route(f"{topic}/redrive", self._redrive, methods=["POST"]),
        ]

    def _reading(self, request: Request, most: int) -> records.Reading:
        _check_arrow()
        limit = number_parameter(request, "limit", 100)
        if not 1 <= limit <= most:
            raise IllegalArgumentError(f"limit must be 1 to {most}, not {limit}")
        forms = self._forms_of(request)
        return records.Reading(
            request.path_params["topic"],
            parameter(request, "from", "-100"),
            _numbers(parameter(request, "partitions")),
            parameter(request, "filter"),
            limit,
            parameter(request, "live") == "true",
            forms[0],
            forms[1],
            min(number_parameter(request, "seconds", 60), _LONGEST_SCAN),
            parameter(request, "committed") == "true",
        )

    def _forms_of(self, request: Request) -> tuple[str, str]:
        topic = request.path_params["topic"]
        key, value = (self._decoders.form_of(topic, side, parameter(request, f"{side}Form", "auto")) for side in _SIDES)
        for form in (key, value):
            self._decoders.decode(None, form)
        return key, value

    async def _forms(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        # Which message a topic holds is the console's own knowledge.
        await check_topics(self._clients_of(request).admin, [topic], "the reading")
        means = {side: self._decoders.form_of(topic, side, "auto") for side in _SIDES}
        return JSONResponse({"forms": self._decoders.forms, "auto": means})

    async def _scan(self, request: Request) -> Response:
        reading, clients = self._reading(request, records.MOST_SHOWN), self._clients_of(request)
        clients.scans.check()
        if reading.is_live:
            # A tail goes on until its reader leaves.
            reading = reading._replace(seconds=24 * 3600.0)
        scan = await self._request(clients, reading)
        return StreamingResponse(clients.scans.events(scan), media_type="text/event-stream")

    async def _export(self, request: Request) -> Response:
        form = export.FORMS.get(parameter(request, "form", "ndjson"))
        if form is None:
            raise IllegalArgumentError(f"form must be one of {', '.join(export.FORMS)}")
        reading = self._reading(request, export.MOST_EXPORTED)._replace(is_live=False)
        clients = self._clients_of(request)
        clients.scans.check()
        scan = await self._request(clients, reading)
        if scan.mask is not None and parameter(request, "form") == "parquet":
            scan.mask.refuse("a Parquet file has keys and values as they are; export ndjson or csv")
        name = re.sub(r"[^\w.-]", "_", reading.topic)
        extension = parameter(request, "form", "ndjson")
        disposition = {"Content-Disposition": f'attachment; filename="{name}.{extension}"'}
        return StreamingResponse(form.write(clients.scans, scan, self._decoders), 200, disposition, form.media_type)

    async def _request(self, clients: SessionClients, reading: records.Reading) -> ScanRequest:
        scan = await records.scan_request(clients.admin, reading, wall_clock_ms())
        mask = self._masks.of(reading.topic)
        if mask is not None:
            mask.check(scan.condition)
        return scan._replace(mask=mask)

    async def _one(self, request: Request) -> Response:
        _check_arrow()
        clients = self._clients_of(request)
        clients.scans.check()
        place = (request.path_params["topic"], request.path_params["partition"], request.path_params["offset"])
        scan = await records.one_record_request(clients.admin, place, self._forms_of(request))
        topic, partition, offset = place
        row = await clients.scans.one(scan._replace(mask=self._masks.of(topic)))
        command = self._commands.line("consume", topic, "-p", str(partition), "--from", str(offset), "-n", "1")
        return JSONResponse({**row, "topic": topic, "command": command})

    async def _produce(self, request: Request) -> Response:
        body, clients = await Body.of(request), self._clients_of(request)
        topic = request.path_params["topic"]
        # A producer would have a topic made that is not there, where brokers do that.
        await clients.admin.describe_topics([topic])
        done = await records.produce(clients.producer(), topic, body, self._commands)
        return JSONResponse(done)

    async def _redrive(self, request: Request) -> Response:
        _check_arrow()
        topic = request.path_params["topic"]
        mask = self._masks.of(topic)
        if mask is not None:
            mask.refuse(_NOT_REDRIVEN)
        body, clients = await Body.of(request), self._clients_of(request)
        both = (clients.admin, clients.producer())
        done = await redrive.redrive(both, clients.scans, topic, body, wall_clock_ms(), self._commands)
        return JSONResponse(done)


def _check_arrow() -> None:
    try:
        import pyarrow  # noqa: F401 - only to see whether it is there
    except ImportError:
        raise ConfigError("records are read as Arrow tables: pip install 'barnabas[arrow]'") from None


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",") if part})
    except ValueError:
        raise IllegalArgumentError(f"partitions must be numbers with commas, not {text!r}") from None
