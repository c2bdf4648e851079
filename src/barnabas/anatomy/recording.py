"""Recordings: events in a file, as JSON lines.

The first line is `{"barnabas-anatomy": 1, "title": ..., "lost": ..., "clock": ...}`; each other one
`[time, name, field, ...]`, the fields in the order of `events`. Times are seconds of one clock, never going back;
recordings that name the same clock share it. A line costs some 60 bytes.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from os import SEEK_END
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from barnabas.anatomy import events
from barnabas.anatomy.clocks import shifts
from barnabas.anatomy.events import EVENTS
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.anatomy.events import Event

FORMAT = 1
_FORMAT_KEY = "barnabas-anatomy"
#: Reading takes no more than this: some 300 MB of memory.
MOST_EVENTS = 1_000_000


class Recording(NamedTuple):
    """What was recorded: what it is of, the events, how many before them were lost, and the clock's name if known."""

    title: str
    events: list[tuple[float, Event]]
    lost: int = 0
    clock: str = ""


def write(stream: TextIO, recording: Recording) -> None:
    """Write a recording."""
    stream.write(json.dumps(header(recording.title, recording.lost, recording.clock)) + "\n")
    stream.writelines(lines(recording.events))


def header(title: str, lost: int, clock: str = "") -> dict[str, str | int]:
    """Return what the first line says."""
    return {_FORMAT_KEY: FORMAT, "title": title, "lost": lost, "clock": clock}


def lines(events: Iterable[tuple[float, Event]]) -> Iterator[str]:
    """Return the line of each event."""
    return (json.dumps([round(at, 6), type(event).__name__, *event]) + "\n" for at, event in events)


def read(path: Path) -> Recording:
    """Read a recording. Raises `IllegalArgumentError`, which names the line, for a file that is none; `OSError`."""
    growing = GrowingRecording(path)
    growing.read_on()
    return growing.recording


class GrowingRecording:
    """A recording that may still be written: each `read_on` reads what came since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._header = b""
        self._read = 0
        self.recording = Recording("", [])

    def read_on(self) -> bool:
        """Read what is new; True where the file is another one than before, and all was read anew.

        Raises `IllegalArgumentError`, which names the line, for a file that is none; `OSError`.
        """
        with self._path.open("rb") as stream:
            header = stream.readline()
            size = stream.seek(0, SEEK_END)
            is_another = bool(self._header) and (header != self._header or size < self._read)
            if is_another or not self._header:
                self._begin()
                self._take_header(header)
            stream.seek(self._read)
            self._take(stream)
        return is_another

    def _take_header(self, line: bytes) -> None:
        first = _parsed(line, self._path, 1)
        if not isinstance(first, dict) or first.get(_FORMAT_KEY) != FORMAT:
            raise IllegalArgumentError(
                f"{self._path} is no recording that this version of barnabas reads: "
                f"line 1 has no {_FORMAT_KEY!r}: {FORMAT}"
            )
        self._header, self._read = line, len(line)
        title, clock = str(first.get("title", "")), str(first.get("clock", ""))
        self.recording = Recording(title, [], int(first.get("lost", 0)), clock)

    def _take(self, stream: Iterable[bytes]) -> None:
        events = self.recording.events
        for line in stream:
            if not line.endswith(b"\n"):
                # What is being written right now, or was cut off by the writer's end.
                break
            if len(events) >= MOST_EVENTS:
                raise IllegalArgumentError(f"{self._path} has more than {MOST_EVENTS} events; record less at a time")
            number = len(events) + 2
            events.append(_event(_parsed(line, self._path, number), self._path, number))
            self._read += len(line)


#: What is numbered by each process for itself, and so far apart that numbers of two processes never meet.
_NUMBERED = {
    "batch": (events.BatchOpened, events.BatchDrained, events.BatchRequeued, events.BatchSplit, events.BatchEnded,
              events.BatchFilled),
    "core": (events.RequestUnsent, events.RequestInFlight, events.RequestAnswered, events.RequestCompleted,
             events.NodeConnected, events.NodeDisconnected),
    "task": (events.RangeBegun, events.HandoverMoved, events.RowsDecoded),
}  # fmt: skip
_APART = 10**9


def merged(recordings: Sequence[Recording]) -> Recording:
    """Return the events of several processes in the order in which they happened.

    Processes of one machine share its clock (`time.monotonic`). Those of others are shifted as the requests between
    them say (`clocks.shifts`).
    """
    aligned = shifts([(found.clock, found.events) for found in recordings])
    apart = [_numbered_apart(found.events, n * _APART, aligned[n]) for n, found in enumerate(recordings)]
    events = list(heapq.merge(*apart, key=lambda told: told[0]))
    return Recording(f"{len(recordings)} processes", events, sum(found.lost for found in recordings))


def _numbered_apart(told: Iterable[tuple[float, Event]], more: int, shift: float) -> Iterator[tuple[float, Event]]:
    for at, event in told:
        changed = {name: getattr(event, name) + more for name, kinds in _NUMBERED.items() if isinstance(event, kinds)}
        yield at + shift, event._replace(**changed) if changed else event


def _parsed(line: bytes, path: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise IllegalArgumentError(f"{path}, line {number}: this is no JSON") from None


def _event(found: Any, path: Path, number: int) -> tuple[float, Event]:
    if isinstance(found, list) and len(found) >= 2 and isinstance(found[0], int | float):
        kind = EVENTS.get(found[1]) if isinstance(found[1], str) else None
        if kind is not None and len(found) == 2 + len(kind._fields) and _has_types(kind, found[2:]):
            return float(found[0]), kind(*found[2:])
    raise IllegalArgumentError(f"{path}, line {number}: no event of this version of barnabas")


def _has_types(kind: type[Event], values: list[Any]) -> bool:
    # JSON has one kind of numbers, and True is an int to Python.
    return all(
        type(value) is hint or (hint is float and type(value) is int)
        for value, hint in zip(values, kind.__annotations__.values(), strict=True)
    )
