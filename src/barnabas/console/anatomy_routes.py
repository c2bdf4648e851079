"""The routes of the anatomy screen: which recordings, scenes and subjects there are, a step of one, and a live one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from barnabas.anatomy.film import Film, Step
from barnabas.anatomy.picture import as_json
from barnabas.anatomy.scenes import SCENES
from barnabas.console.answers import failure, number_parameter, parameter
from barnabas.console.live import KEEP_ALIVE_SECONDS, encoded
from barnabas.console.recordings import Recordings, Seen
from barnabas.errors import IllegalArgumentError, IllegalStateError

T = TypeVar("T")

MOST_LIVE = 16
#: Seconds between two looks at a recording that is followed; writers write as often.
LOOK_EVERY = 0.25
#: Looking may take this share of the time; a large recording is looked at less often.
SHARE = 0.25


class AnatomyRoutes:
    """Recordings by the names of their files; one that grows is read on when it is asked for, or followed."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._recordings = Recordings(paths)
        self._lock = asyncio.Lock()
        self._is_closed = asyncio.Event()
        self._followers = 0

    def routes(self) -> list[BaseRoute]:
        """Return the routes; none where there are no recordings."""
        if not self._recordings.names:
            return []
        return [
            Route("/api/anatomy", self._overview, methods=["GET"]),
            Route("/api/anatomy/{scene}", self._step, methods=["GET"]),
            Route("/api/anatomy/{scene}/live", self._live, methods=["GET"]),
            Route("/api/anatomy/{scene}/lesson", self._lesson, methods=["GET"]),
        ]

    def close(self) -> None:
        """End what is followed, so that its connections can end."""
        self._is_closed.set()

    async def _overview(self, request: Request) -> Response:
        name = self._name(request)
        seen = await self._alone(lambda: self._recordings.latest(name))
        return JSONResponse({"recordings": self._recordings.names, "recording": name, **_told(seen)})

    async def _step(self, request: Request) -> Response:
        name, scene, subject = self._film_of(request)

        def found() -> tuple[Step, int]:
            film = self._recordings.film(name, scene, subject)
            last = len(film) - 1
            number = number_parameter(request, "step", last)
            if "at" in request.query_params:
                number = film.step_at(_seconds(parameter(request, "at")))
            return film.step(min(number, last)), len(film)

        return JSONResponse(_shown(*await self._alone(found)))

    async def _lesson(self, request: Request) -> Response:
        place = self._film_of(request)
        return JSONResponse({"stops": await self._alone(lambda: self._recordings.film(*place).lesson())})

    async def _live(self, request: Request) -> Response:
        name, scene, subject = self._film_of(request)
        if self._followers >= MOST_LIVE:
            raise IllegalStateError(f"{MOST_LIVE} films are followed already; close a tab")
        await self._alone(lambda: self._recordings.film(name, scene, subject))
        return StreamingResponse(self._followed(name, scene, subject), media_type="text/event-stream")

    async def _followed(self, name: str, scene: str, subject: str) -> AsyncIterator[bytes]:
        """Yield each last step of a film that grows, and what its recording has by then, until the reader goes."""
        self._followers += 1
        steps = events = -1
        said = time.monotonic()
        try:
            yield b": open\n\n"
            while not self._is_closed.is_set():
                began = time.monotonic()
                seen, film = await self._alone(lambda: self._look(name, scene, subject))
                if len(seen.recording.events) != events:
                    events = len(seen.recording.events)
                    yield encoded("recording", _told(seen))
                if len(film) != steps:
                    steps = len(film)
                    yield encoded("step", _shown(await self._alone(partial(film.step, steps - 1)), steps))
                    said = began
                elif began - said > KEEP_ALIVE_SECONDS:
                    yield b": still here\n\n"
                    said = began
                await self._pause(time.monotonic() - began)
        except IllegalArgumentError as problem:
            yield encoded("trouble", failure(problem))
        finally:
            self._followers -= 1

    async def _pause(self, took: float) -> None:
        try:
            await asyncio.wait_for(self._is_closed.wait(), max(LOOK_EVERY, took / SHARE) - took)
        except TimeoutError:
            pass

    def _look(self, name: str, scene: str, subject: str) -> tuple[Seen, Film]:
        return self._recordings.latest(name), self._recordings.film(name, scene, subject)

    async def _alone(self, look: Callable[[], T]) -> T:
        async with self._lock:
            return await asyncio.to_thread(look)

    def _name(self, request: Request) -> str:
        return request.query_params.get("recording") or self._recordings.names[0]

    def _film_of(self, request: Request) -> tuple[str, str, str]:
        scene = request.path_params["scene"]
        if scene not in SCENES:
            raise IllegalArgumentError(f"there is no scene {scene!r}; there are {', '.join(SCENES)}")
        return self._name(request), scene, parameter(request, "subject")


def _told(seen: Seen) -> dict[str, Any]:
    """Return what a recording has, as a document."""
    title, events, lost, _ = seen.recording
    violation = seen.subjects.violation
    return {
        "title": title,
        "events": len(events),
        "lost": lost,
        "from": events[0][0] if events else 0.0,
        "to": events[-1][0] if events else 0.0,
        "subjects": seen.subjects.by_scene(),
        "violation": None if violation is None else {"at": violation[0], "what": violation[1]},
        "isGrowing": seen.is_growing,
    }


def _shown(step: Step, steps: int) -> dict[str, Any]:
    """Return a step of so many, as a document."""
    event = {"name": type(step.event).__name__, "fields": step.event._asdict()}
    return {"step": step.number, "steps": steps, "at": step.at, "event": event, "picture": as_json(step.picture)}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if not isfinite(seconds):
        raise IllegalArgumentError(f"at must be seconds, not {text!r}")
    return seconds
