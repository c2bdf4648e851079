"""Prints docs/reference/clients.md: what Java's producer and consumers have, and what it is called here.

`python -m tools.clients_table` prints it, `python -m tools.clients_table --write` writes the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from barnabas.config.config_def import OUR_SETTINGS, definitions
from barnabas.config.support import IGNORED, SUPPORTED, subject_of
from tools.clients_comparison import Entry, entries
from tools.java_clients import stored

PATH = Path(__file__).parent.parent / "docs" / "reference" / "clients.md"
_HEAD = """# Producer and consumers, beside Java's
Made from the code by `python -m tools.clients_table --write`; a test fails when it is stale. The classes and methods
are those of Apache Kafka {version}, as javap finds them (tools/java_clients.json), and each name on the right exists
here. Exceptions are in [errors](errors.md), the admin client in [admin](admin.md), Kafka Streams in
[streams](streams.md), what each setting does in [settings](settings.md).
"""
_SETTINGS = """
## Settings
Settings of Java's clients that are not supported: those that only tune Java's own parts are ignored with a warning, the
others are refused unless they have their default.

| setting | of | here |
|---|---|---|
"""


def table() -> str:
    """Return the page."""
    return _HEAD.format(version=stored()["version"]) + "".join(_classes()) + _SETTINGS + "".join(_settings())


def _classes() -> Iterable[str]:
    """Make a section for each class; classes that have none here come last, in a table of their own."""
    without: list[Entry] = []
    for entry in entries():
        is_class = entry.java.startswith(("clients.", "common."))
        if is_class and entry.reason:
            without.append(entry)
        elif is_class:
            yield f"\n## {_short(entry.java)}\n`{entry.here}`\n\n| Java | here |\n|---|---|\n"
        else:
            name = entry.java.rpartition(".")[2]
            yield f"| `{name}` | {f'`{entry.here}`' if entry.here else entry.reason} |\n"
    yield "\n## Classes that have no class here\n| Java | here |\n|---|---|\n"
    for entry in without:
        yield f"| `{_short(entry.java)}` | {entry.reason} |\n"


def _short(java: str) -> str:
    return java.rpartition(".")[2].replace("$", ".")


def _settings() -> Iterable[str]:
    for section in ("producer", "consumer", "admin"):
        ours = {setting["name"] for setting in OUR_SETTINGS[section]}
        for name in sorted(definitions(section).keys.keys() - SUPPORTED[section] - ours):
            is_ignored = name in IGNORED[section]
            what = "ignored with a warning" if is_ignored else f"refused: {subject_of(name)}"
            yield f"| `{name}` | {section} | {what} |\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
