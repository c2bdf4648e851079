"""ACLs, users and quotas changed in a real browser, with names that are meant to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas import AdminClient, Broker
from tests.support.browser import Watched, chromium, violations
from tests.support.running_console import RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("starlette")

ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture(scope="module")
def watched(broker: Broker) -> Iterator[Watched]:
    with RunningConsole(broker.bootstrap_servers) as console, chromium() as browser:
        found = Watched(browser.new_context(locale="en-GB").new_page(), console.url)
        found.page.goto(console.link)
        # The keys are listened to from here on.
        found.page.get_by_role("banner").wait_for()
        yield found


@pytest.fixture
def page(watched: Watched) -> Iterator[Page]:
    watched.page.goto(f"{watched.page.url.partition('#')[0]}#/access")
    watched.page.get_by_role("heading", level=1, name="Access").wait_for()
    watched.wrong.clear()
    yield watched.page
    assert watched.wrong == []


def test_an_acl_is_added_and_removed(page: Page, broker: Broker) -> None:
    page.locator("[data-new]").wait_for()
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Principal").fill(f"User:{ATTACK}")
    dialog.get_by_label("Permission").select_option("DENY")
    dialog.get_by_label("Resource", exact=True).fill("orders")
    assert violations(page) == []
    dialog.get_by_role("button", name="Add an ACL").click()
    page.get_by_role("cell", name=f"User:{ATTACK}", exact=True).wait_for()
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        [found] = admin.describe_acls()
        assert (found.principal, found.permission_type.name) == (f"User:{ATTACK}", "DENY")
        page.get_by_role("button", name="Remove the ACL").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove the ACL").click()
        page.get_by_text("There are no ACLs").wait_for()
        assert admin.describe_acls() == []


def test_a_user_is_added_and_deleted_and_its_password_is_not_shown(page: Page) -> None:
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User", exact=True).fill("alice")
    dialog.get_by_label("Password").fill("hunter2")
    dialog.get_by_role("button", name="Add a user").click()
    page.get_by_role("cell", name="alice", exact=True).wait_for()
    assert "hunter2" not in page.content()
    page.get_by_role("button", name="Delete the user alice SCRAM-SHA-512").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Delete the user").is_disabled()
    dialog.locator("input").fill("alice")
    dialog.get_by_role("button", name="Delete the user").click()
    page.get_by_text("There are no users of SCRAM").wait_for()


def test_a_quota_is_set_and_the_words_are_there_in_korean(page: Page) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/brokers")
    page.get_by_role("button", name="Set a quota").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name (empty: the default)").fill("alice")
    dialog.get_by_label("Value (empty: remove it)").fill("1000000")
    dialog.get_by_role("button", name="Set a quota").click()
    page.get_by_role("cell", name="user alice").wait_for()
    page.locator("header select").first.select_option("ko")
    page.get_by_role("button", name="쿼터 설정").wait_for()
    page.locator("header select").first.select_option("en")
    page.get_by_role("button", name="Set a quota").wait_for()
