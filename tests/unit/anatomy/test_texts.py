"""Every event and every scene has its words in each language; boxes and lanes are held to theirs by `conftest`."""

from __future__ import annotations

import pytest

from barnabas.anatomy.events import EVENTS
from barnabas.anatomy.scenes import SCENES
from tests.unit.anatomy.conftest import lacking


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_has_a_sentence_of_its_own_fields(name: str) -> None:
    assert lacking(f"event.{name}", dict.fromkeys(EVENTS[name]._fields)) == set()


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_has_a_name_and_a_paragraph(scene: str) -> None:
    assert lacking(f"scene.{scene}", {}) | lacking(f"about.{scene}", {}) == set()
