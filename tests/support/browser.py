"""A real browser for tests: the system's Chromium, driven by Playwright; absent, tests are skipped and say so."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: No test waits that long on a machine that works; one that is many times slower is no failure.
TIMEOUT_MS = 120_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no real browser here: pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no real browser here: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def violations(page: Page) -> list[str]:
    """What axe-core has against a page: the rule, what breaks it, and why."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in axe.Axe().run(page).response["violations"]
        for node in rule["nodes"]
    ]


class Watched:
    """A page, and all that must not happen on it: errors, dialogs, requests to other places."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", lambda message: message.type == "error" and self.wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._check(request.url, origin))

    def take_wrong(self) -> str:
        """What the browser noted, which may come after what the page shows; no longer wrong then."""
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while not self.wrong and time.monotonic() < deadline:
            self.page.wait_for_timeout(20)
        noted, self.wrong[:] = set(self.wrong), []
        [said] = noted
        return said

    def _check(self, url: str, origin: str) -> None:
        if not url.startswith((f"{origin}/", "data:,")):
            self.wrong.append(f"request: {url}")
