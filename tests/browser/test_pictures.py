"""The pictures of the console in the documentation, made of the running console: `BARNABAS_PICTURES=docs/images`.

Without that they go to a temporary folder, and the tests hold that each screen can be shown with real work on it. Every
screen that the page knows has one, and so has every scene of the anatomy; the page of pictures shows them all.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.scenes import SCENES as ANATOMY
from tests.support.browser import Watched, chromium
from tests.support.running_console import RunningConsole
from tests.support.shop import Shop, shop
from tests.unit.anatomy.test_scenes import JOBS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("starlette")

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/barnabas/console/static"
PAGE = ROOT / "docs/guide/console-screens.md"
WIDTH, HEIGHT = 1100, 640
COLOURS = 48


class Screen(NamedTuple):
    """A picture: its file, the place, and what is there when the screen is drawn."""

    name: str
    place: str
    drawn: str
    is_dark: bool = False
    language: str = "en"
    width: int = WIDTH


SCREENS = (
    Screen("console-overview", "overview", "figure canvas"),
    Screen("console-topics", "topics", "[data-row]"),
    Screen("console-topic", "topic/orders", "main table"),
    Screen("console-settings", "topic/orders?tab=settings", "main table"),
    Screen("console-records", "topic/orders?tab=records&from=newest:50", "table.records [data-row]", is_dark=True),
    Screen("console-record", "record/orders/1/3", "pre .n1"),
    Screen("console-groups", "groups", "[data-row]"),
    Screen("console-group", "group/shop-packing", "figure canvas"),
    Screen("console-transactions", "transactions", "main table"),
    Screen("console-spark", "spark", "[data-row]"),
    Screen("console-query", "query/revenue", "main table"),
    Screen("console-streams", "streams", "[data-row]"),
    Screen("console-topology", "topology/deliveries", "main svg", is_dark=True),
    Screen("console-brokers", "brokers", "main table"),
    Screen("console-broker", "broker/1", "main table"),
    Screen("console-schemas", "schemas", "[data-row]"),
    Screen("console-schema", "schema/orders-value", ".diff"),
    Screen("console-access", "access", "main table"),
    Screen("console-changes", "changes", "main table"),
    Screen("console-korean", "group/nightly-export", "figure canvas", language="ko"),
    Screen("console-phone", "topic/orders?tab=records&from=newest:50", "table.records [data-row]", width=390),
)
#: A task of Spark's source that reads a range: its Handover's cases in the order in which they come.
TASK: list[tuple[float, e.Event]] = [
    (201.0, e.RangeBegun(1, "orders", 0, 4200, 6000)),
    (201.1, e.HandoverMoved(1, "poll_waits", "")),
    (201.2, e.HandoverMoved(1, "produced", "")),
    (201.3, e.HandoverMoved(1, "taken", "")),
    (201.4, e.RowsDecoded(1, "orders", 0, 700, 4900)),
    (201.5, e.HandoverMoved(1, "produced", "")),
    (201.6, e.HandoverMoved(1, "produce_waits", "")),
    (201.7, e.HandoverMoved(1, "taken", "")),
    (201.8, e.RowsDecoded(1, "orders", 0, 700, 5600)),
    (201.9, e.HandoverMoved(1, "closed", "")),
]
#: Shown by pictures of their own, of films and not of a cluster.
OF_FILMS = {"anatomy"}
TEXTS = json.loads((STATIC / "texts/en.json").read_text(encoding="utf-8"))


def test_every_screen_and_every_scene_has_its_picture_and_its_sentence() -> None:
    known = set(re.findall(r"^  (\w+): \{ view:", (STATIC / "app.mjs").read_text(encoding="utf-8"), re.MULTILINE))
    shown = re.findall(
        r"^!\[[^\]]{20,}\]\(\.\./images/([\w-]+)\.png\)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )

    assert known - OF_FILMS == {re.split("[/?]", screen.place)[0] for screen in SCREENS}
    assert set(shown) == {screen.name for screen in SCREENS} | {f"anatomy-{scene}" for scene in ANATOMY}
    assert len(shown) == len(set(shown))
    assert all((ROOT / "docs/images" / f"{name}.png").stat().st_size > 5000 for name in shown)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = os.environ.get("BARNABAS_PICTURES")
    return ROOT / wanted if wanted else tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


def take(page: Page, name: str, folder: Path) -> None:
    """Keep a picture, with a palette, for pages load faster so; one colour alone would be none."""
    from PIL import Image

    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS)
    assert len(picture.getcolors() or ()) > 8
    picture.save(folder / f"{name}.png", optimize=True)


def speak(page: Page, language: str) -> None:
    """Have the page in a language."""
    page.get_by_role("banner").locator("select").first.select_option(language)
    page.locator(f"html[lang={language}]").wait_for()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_screens_of_the_console(opened: Shop, browser: Browser, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(opened.folder))
        console = RunningConsole(opened.bootstrap_servers, *opened.options, folder=opened.folder)
    with console:
        watched = Watched(browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}), console.url)
        page = watched.page
        page.goto(console.link)
        page.wait_for_selector("[data-health=good]")
        # Something to see on the screen of changes, and lines in the charts.
        changed = page.evaluate(
            """() => Promise.all([["retention.ms", "86400000"], ["segment.bytes", "104857600"]].map(([name, value]) =>
            fetch("api/topics/clicks/settings", { method: "POST", headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ set: { [name]: value } }) }).then((answer) => answer.status)))"""
        )
        assert changed == [200, 200]
        page.wait_for_timeout(20_000)
        for screen in SCREENS:
            page.set_viewport_size({"width": screen.width, "height": HEIGHT if screen.width == WIDTH else 780})
            page.emulate_media(color_scheme="dark" if screen.is_dark else "light")
            page.goto(f"{console.url}/#/{screen.place}")
            speak(page, screen.language)
            page.locator(screen.drawn).first.wait_for()
            take(page, screen.name, folder)
        assert watched.wrong == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_scenes_of_the_anatomy(tmp_path: Path, browser: Browser, folder: Path) -> None:
    """Of a stage at work, of a cluster of the simulator, and of a query and a streams task."""
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--seed", "3", "--cluster", "quorum"]
    subprocess.run([*command, "--record", str(tmp_path / "cluster.jsonl")], check=True, capture_output=True)
    with (tmp_path / "jobs.jsonl").open("w") as stream:
        recording.write(stream, recording.Recording("a Spark query and a streams task", [*JOBS, *TASK]))
    taken = set()
    with RunningConsole(None) as stage, RunningConsole(None, str(tmp_path)) as films:
        for console, addresses, wanted in (
            (stage, [""], {"producer", "consumer", "exchange", "group", "log", "transactions"}),
            (
                films,
                ["?recording=cluster.jsonl", "?recording=jobs.jsonl"],
                {"cluster", "handover", "query", "spark", "streams"},
            ),
        ):
            watched = Watched(browser.new_page(viewport={"width": WIDTH, "height": 700}), console.url)
            page = watched.page
            page.goto(console.link)
            if console is stage:
                page.wait_for_timeout(25_000)
            for address in addresses:
                page.goto(f"{console.url}/#/anatomy{address}")
                page.reload()
                page.wait_for_selector(".picture .lane")
                for scene in sorted(wanted):
                    if draw(page, scene):
                        take(page, f"anatomy-{scene}", folder)
                        taken.add(scene)
            assert watched.wrong == []
    assert taken == ANATOMY.keys()


#: The subjects that tell most, where there are several.
SUBJECTS = {"producer": "orders", "consumer": "reader-1", "exchange": "reader-1", "log": "totals-0"}
#: The step of a film at which the fewest lanes are empty: of fifty, and not of its beginning.
FULLEST = """async ([scene, recording, subject]) => {
    const words = new URLSearchParams({ recording, subject });
    const which = `api/anatomy/${scene}?${words}`;
    const { steps } = await (await fetch(`${which}&step=0`)).json();
    let best = [-1, 0];
    for (let part = 10; part <= 60; part++) {
        const step = Math.floor((steps - 1) * part / 60);
        const { picture } = await (await fetch(`${which}&step=${step}`)).json();
        const full = picture.lanes.filter((lane) => lane.boxes.length).length;
        if (full > best[0]) best = [full, step];
    }
    return best[1]; }"""


def draw(page: Page, scene: str) -> bool:
    """Show a scene at a step that tells something; False where this film has none of it."""
    name = TEXTS[f"scene.{scene}"]
    tab = page.locator("main button.tab", has_text=re.compile(f"^{name}$"))
    if tab.count() == 0:
        return False
    tab.click()
    page.wait_for_selector(".picture .lane")
    choice = page.get_by_label(name, exact=True)
    subjects = choice.locator("option").all_inner_texts()
    subject = SUBJECTS[scene] if SUBJECTS.get(scene) in subjects else subjects[0]
    choice.select_option(subject)
    film = page.evaluate("fetch(`api/anatomy${location.hash.slice(9)}`).then((answer) => answer.json())")
    step = page.evaluate(FULLEST, [scene, film["recording"], subject])
    page.get_by_label("Step", exact=True).fill(str(step))
    page.locator("span.num", has_text=f"{step + 1} of").wait_for()
    return True
