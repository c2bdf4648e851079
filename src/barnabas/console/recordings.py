"""`Recordings`: what the anatomy screen shows, read on while it grows."""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from barnabas.anatomy import recording
from barnabas.anatomy.film import Film, Subjects
from barnabas.errors import IllegalArgumentError

_MOST_FILMS = 8
#: The name under which all recordings are shown as one.
TOGETHER = "*"
#: A recording that was not written for so many seconds is over: writers write four times a second what there is.
_OVER = 5.0


class Seen(NamedTuple):
    """A recording as far as it was read; `turn` changes when it was read anew, as another one may be in its place."""

    recording: recording.Recording
    subjects: Subjects
    turn: int
    is_growing: bool


class Recordings:
    """Recordings by the names of their files. Its methods read files, and are to be called one at a time."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = {path.name: path for path in paths}
        self.names = [*self._paths, TOGETHER] if len(paths) > 1 else [*self._paths]
        self._growing: dict[str, recording.GrowingRecording] = {}
        self._seen: dict[str, Seen] = {}
        self._merged: tuple[tuple[int, int], ...] = ()
        self._films: OrderedDict[tuple[str, int, str, str], Film] = OrderedDict()

    def latest(self, name: str) -> Seen:
        """Return a recording as it is now. Raises `IllegalArgumentError` for one that there is not, or that is none."""
        if name not in self.names:
            raise IllegalArgumentError(f"there is no recording {name!r}; there are {', '.join(self.names)}")
        return self._together() if name == TOGETHER else self._read_on(name)

    def film(self, name: str, scene: str, subject: str) -> Film:
        """Return the film of a subject, as far as its recording goes now. Raises as `latest` does."""
        seen = self.latest(name)
        if not seen.subjects.has(scene, subject):
            raise IllegalArgumentError(f"the recording has no {scene} {subject!r}")
        key = name, seen.turn, scene, subject
        film = self._films.get(key)
        if film is None:
            film = self._films[key] = Film((), scene, subject)
            while len(self._films) > _MOST_FILMS:
                self._films.popitem(last=False)
        film.extend(seen.recording.events)
        self._films.move_to_end(key)
        return film

    def _read_on(self, name: str) -> Seen:
        path = self._paths[name]
        growing = self._growing.setdefault(name, recording.GrowingRecording(path))
        before = self._seen.get(name)
        try:
            is_another = growing.read_on()
            is_growing = time.time() - path.stat().st_mtime < _OVER
        except OSError as error:
            raise IllegalArgumentError(f"{path} cannot be read: {error.strerror}") from error
        except IllegalArgumentError:
            # What was read of it is of no use: the next time it begins anew.
            self._growing.pop(name)
            self._seen.pop(name, None)
            raise
        if before is None or is_another:
            turn = 0 if before is None else before.turn + 1
            before = Seen(growing.recording, Subjects(), turn, is_growing)
        before.subjects.extend(growing.recording.events)
        seen = self._seen[name] = before._replace(is_growing=is_growing)
        return seen

    def _together(self) -> Seen:
        parts = [self._read_on(name) for name in self._paths]
        state = tuple((part.turn, len(part.recording.events)) for part in parts)
        is_growing = any(part.is_growing for part in parts)
        before = self._seen.get(TOGETHER)
        if before is None or state != self._merged:
            # What one process wrote late belongs between what others wrote: so they are merged anew.
            found = recording.merged([part.recording for part in parts])
            subjects = Subjects()
            subjects.extend(found.events)
            before = Seen(found, subjects, 0 if before is None else before.turn + 1, is_growing)
            self._merged = state
        seen = self._seen[TOGETHER] = before._replace(is_growing=is_growing)
        return seen
