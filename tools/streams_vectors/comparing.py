"""Finds the first difference between what Kafka and we make of a case."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from tools.streams_vectors.running import CLASSES


def first_difference(expected: dict[str, Any], ours: dict[str, Any]) -> str | None:
    """Return what differs first, in the order in which things happen; None when nothing does."""
    wanted, got = expected.get("error"), ours.get("error")
    for part in ("describe", "branch_names"):
        if part in expected and part in ours and expected[part] != ours[part]:
            return f"{part}:\n{_lines(expected[part], ours[part])}"
    for index, (want, have) in enumerate(zip(expected.get("outputs", ()), ours.get("outputs", ()), strict=False)):
        for part in ("seen", "records", "internal"):
            first, second = want.get(part, []), have.get(part, [])
            if part == "internal":
                first, second = _by_key(first), _by_key(second)
            if difference := _records(first, second):
                return f"input {index}, {part}: {difference}"
    if difference := _errors(wanted, got):
        return difference
    for part in ("outputs", "describe"):
        if (part in expected) != (part in ours):
            return f"{part}: only {'Kafka' if part in expected else 'we'} got so far"
    if len(expected.get("outputs", ())) != len(ours.get("outputs", ())):
        return f"outputs: {len(expected['outputs'])} expected, {len(ours['outputs'])} here"
    return _state(expected, ours)


def _state(expected: dict[str, Any], ours: dict[str, Any]) -> str | None:
    if expected.get("dropped_records") != ours.get("dropped_records"):
        return f"dropped records: {expected.get('dropped_records')} expected, {ours.get('dropped_records')} here"
    for name, rows in expected.get("stores", {}).items():
        if difference := _records(rows, ours["stores"].get(name, [])):
            return f"store {name}: {difference}"
    for index, (want, have) in enumerate(
        zip(expected.get("query_results", ()), ours.get("query_results", ()), strict=True)
    ):
        problem = have.get("problem") if isinstance(have, dict) else None
        if isinstance(problem, BaseException):
            known = CLASSES.get(want.get("error", "")) if isinstance(want, dict) else None
            if known is None or not isinstance(problem, known):
                return f"query {index}: {want} expected, {problem!r} here"
        elif want != have:
            return f"query {index}: {want} expected, {have} here"
    return None


def _by_key(records: list[Any]) -> list[Any]:
    """Order changelog records by key: between keys Kafka's order is that of a hash, and no matter."""
    return sorted(
        records,
        key=lambda record: (
            record["topic"],
            (record["key_hex"] or "") if record["topic"].endswith("-changelog") else "",
        ),
    )


def _records(wanted: list[Any], got: list[Any]) -> str | None:
    for index, (want, have) in enumerate(zip_longest(wanted, got)):
        if want != have:
            return f"{index} is\n  expected {want}\n  here     {have}"
    return None


def _lines(wanted: Any, got: Any) -> str:
    if not isinstance(wanted, str):
        return f"  expected {wanted}\n  here     {got}"
    for want, have in zip_longest(wanted.splitlines(), got.splitlines()):
        if want != have:
            return f"  expected {want}\n  here     {have}"
    return "  they differ in the ends of lines"


def _errors(wanted: dict[str, Any] | None, got: dict[str, Any] | None) -> str | None:
    if wanted is None or got is None:
        if wanted is got:
            return None
        return f"error: {wanted or 'none'} expected, {_shown(got) if got else 'none'} here"
    if (wanted["stage"], wanted.get("index")) != (got["stage"], got.get("index")):
        return f"error: {wanted} expected, {_shown(got)} here"
    problem: BaseException | None = got["problem"]
    for want in [wanted, *wanted.get("causes", ())]:
        known = CLASSES.get(want["class"])
        if known is None:
            return f"error: nothing stands for {want['class']}"
        if problem is None or not isinstance(problem, known):
            return f"error: {want} expected, {problem!r} here ({_shown(got)})"
        message = want.get("message")
        if message is not None and not _names_java(message, want["class"]) and _message(problem) != message.rstrip():
            return f"error: message\n  expected {message}\n  here     {_message(problem)}"
        problem = problem.__cause__
    return None


def _names_java(message: str, name: str) -> bool:
    return "org.apache." in message or "java." in message or "ClassCast" in message or "ClassCast" in name


def _message(problem: BaseException) -> str:
    return str(problem).split(", stacktrace=")[0].rstrip()


def _shown(got: dict[str, Any]) -> str:
    problem = got["problem"]
    chain = []
    while problem is not None:
        chain.append(repr(problem))
        problem = problem.__cause__
    return f"{got['stage']} {got.get('index', '')}: {' from '.join(chain)}"
