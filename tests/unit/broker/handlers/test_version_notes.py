"""Each handler begins with what every version of its API changed; the schema says which did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import barnabas.protocol
from barnabas.broker.handlers.registry import SERVED

HOME = Path(barnabas.protocol.__file__).parent / "schema"
SCHEMA = json.loads((HOME / "messages.json").read_text(encoding="utf-8"))
NOTES = re.compile(r"^Versions? (\d+)(?:-(\d+))?\.(.*)", re.MULTILINE | re.DOTALL)


def notes(key: int) -> tuple[tuple[int, int], set[int]]:
    """The versions that the handler of an API says to serve, and those of which it says something."""
    module = import_module(f"barnabas.broker.handlers.{SERVED[key][0]}")
    found = NOTES.search(module.__doc__ or "")
    assert found is not None, f"{module.__name__} begins without a word on its versions"
    low, high, text = found.groups()
    return (int(low), int(high or low)), {int(version) for version in re.findall(r"\bv(\d+)\b", text)}


def changed_in(key: int) -> set[int]:
    """The versions in which request or response has another layout than before."""
    found: set[int] = set()
    for message in SCHEMA:
        if message.get("apiKey") != key or message["type"] not in ("request", "response"):
            continue
        highest = bounds(message["validVersions"], 0)[1]
        structs = [message, *message.get("commonStructs", ())]
        for struct in structs:
            for field in fields_of(struct["fields"]):
                for versions in (field["versions"], field.get("nullableVersions", "none")):
                    if versions != "none":
                        first, last = bounds(versions, highest)
                        found |= {first, last + 1}
        if message["flexibleVersions"] != "none":
            found.add(bounds(message["flexibleVersions"], highest)[0])
    return found


def fields_of(fields: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for field in fields:
        yield field
        yield from fields_of(field.get("fields", []))


def bounds(versions: str, highest: int) -> tuple[int, int]:
    first, dash, last = versions.partition("-")
    if versions.endswith("+"):
        return int(versions[:-1]), highest
    return int(first), int(last) if dash else int(first)


@pytest.mark.parametrize("key", SERVED, ids=lambda key: SERVED[key][0])
def test_a_handler_tells_what_its_versions_changed(key: int) -> None:
    (low, high), told = notes(key)

    assert (low, high) == SERVED[key][1:]
    assert {version for version in changed_in(key) if low < version <= high} <= told
    assert all(low <= version <= high for version in told)


def test_no_version_is_passed_over_where_several_are_served() -> None:
    """Also versions that changed no layout are named: an error code or a rule is what they are for."""
    silent = {
        SERVED[key][0]: sorted(set(range(low + 1, high + 1)) - notes(key)[1])
        for key, (_, low, high) in SERVED.items()
        if set(range(low + 1, high + 1)) - notes(key)[1]
    }

    assert silent == {}
