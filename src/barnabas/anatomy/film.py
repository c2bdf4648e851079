"""`Film`: recorded events as the steps of a scene, forwards and backwards."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from barnabas.anatomy.events import Violation
from barnabas.anatomy.lessons import stops_of
from barnabas.anatomy.scenes import SCENES
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event
    from barnabas.anatomy.picture import Picture
    from barnabas.anatomy.scenes.scene import Scene

#: Every so many steps the scene is kept as it was, so that a step back replays no more than these.
KEYFRAME_STEPS = 256


class Step(NamedTuple):
    """One event that changed the scene: when, which, and the picture after it."""

    number: int
    at: float
    event: Event
    picture: Picture


class Film:
    """The steps of one subject of one scene. Step 0 is the first event that the scene takes."""

    def __init__(self, events: Sequence[tuple[float, Event]], scene: str, subject: str) -> None:
        self.scene = scene
        self.subject = subject
        self._playing = SCENES[scene](subject)
        self._before = copy.deepcopy(self._playing)
        self._steps: list[tuple[float, Event]] = []
        self._keyframes: list[Scene] = []
        self._events = 0
        self.extend(events)

    def extend(self, events: Sequence[tuple[float, Event]]) -> None:
        """Take in what has come to the events that the film was made of: `events` are all of them."""
        playing = self._playing
        for at, event in islice(events, self._events, None):
            if playing.apply(event):
                if len(self._steps) % KEYFRAME_STEPS == 0:
                    self._keyframes.append(self._before)
                self._steps.append((at, event))
                if len(self._steps) % KEYFRAME_STEPS == 0:
                    self._before = copy.deepcopy(playing)
        self._events = len(events)

    def __len__(self) -> int:
        return len(self._steps)

    def step(self, number: int) -> Step:
        """Return one step. Raises `IllegalArgumentError` for a number that there is not."""
        if not 0 <= number < len(self._steps):
            raise IllegalArgumentError(f"step {number} is not one of the {len(self._steps)} steps")
        scene = copy.deepcopy(self._keyframes[number // KEYFRAME_STEPS])
        for _, event in self._steps[number - number % KEYFRAME_STEPS : number + 1]:
            scene.apply(event)
        at, event = self._steps[number]
        return Step(number, at, event, scene.picture())

    def lesson(self) -> list[int | None]:
        """Return the step of each stop of the scene's lesson, None where the film has not come to it."""
        return stops_of(self.scene, self._steps)

    def step_at(self, at: float) -> int:
        """Return the number of the last step that is not later than a time; 0 for a time before the first."""
        return max(0, bisect_right(self._steps, at, key=lambda step: step[0]) - 1)


class Subjects:
    """The subjects that there are for each scene, in the order in which they came; and the first violation."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {name: {} for name in SCENES}
        self._events = 0
        #: When a simulator found what must not be, and what; None where it found nothing.
        self.violation: tuple[float, str] | None = None

    def extend(self, events: Sequence[tuple[float, Event]]) -> None:
        """Take in what has come to the events since: `events` are all of them."""
        for at, event in islice(events, self._events, None):
            for name, scene in SCENES.items():
                subject = scene.subject_of(event)
                if subject:
                    self._found[name][subject] = None
            if self.violation is None and isinstance(event, Violation):
                self.violation = at, event.what
        self._events = len(events)

    def by_scene(self) -> dict[str, list[str]]:
        """Return them by the name of their scene."""
        return {name: list(seen) for name, seen in self._found.items()}

    def has(self, scene: str, subject: str) -> bool:
        """Whether a scene has this subject."""
        return subject in self._found[scene]


def subjects(events: Sequence[tuple[float, Event]]) -> dict[str, list[str]]:
    """Return the subjects that there are for each scene, in the order in which they came."""
    found = Subjects()
    found.extend(events)
    return found.by_scene()
