"""The pictures of the console in the documentation, made of the running console: `BARNABAS_PICTURES=docs/images`.

Without that they go to a temporary folder, and the test holds that each screen can be shown with real work on it.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from tests.support.browser import Watched, chromium
from tests.support.running_console import RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("starlette")
pytestmark = pytest.mark.slow

AIRPORTS = ("EWR", "JFK", "LGA")
CARRIERS = ("UA", "B6", "DL", "AA", "EV")
ROOT = Path(__file__).parents[2]


class Screen(NamedTuple):
    """A picture: its file, the place, and what is there when the screen is drawn."""

    name: str
    place: str
    drawn: str
    is_dark: bool = False


SCREENS = (
    Screen("console-overview", "overview", "[data-health]"),
    Screen("console-records", "topic/flights?tab=records", "table", is_dark=True),
    Screen("console-group", "group/departures", "table"),
)
#: The scenes of a seed's recording, and at which event its film stands.
FILMS = (("anatomy-producer", 0, 141), ("anatomy-group", 2, 20))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = os.environ.get("BARNABAS_PICTURES")
    return ROOT / wanted if wanted else tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def console() -> Iterator[RunningConsole]:
    """Flights of a day, read by one group that is behind and one that is not."""
    source = Random(2013)
    with Broker() as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("flights", 3), NewTopic("departures", 1), NewTopic("weather", 1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(900):
                origin, carrier, delay = source.choice(AIRPORTS), source.choice(CARRIERS), source.randrange(-9, 90)
                value = f'{{"origin": "{origin}", "carrier": "{carrier}", "flight": {number}, "delay": {delay}}}'
                producer.send("flights", value.encode(), origin.encode())
                producer.send("weather", b'{"wind": %d}' % source.randrange(40), origin.encode())
        for group, share in (("departures", 0.9), ("archive", 0.2)):
            with Consumer(group_id=group, bootstrap_servers=broker.bootstrap_servers) as consumer:
                consumer.assign([("flights", number) for number in range(3)])
                ends = consumer.end_offsets(consumer.assignment())
                consumer.commit({partition: int(end * share) for partition, end in ends.items()})
        with RunningConsole(broker.bootstrap_servers) as running:
            yield running


def take(page: Page, name: str, folder: Path) -> None:
    """Keep a picture, with a palette, for pages load faster so; one colour alone would be none."""
    from PIL import Image

    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
    assert len(picture.getcolors()) > 8
    picture.save(folder / f"{name}.png", optimize=True)


def test_the_screens_of_the_console(console: RunningConsole, folder: Path) -> None:
    with chromium() as browser:
        watched = Watched(browser.new_context(viewport={"width": 1100, "height": 640}).new_page(), console.url)
        page = watched.page
        page.goto(console.link)
        for screen in SCREENS:
            page.emulate_media(color_scheme="dark" if screen.is_dark else "light")
            page.goto(f"{console.url}/#/{screen.place}")
            page.wait_for_selector(screen.drawn)
            take(page, screen.name, folder)
        assert watched.wrong == []


def test_the_films_of_the_anatomy(tmp_path: Path, folder: Path) -> None:
    recording = tmp_path / "seed-3.jsonl"
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--seed", "3", "--record", str(recording)]
    subprocess.run(command, check=True, capture_output=True)
    with RunningConsole(None, str(tmp_path)) as console, chromium() as browser:
        watched = Watched(browser.new_context(viewport={"width": 1100, "height": 700}).new_page(), console.url)
        page = watched.page
        page.goto(console.link)
        for name, scene, step in FILMS:
            page.locator("main button.tab").nth(scene).click()
            page.wait_for_selector(".picture")
            page.locator("input[type=range]").fill(str(step))
            take(page, name, folder)
        assert watched.wrong == []
