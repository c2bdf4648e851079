"""Every screen while each request to the console fails: it says so, in the reader's language, and stays whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from barnabas import AdminClient, Broker, NewTopic
from tests.browser.test_accessibility import PLACES, checkpoint
from tests.support.browser import Watched, chromium
from tests.support.running_console import RunningConsole
from tests.support.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

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
#: The stream of events, and what only adds to a choice that is there without it.
WITHOUT_WAITING = {"/api/events", "/api/topics/flights/forms"}
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
        speak(found.page, "ko")
        yield found


def speak(page: Page, language: str) -> None:
    """Have the page speak to a reader of this language, from now on."""
    page.get_by_role("banner").locator("select").first.select_option(language)
    page.locator(f"html[lang={language}]").wait_for()


@pytest.mark.parametrize(("failure", "language"), CASES)
def test_a_screen_whose_requests_fail_says_so(
    watched: Watched, console: RunningConsole, failure: str, language: str
) -> None:
    from playwright.sync_api import TimeoutError as NotThere

    page = watched.page
    speak(page, language)
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
        speak(page, "ko")
    thrown = [line for line in watched.wrong if not line.startswith("console: Failed to load resource")]
    watched.wrong.clear()

    assert silent == []
    assert [line for line in thrown if line.startswith("error")] == []


def visit(watched: Watched, console: RunningConsole, place: str) -> None:
    """Open a screen anew, with nothing left of the one before."""
    watched.page.goto("about:blank")
    watched.page.goto(f"{console.url}/#/{place}")


@pytest.fixture(scope="module")
def asked(watched: Watched, console: RunningConsole) -> dict[str, set[str]]:
    """By screen: what it asks the console for, but for its session."""
    found: dict[str, set[str]] = {place: set() for place in sorted(PLACES)}
    for place, paths in found.items():

        def note(request: Request, paths: set[str] = paths) -> None:
            path = urlsplit(request.url).path
            if path.startswith("/api/") and path != "/api/session":
                paths.add(path)

        watched.page.on("request", note)
        visit(watched, console, place)
        watched.page.wait_for_selector("main h1")
        watched.page.wait_for_timeout(300)
        watched.page.remove_listener("request", note)
    return found


@contextmanager
def failing(watched: Watched, path: str, fail: Callable[[Route], None]) -> Iterator[None]:
    """Meanwhile one request fails, all others are answered."""
    is_that = re.compile(re.escape(path) + r"(\?|$)")
    watched.page.route(is_that, fail)
    try:
        yield
    finally:
        watched.page.unroute_all(behavior="ignoreErrors")
        watched.page.goto("about:blank")
        watched.wrong[:] = [line for line in watched.wrong if not line.startswith("console: Failed to load")]


@pytest.mark.parametrize(
    "failure", [each if each == "500" else pytest.param(each, marks=pytest.mark.slow) for each in FAILURES]
)
def test_each_request_that_fails_alone_is_told_of_on_its_screen(
    watched: Watched, console: RunningConsole, asked: dict[str, set[str]], failure: str
) -> None:
    from playwright.sync_api import TimeoutError as NotThere

    page, silent = watched.page, []
    for place, path in [(place, path) for place, paths in asked.items() for path in sorted(paths)]:
        with failing(watched, path, FAILURES[failure]):
            visit(watched, console, place)
            # That the stream of events is away is told above each screen, and is the word for nothing else.
            told = "[data-away]" if path == "/api/events" else "main [role=alert]:not([data-away])"
            try:
                page.locator(told).first.wait_for(timeout=5_000)
            except NotThere:
                silent.append((place, path, page.locator("main").inner_text()[:80]))
    thrown, watched.wrong[:] = [*watched.wrong], []

    assert silent == []
    assert thrown == []


@pytest.mark.slow
def test_each_request_that_is_never_answered_is_told_to_be_waited_for(
    watched: Watched, console: RunningConsole, asked: dict[str, set[str]]
) -> None:
    page, silent = watched.page, []
    page.clock.install()
    for place, path in [(place, path) for place, paths in asked.items() for path in sorted(paths - WITHOUT_WAITING)]:
        with failing(watched, path, lambda route: None):
            visit(watched, console, place)
            page.wait_for_selector("main [role=status], main h1")
            page.clock.fast_forward(11_000)
            if not page.locator("[data-slow=true]").count():
                silent.append((place, path, page.locator("main").inner_text()[:80]))

    assert silent == []


@pytest.mark.parametrize("failure", FAILURES)
def test_a_console_whose_session_is_not_told_says_so(watched: Watched, console: RunningConsole, failure: str) -> None:
    with failing(watched, "/api/session", FAILURES[failure]):
        visit(watched, console, "overview")
        said = watched.page.get_by_role("alert").inner_text()

    assert re.search(LETTERS["ko"], said), said


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
