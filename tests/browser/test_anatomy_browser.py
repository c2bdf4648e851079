"""The anatomy screen in a real browser: every scene of a whole run, step by step, by keyboard, in both languages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.events import EVENTS
from barnabas.anatomy.scenes import SCENES
from tests.support.browser import Watched, chromium, violations
from tests.support.running_console import RunningConsole
from tests.unit.anatomy.test_scenes import JOBS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("starlette")

ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a seed, and one whose names are meant to run."""
    directory = tmp_path_factory.mktemp("recordings")
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--seed", "3", "--record"]
    subprocess.run([*command, str(directory / "a-seed.jsonl")], check=True, capture_output=True)
    told: list[tuple[float, e.Event]] = [(0.0, e.BatchOpened(ATTACK, 1, ATTACK, 0))]
    with (directory / "b-attack.jsonl").open("w") as stream:
        recording.write(stream, recording.Recording(ATTACK, told))
    told = [(float(at), e.PollEntered("c")) for at in range(9)]
    with (directory / "c-found.jsonl").open("w") as stream:
        recording.write(stream, recording.Recording("found", [*told[:6], (5.5, e.Violation(ATTACK)), *told[6:]]))
    with (directory / "d-growing.jsonl").open("w") as stream:
        told = [(float(at), e.BatchOpened("p", at, "t", 0)) for at in (1, 2)]
        recording.write(stream, recording.Recording("growing", [*told, *JOBS]))
    told = [(at / 100, e.BatchOpened("p", at, "t", at % 3)) for at in range(150)]
    with (directory / "e-long.jsonl").open("w") as stream:
        recording.write(stream, recording.Recording("long", told))
    for path in directory.glob("[!d]*.jsonl"):
        os.utime(path, (0, 0))  # what was written to a moment ago is followed at its end
    return directory


@pytest.fixture(scope="module")
def watched(recordings: Path) -> Iterator[Watched]:
    with RunningConsole(None, str(recordings)) as console, chromium() as browser:
        context = browser.new_context(viewport={"width": 1200, "height": 900}, locale="en-GB")
        found = Watched(context.new_page(), console.url)
        found.page.goto(console.link)
        yield found


@pytest.fixture
def console(watched: Watched) -> str:
    return watched.page.url.partition("/#")[0].rstrip("/")


@pytest.fixture
def page(watched: Watched, console: str) -> Iterator[Page]:
    watched.page.goto(f"{console}/#/anatomy?recording=a-seed.jsonl")
    watched.page.reload()
    watched.page.wait_for_selector(".picture")
    watched.wrong.clear()
    yield watched.page
    assert watched.wrong == []


@pytest.fixture
def long_film(page: Page, console: str) -> Page:
    """A film whose length no seed decides."""
    page.goto(f"{console}/#/anatomy?recording=e-long.jsonl")
    page.locator("span.num", has_text="of 150").wait_for()
    return page


def place(page: Page) -> int:
    return int(page.get_by_label("Step", exact=True).input_value())


@pytest.mark.parametrize("recording_of", ["a-seed.jsonl", "d-growing.jsonl"])
def test_each_scene_is_drawn_and_no_text_is_missing(page: Page, console: str, recording_of: str) -> None:
    page.goto(f"{console}/#/anatomy?recording={recording_of}")
    page.wait_for_selector(".picture")
    for language in ("en", "ko"):
        page.get_by_role("banner").locator("select").first.select_option(language)
        scenes = page.locator("main button.tab")
        for number in range(scenes.count()):
            scenes.nth(number).click()
            page.wait_for_selector(".picture .lane")
            last = page.locator("main button", has_text="»")
            if last.is_enabled():  # what happens in a seed changes with the simulator: a film may have one step only
                last.click()
            text = page.inner_text("main")
            for start in ("event.", "lane.", "fact.", "kind.", "scene.", "about.", "anatomy."):
                assert not any(word.startswith(start) for word in text.split()), text
    page.get_by_role("banner").locator("select").first.select_option("en")
    page.get_by_label("Step", exact=True).wait_for()


