"""Anatomy: what the parts of the running code do, told as events and drawn as pictures, live or step by step.

Rule 1. **One vocabulary** (`events`): each event is a named tuple with Kafka's names for Kafka's things. It is told
where it happens, once per batch, request or change of state, never once per record.

Rule 2. **Nothing is told while nothing listens** (`recorder`): what tells asks `recorder.active` first, and where that
is None nothing is built. Like logging it is output only: no code reads back what it told, so a recorded run is the run
that it would have been.

Rule 3. **Everything is bounded**: a `Recorder` keeps the newest events and counts the lost ones; a recording ends at a
size; a picture has so many lanes and boxes, and says how many more there are.

Rule 4. **A scene is a pure reducer** (`scenes`): `apply(at, event)` changes it, `picture()` shows it. The same scene
shows a running process, a recording and a seed of the simulator. Stepping back is replaying to an earlier event
(`film`), so it needs no undo.

Rule 5. **A picture is data** (`picture`): lanes of boxes. One renderer draws all of them, tests assert on them, and a
screen reader reads them as lists.

Rule 6. A recording (`recording`) is JSON lines: a first line that says what it is, then one event a line. Reading one
refuses what it does not know with the line's number.

No part of barnabas that tells events imports more of this room than `recorder` and `events`; both import nothing of
barnabas.
"""

from __future__ import annotations

from os import environ

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from barnabas.anatomy import events as events
    from barnabas.anatomy.recorder import Recorder as Recorder

#: What the parts of this process tell their events to; they build none while it is None.
active: Recorder | None = None


def start(recorder: Recorder) -> None:
    """Have the parts of this process tell their events to a recorder."""
    global active
    active = recorder


def stop() -> None:
    """Have nothing told any more."""
    global active
    active = None


def record_if_asked(what: str) -> None:
    """Have this process record itself where the variable BARNABAS_ANATOMY names a directory for it.

    `what` names the process in the file's name.
    """
    directory = environ.get("BARNABAS_ANATOMY")
    if directory and active is None:
        from barnabas.anatomy.writer import begin

        recorder = begin(directory, what, stop)
        if recorder is not None:
            start(recorder)


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids as events have them."""
    return ",".join(map(str, sorted(brokers)))


def __getattr__(name: str) -> ModuleType:
    """Load `events` when it is first used: making thirty named tuples takes milliseconds."""
    if name == "events":
        from importlib import import_module

        return import_module("barnabas.anatomy.events")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
