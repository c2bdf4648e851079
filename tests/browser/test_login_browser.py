"""Logging in to the console in a real browser: by keyboard, in both languages and colours, on a phone; and out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas import AdminClient, NewTopic, Producer
from barnabas.admin import AclBinding, AclOperation, ResourceType
from tests.support.browser import Watched, chromium, violations
from tests.support.people_cluster import LOGIN, Cluster, add_people, barnabas_cluster, password
from tests.support.running_console import RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("starlette")
pytest.importorskip("pyarrow")

ATTACK = "<img src=x onerror=alert(1)>"
#: What Chromium itself notes of a login that is refused.
REFUSED = "console: Failed to load resource: the server responded with a status of 401 (Unauthorized)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with barnabas_cluster(tmp_path_factory.mktemp("login")) as running:
        with AdminClient(bootstrap_servers=running.inner) as admin:
            add_people(admin)
            admin.create_topics([NewTopic("open-topic", 1), NewTopic("hidden-topic", 1)])
            admin.create_acls([AclBinding(ResourceType.TOPIC, "open-topic", "User:reader", AclOperation.READ)])
        with Producer(bootstrap_servers=running.inner) as producer:
            for number in range(20):
                producer.send("open-topic", b'{"n": %d}' % number)
        yield running


@pytest.fixture(scope="module")
def console(cluster: Cluster) -> Iterator[RunningConsole]:
    with RunningConsole(cluster.servers, *LOGIN) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def watched(browser: Browser, console: RunningConsole) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1200, "height": 800}, locale="en-GB")
    found = Watched(context.new_page(), console.url)
    yield found
    assert found.wrong == []
    context.close()


def log_in(page: Page, user: str) -> None:
    """By keyboard alone, from a page that has just been opened."""
    page.get_by_role("heading", level=1, name="Log in").wait_for()
    page.locator("input[name=user]:focus").wait_for()
    page.keyboard.type(user)
    page.keyboard.press("Tab")
    page.keyboard.type(password(user))
    page.keyboard.press("Enter")
    page.locator("[data-user]").wait_for()


def test_one_logs_in_by_keyboard_and_comes_to_where_the_link_led(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.goto(f"{console.url}/#/topics")
    log_in(page, "reader")
    page.locator("[data-count]").get_by_text("1 of 1 topics").wait_for()

    assert page.inner_text("[data-user]") == "reader"
    assert page.url == f"{console.url}/#/topics"
    assert "hidden" not in page.content()
    for kept in (page.content(), page.url, page.evaluate("JSON.stringify(localStorage) + document.cookie")):
        assert "hunter2" not in kept


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wrong_password_is_said_and_forgotten(watched: Watched, console: RunningConsole, scheme: str) -> None:
    page = watched.page
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(console.url)
    page.get_by_role("heading", level=1, name="Log in").wait_for()
    assert violations(page) == []
    page.get_by_label("User").fill(ATTACK)
    page.get_by_label("Password").fill("hunter3")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").get_by_text("The cluster does not let in this user with this password.").wait_for()

    assert watched.take_wrong() == REFUSED
    assert (page.get_by_label("User").input_value(), page.get_by_label("Password").input_value()) == (ATTACK, "")
    assert "hunter3" not in page.content() + page.url
    assert violations(page) == []


def test_the_page_speaks_korean_and_fits_a_phone(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(console.url)
    page.locator("header select").first.select_option("ko")
    page.get_by_role("heading", level=1, name="로그인").wait_for()
    page.get_by_label("비밀번호").wait_for()

    assert page.title().startswith("로그인 ")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    page.get_by_label("방식").select_option("OAUTHBEARER")
    page.get_by_label("토큰").wait_for()
    assert page.get_by_label("사용자").count() == 0


def test_after_logging_out_nothing_is_left_in_any_tab(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.goto(f"{console.url}/#/overview")
    log_in(page, "reader")
    page.goto(f"{console.url}/#/topics")
    page.get_by_role("link", name="open-topic").wait_for()
    other = page.context.new_page()
    other.goto(f"{console.url}/#/overview")
    other.wait_for_selector("[data-health]")
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", level=1, name="Log in").wait_for()

    # Its stream has ended with the session.
    other.get_by_role("heading", level=1, name="Log in").wait_for()
    page.go_back()
    page.get_by_role("heading", level=1, name="Log in").wait_for()
    assert "open-topic" not in page.content() + other.content()


def test_what_a_person_has_saved_is_that_persons(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.goto(f"{console.url}/#/topic/open-topic?tab=records")
    log_in(page, "reader")
    saved = page.get_by_label("Saved readings")
    saved.wait_for()
    page.locator("[data-search]").fill("value.n > 15")
    saved.select_option("save")
    page.get_by_role("dialog").get_by_label("Name").fill("late ones")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert saved.locator("option").all_inner_texts()[1] == "late ones"
    page.get_by_role("button", name="Log out").click()
    log_in(page, "root")
    page.get_by_label("Saved readings").wait_for()

    assert "late ones" not in page.content()
    page.get_by_role("button", name="Log out").click()
    log_in(page, "reader")
    page.get_by_label("Saved readings").select_option(label="late ones")
    assert page.locator("[data-search]").input_value() == "value.n > 15"
