"""Holds every picture that a test of a scene makes to the texts by which the page draws it, in each language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.anatomy.picture import Box, Lane

STATIC = Path(__file__).parents[3] / "src/barnabas/console/static"
TEXTS: dict[str, dict[str, str]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(STATIC.glob("texts/*.json"))
}


def lacking(key: str, values: Mapping[str, Any]) -> set[str]:
    """The languages without this text, or with a gap in it for which there is no value."""
    found = {f"{language}: no {key}" for language, texts in TEXTS.items() if key not in texts}
    for language, texts in TEXTS.items():
        found |= {
            f"{language}: {gap} in {key}" for gap in re.findall(r"\{(\w+)\}", texts.get(key, "")) if gap not in values
        }
    return found


@pytest.fixture(autouse=True)
def every_text_is_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    missing: set[str] = set()
    box, lane = Box.__new__, Lane.__new__

    def made_box(cls: type[Box], *given: Any, **named: Any) -> Box:
        found = box(cls, *given, **named)
        missing.update(*(lacking(f"fact.{name}", {"v": value}) for name, value in found.facts.items()))
        missing.update(lacking(f"kind.{found.kind}", {}))
        return found

    def made_lane(cls: type[Lane], *given: Any, **named: Any) -> Lane:
        found = lane(cls, *given, **named)
        missing.update(lacking(f"lane.{found.title}", found.of))
        return found

    monkeypatch.setattr(Box, "__new__", made_box)
    monkeypatch.setattr(Lane, "__new__", made_lane)
    yield
    assert not missing
