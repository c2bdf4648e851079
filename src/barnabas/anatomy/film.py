"""`Film`: recorded events as the steps of a scene, forwards and backwards."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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
        self.subject = subject
        playing = SCENES[scene](subject)
        self._steps: list[tuple[float, Event]] = []
        self._keyframes: list[Scene] = []
        for at, event in events:
            before = copy.deepcopy(playing) if len(self._steps) % KEYFRAME_STEPS == 0 else None
            if playing.apply(event):
                if before is not None:
                    self._keyframes.append(before)
                self._steps.append((at, event))

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

    def step_at(self, at: float) -> int:
        """Return the number of the last step that is not later than a time; 0 for a time before the first."""
        return max(0, bisect_right(self._steps, at, key=lambda step: step[0]) - 1)


def subjects(events: Sequence[tuple[float, Event]]) -> dict[str, list[str]]:
    """Return the subjects that there are for each scene, in the order in which they came."""
    found: dict[str, dict[str, None]] = {name: {} for name in SCENES}
    for _, event in events:
        for name, scene in SCENES.items():
            subject = scene.subject_of(event)
            if subject:
                found[name][subject] = None
    return {name: list(seen) for name, seen in found.items()}
