"""What each supported setting does here, as people read it: in the reference, and where a broker describes itself."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def meanings() -> dict[str, str]:
    """Return what each setting does, by `name` or `section/name`."""
    lines = (files("barnabas.config") / "setting_meanings.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines if line and not line.startswith("#"))
    return {name: text for name, text in pairs}  # noqa: C416  mypy sees pairs


def meaning(section: str, name: str) -> str | None:
    """Return what a setting does in a section; None for one that is not supported."""
    known = meanings()
    return known.get(f"{section}/{name}") or known.get(name)
