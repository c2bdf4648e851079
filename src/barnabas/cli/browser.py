"""Open a page in the browser of the person who has typed a command, where there is one."""

from __future__ import annotations

import os
import sys
import threading


def is_there() -> bool:
    """Whether a person sees this output, on a screen that can show a browser.

    $BROWSER is taken at its word. Without it a browser of the terminal would take the terminal away from the command.
    """
    if not sys.stdout.isatty():
        return False
    has_screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(os.environ.get("BROWSER") or has_screen)


def show(link: str) -> None:
    """Open a link, without waiting for it; where that fails, the link has been printed."""
    if is_there():
        threading.Thread(target=_open, args=(link,), name="browser", daemon=True).start()


def _open(link: str) -> None:
    import webbrowser

    try:
        webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return
