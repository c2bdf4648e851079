"""Every screen while each request to the console fails: it says so, in the reader's language, and stays whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas import AdminClient, Broker, NewTopic
from tests.browser.test_accessibility import PLACES, checkpoint
from tests.support.browser import Watched, chromium
from tests.support.running_console import RunningConsole
from tests.support.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytest.importorskip("starlette")


def _refuse(route: Route) -> None:
    document = {"error": "ClusterAuthorizationError", "message": "no"}
    route.fulfill(status=403, content_type="application/json", body=json.dumps(document))


#: What may come instead of an answer.
FAILURES: dict[str, Callable[[Route], None]] = {
    "500": lambda route: route.fulfill(status=500, content_type="text/plain", body="Internal Server Error"),
    "403": _refuse,
    "a proxy's page": lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>Bad Gateway</h1>"),
    "cut off": lambda route: route.fulfill(status=200, content_type="application/json", body='{"topics": ['),
    "nothing": lambda route: route.abort("connectionrefused"),
}
#: Letters of the language that only its own sentences have.
LETTERS = {"en": "[a-z]{3}", "ko": "[가-힣]{2}"}
#: Those that differ most are run each time.
SELDOM = {"403", "a proxy's page"}
CASES = [
    pytest.param("500", "en", marks=pytest.mark.slow),
    *(pytest.param(each, "ko", marks=[pytest.mark.slow] if each in SELDOM else []) for each in FAILURES),
]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    checkpoint(folder := tmp_path_factory.mktemp("checkpoints") / "delays")
    with Broker() as broker, SchemaRegistry() as registry:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("flights", 2)])
        options = ["--schema-registry", registry.url, "--checkpoint", str(folder)]
        with RunningConsole(broker.bootstrap_servers, *options) as running:
            yield running


@pytest.fixture(scope="module")
def watched(console: RunningConsole) -> Iterator[Watched]:
    with chromium() as browser:
        found = Watched(browser.new_context(viewport={"width": 1200, "height": 800}).new_page(), console.url)
        found.page.goto(console.link)
        found.page.wait_for_selector("[data-health]")
        yield found


@pytest.mark.parametrize(("failure", "language"), CASES)
def test_a_screen_whose_requests_fail_says_so(
    watched: Watched, console: RunningConsole, failure: str, language: str
) -> None:
    from playwright.sync_api import TimeoutError as NotThere

    page = watched.page
    page.get_by_role("banner").locator("select").first.select_option(language)
    page.locator(f"html[lang={language}]").wait_for()
    page.route(re.compile(r"/api/(?!session)"), FAILURES[failure])
    silent = []
    try:
        for place in sorted(PLACES):
            page.goto("about:blank")
            page.goto(f"{console.url}/#/{place}")
            try:
                page.get_by_role("alert").first.wait_for(timeout=5_000)
                said = " ".join(page.get_by_role("alert").all_inner_texts())
            except NotThere:
                said = ""
            if not re.search(LETTERS[language], said):
                silent.append((place, said, page.locator("main").inner_text()[:80]))
    finally:
        page.unroute_all(behavior="ignoreErrors")
        page.goto("about:blank")
        page.goto(f"{console.url}/#/overview")
        page.wait_for_selector("[data-health]")
    thrown = [line for line in watched.wrong if not line.startswith("console: Failed to load resource")]
    watched.wrong.clear()

    assert silent == []
    assert [line for line in thrown if line.startswith("error")] == []


def test_what_was_away_comes_back(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.goto(f"{console.url}/#/overview")
    page.route(re.compile("/api/events"), FAILURES["500"])
    page.reload()
    page.wait_for_selector("[data-away]")
    page.unroute_all(behavior="ignoreErrors")

    page.wait_for_selector("[data-health]")
    page.wait_for_selector("[data-away]", state="detached")

    watched.wrong.clear()


def test_a_query_that_has_read_beyond_the_end_of_a_topic_is_told_of(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.goto(f"{console.url}/#/query/delays")

    # The checkpoint is at 5 in both partitions, which are empty.
    page.wait_for_selector("[data-beyond]")

    assert page.locator("td.bad").all_inner_texts() == ["0", "0"]
