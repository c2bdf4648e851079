"""When a command opens a browser: for a person at a desktop, never in a pipe or in place of the terminal."""

from __future__ import annotations

import pytest

from barnabas.cli import browser

NAMES = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


@pytest.mark.parametrize(
    ("platform", "variables", "is_terminal", "opens"),
    [
        ("linux", {}, True, False),
        ("linux", {"DISPLAY": ":0"}, True, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True, True),
        ("linux", {"BROWSER": "firefox"}, True, True),
        ("linux", {"BROWSER": "firefox", "DISPLAY": ":0"}, False, False),
        ("darwin", {}, True, True),
        ("darwin", {}, False, False),
    ],
)
def test_a_browser_is_opened_for_a_person_with_a_screen(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], is_terminal: bool, opens: bool
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)

    assert browser.is_there() == opens