def test_arrows_step_on_and_back_and_show_the_same_picture_again(long_film: Page) -> None:
    scrub = long_film.get_by_label("Step", exact=True)
    scrub.focus()
    long_film.keyboard.press("PageDown")
    long_film.locator("span.num", has_text="21 of").wait_for()
    shown = long_film.inner_text(".picture")
    long_film.keyboard.press("ArrowRight")
    long_film.locator("span.num", has_text="22 of").wait_for()
    long_film.keyboard.press("ArrowLeft")
    long_film.locator("span.num", has_text="21 of").wait_for()

    assert long_film.inner_text(".picture") == shown
    assert place(long_film) == 20


def test_play_goes_on_to_the_end_by_itself(long_film: Page) -> None:
    long_film.get_by_label("Speed").select_option("100")
    long_film.get_by_label("Play").click()
    long_film.get_by_label("One step on").and_(long_film.locator(":disabled")).wait_for()

    assert place(long_film) > 100


def test_names_that_are_meant_to_run_stay_text(page: Page) -> None:
    page.get_by_label("Recording").select_option("b-attack.jsonl")
    page.get_by_role("heading", level=1).get_by_text(ATTACK).wait_for()

    assert ATTACK in page.inner_text(".picture")


def test_a_film_opens_where_the_simulator_found_something(page: Page) -> None:
    page.get_by_label("Recording").select_option("c-found.jsonl")
    page.get_by_role("alert").get_by_text(ATTACK).wait_for()
    page.locator("span.num", has_text="6 of 9").wait_for()
    page.keyboard.press("Tab")
    assert place(page) == 5


def test_every_event_fact_lane_and_scene_has_its_text_in_both_languages() -> None:
    texts = files("barnabas.console") / "static" / "texts"
    for language in ("en", "ko"):
        known = json.loads((texts / f"{language}.json").read_text("utf-8"))
        for name, kind in EVENTS.items():
            fields = dict.fromkeys(kind._fields, "")
            known[f"event.{name}"].format(**fields)
        assert all(f"scene.{name}" in known and f"about.{name}" in known for name in SCENES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_break_no_rule_of_accessibility(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{page.url.partition('#')[0]}#/anatomy?recording=a-seed.jsonl")
    scenes = page.locator("main button.tab")
    scenes.nth(1).wait_for()
    for number in range(scenes.count()):
        scenes.nth(number).click()
        page.wait_for_selector(".picture")
        assert violations(page) == []


def test_a_recording_that_grows_is_followed_until_one_steps_back(page: Page, recordings: Path, console: str) -> None:
    growing = recordings / "d-growing.jsonl"
    page.goto(f"{console}/#/anatomy?recording=d-growing.jsonl")
    live = page.get_by_role("button", name="Live")
    live.wait_for()
    # It was written long ago, or just now: this decides.
    if live.get_attribute("aria-pressed") == "false":
        live.click()
    steps = int(page.get_by_label("Step", exact=True).get_attribute("max") or "-1") + 1
    with growing.open("a") as stream:
        stream.writelines(recording.lines([(9.0, e.BatchOpened("p", 99, "t", 7))]))
    page.locator("span.num", has_text=f"{steps + 1} of {steps + 1}").wait_for()
    page.get_by_role("heading", name="Deque of t-7").wait_for()

    page.keyboard.press("Escape")
    page.get_by_label("One step back").click()
    page.locator("span.num", has_text=f"{steps} of {steps + 1}").wait_for()
    assert live.get_attribute("aria-pressed") == "false"
    live.focus()
    page.keyboard.press("l")
    page.locator("span.num", has_text=f"{steps + 1} of {steps + 1}").wait_for()
    assert live.get_attribute("aria-pressed") == "true"


def test_a_lesson_leads_from_stop_to_stop_by_one_key(page: Page) -> None:
    page.get_by_role("button", name="Lesson").click()
    stops = page.locator("ol.lesson li")
    stops.nth(4).wait_for()
    seen = []
    for _ in range(3):
        # The key is the page's, not a field's.
        page.get_by_role("heading", level=1).click()
        page.keyboard.press("n")
        page.locator("ol.lesson li[aria-current=step]").wait_for()
        page.wait_for_timeout(300)
        seen.append(place(page))
    assert seen == sorted(set(seen))
    assert violations(page) == []
