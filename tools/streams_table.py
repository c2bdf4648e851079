"""The page of Kafka Streams' classes and methods, and where they are here: `python -m tools.streams_table --write`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from tools.java_streams import stored
from tools.streams_comparison import Entry, class_of, entries, snake

PATH = Path(__file__).parents[1] / "docs/reference/streams.md"

_HEAD = """# Kafka Streams: what is here
Made from the code by `python -m tools.streams_table --write`; a test fails when it is stale. It has every public class
of `org.apache.kafka.streams` in Apache Kafka {version} and its packages `kstream`, `processor`, `processor.api` and
`state`; tools/java_streams.json has their methods, as javap tells, and a test looks for each of them here. Names follow
from Java's: `flatMapValues` is `flat_map_values`, `as` is `as_`, `TopologyException` is `TopologyError`. The
[guide](../guide/streams.md) says how they are used.

| Java | here | what differs |
| --- | --- | --- |
"""


def table() -> str:
    """Return the page."""
    rows = [_row(java, list(found)) for java, found in groupby(entries(), key=_class)]
    alone = [java for java, methods in stored()["classes"].items() if not methods and class_of(java) is not None]
    rows += [_row(java, []) for java in alone]
    return _HEAD.format(version=stored()["version"]) + "".join(sorted(rows))


def _class(entry: Entry) -> str:
    classes = stored()["classes"]
    return entry.java if entry.java in classes else entry.java.rpartition(".")[0]


def _row(java: str, found: list[Entry]) -> str:
    cls = class_of(java)
    if cls is None:
        return f"| {_short(java)} | | {found[0].reason} |\n"
    notes: dict[str, list[str]] = {}
    for entry in found:
        method = entry.java.rpartition(".")[2]
        if entry.here is None:
            notes.setdefault(str(entry.reason), []).append(method)
        elif entry.here.rstrip("_") != snake(method):
            notes.setdefault(f"`{entry.here}`", []).append(method)
    differs = "; ".join(f"{', '.join(methods)}: {why}" for why, methods in notes.items())
    return f"| {_short(java)} | `{cls.__name__}` | {differs} |\n"


def _short(java: str) -> str:
    return java.replace("$", ".")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
