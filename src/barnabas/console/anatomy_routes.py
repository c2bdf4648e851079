"""The routes of the anatomy screen: which recordings, scenes and subjects there are, and one step of one of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from barnabas.anatomy import recording
from barnabas.anatomy.events import Event, Violation
from barnabas.anatomy.film import Film, subjects
from barnabas.anatomy.picture import as_json
from barnabas.anatomy.scenes import SCENES
from barnabas.console.answers import number_parameter, parameter
from barnabas.errors import IllegalArgumentError

_MOST_FILMS = 8
#: The name under which all recordings are shown as one.
TOGETHER = "*"


class _Read(NamedTuple):
    """A recording as it was read, and what its file looked like then."""

    state: tuple[int, ...]
    recording: recording.Recording
    subjects: dict[str, list[str]]


class AnatomyRoutes:
    """Recordings by the names of their files; one that grows is read again when it is asked for."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = {path.name: path for path in paths}
        self._names = [*self._paths, TOGETHER] if len(paths) > 1 else [*self._paths]
        self._read: dict[str, _Read] = {}
        self._films: OrderedDict[tuple[str, tuple[int, ...], str, str], Film] = OrderedDict()
        self._lock = asyncio.Lock()

    def routes(self) -> list[BaseRoute]:
        """Return the routes; none where there are no recordings."""
        if not self._paths:
            return []
        return [
            Route("/api/anatomy", self._overview, methods=["GET"]),
            Route("/api/anatomy/{scene}", self._step, methods=["GET"]),
        ]

    async def _overview(self, request: Request) -> Response:
        name = request.query_params.get("recording") or self._names[0]
        found = await self._latest(name)
        events = found.recording.events
        return JSONResponse(
            {
                "recordings": self._names,
                "recording": name,
                "title": found.recording.title,
                "events": len(events),
                "lost": found.recording.lost,
                "from": events[0][0] if events else 0.0,
                "to": events[-1][0] if events else 0.0,
                "subjects": found.subjects,
                "violation": _first_violation(events),
            }
        )

    async def _step(self, request: Request) -> Response:
        scene, subject = request.path_params["scene"], parameter(request, "subject")
        if scene not in SCENES:
            raise IllegalArgumentError(f"there is no scene {scene!r}; there are {', '.join(SCENES)}")
        name = request.query_params.get("recording") or self._names[0]
        found = await self._latest(name)
        if subject not in found.subjects[scene]:
            raise IllegalArgumentError(f"the recording has no {scene} {subject!r}")
        async with self._lock:
            film = await asyncio.to_thread(self._film, name, found, scene, subject)
            last = len(film) - 1
            number = number_parameter(request, "step", last)
            if "at" in request.query_params:
                number = film.step_at(_seconds(parameter(request, "at")))
            step = await asyncio.to_thread(film.step, min(number, last))
        event = {"name": type(step.event).__name__, "fields": step.event._asdict()}
        return JSONResponse(
            {"step": step.number, "steps": len(film), "at": step.at, "event": event, "picture": as_json(step.picture)}
        )

    async def _latest(self, name: str) -> _Read:
        if name not in self._names:
            raise IllegalArgumentError(f"there is no recording {name!r}; there are {', '.join(self._names)}")
        async with self._lock:
            if name == TOGETHER:
                return await asyncio.to_thread(self._read_all)
            return await asyncio.to_thread(self._read_again, name, self._paths[name])

    def _read_all(self) -> _Read:
        parts = [self._read_again(name, path) for name, path in self._paths.items()]
        state = tuple(number for part in parts for number in part.state)
        known = self._read.get(TOGETHER)
        if known is None or known.state != state:
            found = recording.merged([part.recording for part in parts])
            known = self._read[TOGETHER] = _Read(state, found, subjects(found.events))
        return known

    def _read_again(self, name: str, path: Path) -> _Read:
        try:
            found = path.stat()
            state = found.st_mtime_ns, found.st_size
            known = self._read.get(name)
            if known is None or known.state != state:
                read = recording.read(path)
                known = self._read[name] = _Read(state, read, subjects(read.events))
        except OSError as error:
            raise IllegalArgumentError(f"{path} cannot be read: {error.strerror}") from error
        return known

    def _film(self, name: str, found: _Read, scene: str, subject: str) -> Film:
        key = name, found.state, scene, subject
        film = self._films.get(key)
        if film is None:
            film = self._films[key] = Film(found.recording.events, scene, subject)
            while len(self._films) > _MOST_FILMS:
                self._films.popitem(last=False)
        self._films.move_to_end(key)
        return film


def _first_violation(told: Sequence[tuple[float, Event]]) -> dict[str, float | str] | None:
    """Return when a simulator found what must not be, and what; None where it found nothing."""
    for at, event in told:
        if isinstance(event, Violation):
            return {"at": at, "what": event.what}
    return None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if not isfinite(seconds):
        raise IllegalArgumentError(f"at must be seconds, not {text!r}")
    return seconds
