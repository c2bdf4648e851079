"""What is noted of changes: who, what and what came of it; nothing that is written, and no secret."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from barnabas.console.change_log import REMEMBERED, ChangeLog, fields_of
from barnabas.console.sessions import STRANGER, Who

SECRET = "hunter2"


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (body(group="g", to="end", topics=["a"]), {"group": "g", "to": "end", "topics": '["a"]'}),
        (body(set={"ssl.key.password": SECRET, "a": "1"}), {"set": ["a", "ssl.key.password"]}),
        (body(user="u", password=SECRET, mechanism="SCRAM-SHA-256"), {"user": "u", "mechanism": "SCRAM-SHA-256"}),
        (body(key=SECRET, value=SECRET, headers={"h": SECRET}, partition=3), {"partition": 3}),
        (body(subject="s", schema=SECRET, type="AVRO"), {"subject": "s", "type": "AVRO"}),
        (body(group="g", plan=SECRET, confirm=SECRET), {"group": "g"}),
        (body(topic="x" * 1000), {"topic": "x" * 200 + "…"}),
        (body(topic="x", value=SECRET * 20_000), {}),
        (b"no json", {}),
        (b"[1]", {}),
        (b"[" * 50_000, {}),
        (body(group="g", dryRun=True), None),
    ],
)
def test_what_says_what_is_changed_is_kept_and_nothing_else(given: bytes, kept: dict[str, Any] | None) -> None:
    assert fields_of(given) == kept
    assert SECRET not in str(fields_of(given))


def test_the_newest_come_first_and_the_file_has_all(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    log = ChangeLog(lambda: 7, path)
    for number in range(REMEMBERED + 5):
        log.add(Who(1), "127.0.0.1", "/api/topics", body(name=f"t{number}"), 200)
    assert [change["fields"]["name"] for change in log.newest()[:2]] == ["t1004", "t1003"]
    assert len(log.newest()) == REMEMBERED
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == REMEMBERED + 5
    assert lines[0] == {
        "at": 7, "login": 1, "user": None, "address": "127.0.0.1", "path": "/api/topics", "fields": {"name": "t0"},
        "status": 200,
    }  # fmt: skip


def test_a_stranger_fills_no_disk_and_a_full_disk_stops_no_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "changes.jsonl"
    path.parent.mkdir()
    log = ChangeLog(lambda: 7, path)
    with caplog.at_level(logging.INFO, "barnabas.console"):
        log.add(STRANGER, "10.0.0.9", "/api/topics", b"{}", 401)
        assert (log.newest(), path.read_text()) == ([], "")
        path.unlink()
        path.mkdir()
        log.add(Who(1), "127.0.0.1", "/api/topics", body(name="t"), 200)
    assert "10.0.0.9 asked for '/api/topics' without a login: 401" in caplog.text
    assert "could not be written" in caplog.text
    assert len(log.newest()) == 1


def test_a_person_sees_what_that_person_has_changed_and_the_file_has_all(tmp_path: Path) -> None:
    log = ChangeLog(lambda: 7, path := tmp_path / "changes.jsonl")
    for who in (Who(1, "alice"), Who(2, "bob"), Who(3, "alice"), Who(4)):
        log.add(who, "10.0.0.9", "/api/topics", body(name=f"t{who.number}"), 200)

    seen = {user: [change["login"] for change in log.newest(user)] for user in ("alice", "bob", "carol", None)}

    assert seen == {"alice": [3, 1], "bob": [2], "carol": [], None: [4]}
    assert [json.loads(line)["user"] for line in path.read_text().splitlines()] == ["alice", "bob", "alice", None]
