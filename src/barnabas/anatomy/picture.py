"""What a scene shows: lanes of boxes, as data. One renderer draws all scenes from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

#: More boxes than these in a lane are counted, not drawn.
MOST_BOXES = 24
MOST_LANES = 40

#: Values of a box, by name.
Facts = dict[str, str | int | float]


class Box(NamedTuple):
    """One thing: `key` follows it from picture to picture and from lane to lane, `kind` gives its colour.

    `label` stands in it, `facts` are its values by name; `fill` is how full it is, 0 to 1, or None.
    """

    key: str
    label: str
    kind: str
    facts: Mapping[str, str | int | float]
    fill: float | None = None


class Lane(NamedTuple):
    """Things in a row, in their order. `title` is the name of a text, `of` the values in it; `more` are not drawn."""

    title: str
    of: Mapping[str, str | int]
    boxes: tuple[Box, ...]
    more: int = 0


class Picture(NamedTuple):
    """The lanes from top to bottom, and how many more there are."""

    lanes: tuple[Lane, ...]
    more: int = 0


def lane(title: str, boxes: Iterable[Box], **of: str | int) -> Lane:
    """Make a lane of the first boxes; the others are counted."""
    every = list(boxes)
    return Lane(title, of, tuple(every[:MOST_BOXES]), max(0, len(every) - MOST_BOXES))


def picture(lanes: Iterable[Lane]) -> Picture:
    """Make a picture of the first lanes; the others are counted."""
    every = list(lanes)
    return Picture(tuple(islice(every, MOST_LANES)), max(0, len(every) - MOST_LANES))


def as_json(shown: Picture) -> dict[str, Any]:
    """Return the picture as a document."""
    lanes = [{**one._asdict(), "boxes": [box._asdict() for box in one.boxes]} for one in shown.lanes]
    return {"lanes": lanes, "more": shown.more}
