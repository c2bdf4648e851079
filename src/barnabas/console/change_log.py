"""`ChangeLog`: who asked the console to change what, and what came of it; without records, passwords and values."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from barnabas.console.sessions import STRANGER, Who

log = logging.getLogger("barnabas.console")

#: So many changes are shown; the file has all.
REMEMBERED = 1000
#: A longer body is not looked into: it holds records.
LARGEST_BODY = 64 * 1024
_LONGEST_TEXT = 200

#: Fields that say what is changed, and never hold what is written or a secret.
_KEPT = frozenset({
    "group", "to", "shiftBy", "topics", "members", "name", "partitions", "replicationFactor", "total", "unset", "id",
    "topic", "partition", "startOffset", "principal", "resourceType", "resourceName", "patternType", "operation",
    "permission", "host", "user", "mechanism", "entity", "quota", "subject", "version", "compatibility", "type",
})  # fmt: skip
#: Fields of which the names are kept only: a setting may be a password.
_NAMES_ONLY = frozenset({"set", "settings"})


class Change(TypedDict):
    """A change that was asked for: when (epoch ms), by which login and user, from where, what, and its HTTP status.

    `user` is None where the login was by a link.
    """

    at: int
    login: int
    user: str | None
    address: str
    path: str
    fields: dict[str, Any]
    status: int


class ChangeLog:
    """The newest changes; all of them go to a file as JSON lines where one is given.

    Raises `OSError` when the file cannot be opened; one that cannot be written later is a warning for each change.
    """

    def __init__(self, now_ms: Callable[[], int], path: Path | None = None) -> None:
        self._now_ms = now_ms
        self._path = path
        self._newest: deque[Change] = deque(maxlen=REMEMBERED)
        if path is not None:
            path.open("a").close()

    def add(self, who: Who, address: str, path: str, body: bytes, status: int) -> None:
        """Note a change; one that was only tried (`dryRun`) is none. A stranger's is logged only."""
        fields = fields_of(body)
        if fields is None:
            return
        if who == STRANGER:
            # One who can reach the port must not be able to fill the disk.
            log.info("%s asked for %r without a login: %s", address, path[:_LONGEST_TEXT], status)
            return
        change: Change = {
            "at": self._now_ms(),
            "login": who.number,
            "user": who.user,
            "address": address,
            "path": path,
            "fields": fields,
            "status": status,
        }
        self._newest.appendleft(change)
        line = json.dumps(change, ensure_ascii=False)
        log.info("%s", line)
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(line + "\n")
            except OSError as problem:
                log.warning("%s: the change above could not be written: %s", self._path, problem.strerror)

    def newest(self, user: str | None = None) -> list[Change]:
        """Return what is remembered of a user, or of all who came by a link, the newest first."""
        return [change for change in self._newest if change["user"] == user]


def fields_of(body: bytes) -> dict[str, Any] | None:
    """Return what of a body may be kept; None for one that only tries a change."""
    if len(body) > LARGEST_BODY:
        return {}
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    if document.get("dryRun") is True:
        return None
    found = {name: _bounded(value) for name, value in document.items() if name in _KEPT and value not in (None, "", [])}
    for name in _NAMES_ONLY & document.keys():
        if isinstance(document[name], dict):
            found[name] = sorted(map(str, document[name]))
    return found


def _bounded(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
