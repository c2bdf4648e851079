"""What every home of the metadata must do."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.metadata.metadata_store import Change, Changes, MetadataStore, Operation, VersionConflictError
from barnabas.broker.metadata.sqlite_store import SqliteStore
from barnabas.errors import KafkaStorageError


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    made: MetadataStore = MemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "m.sqlite"))
    yield made
    made.close()


def test_a_new_store_is_empty_and_at_version_0(store: MetadataStore) -> None:
    assert store.read() == Changes(0, True, [])


def test_what_is_applied_is_read_with_its_version(store: MetadataStore) -> None:
    assert store.apply([Operation("b", {"n": 1}), Operation("a", {"n": 2})]) == 1
    assert store.apply([Operation("b", {"n": 3})]) == 2
    assert store.read() == Changes(2, True, [Change("a", {"n": 2}, 1), Change("b", {"n": 3}, 2)])


def test_a_reader_that_was_there_before_gets_only_what_changed(store: MetadataStore) -> None:
    store.apply([Operation("a", {"n": 1}), Operation("b", {"n": 1})])
    store.apply([Operation("a", None), Operation("c", {})])
    assert store.read(1) == Changes(2, False, [Change("a", None, 2), Change("c", {}, 2)])
    assert store.read(2) == Changes(2, False, [])


def test_deleted_records_are_not_in_a_full_read(store: MetadataStore) -> None:
    store.apply([Operation("a", {})])
    store.apply([Operation("a", None)])
    assert store.read() == Changes(2, True, [])


def test_an_expectation_that_does_not_hold_applies_nothing(store: MetadataStore) -> None:
    store.apply([Operation("a", {"n": 1})])
    with pytest.raises(VersionConflictError, match="'a' is at version 1, not at 7"):
        store.apply([Operation("b", {}), Operation("a", {"n": 2})], {"b": 0, "a": 7})
    assert store.read() == Changes(1, True, [Change("a", {"n": 1}, 1)])
    assert store.apply([Operation("a", {"n": 2})], {"a": 1}) == 2


def test_0_expects_that_there_is_no_record(store: MetadataStore) -> None:
    store.apply([Operation("a", {})], {"a": 0})
    with pytest.raises(VersionConflictError):
        store.apply([Operation("a", {})], {"a": 0})
    store.apply([Operation("a", None)])
    store.apply([Operation("a", {})], {"a": 0})


def test_subscribers_are_told_each_change_until_they_leave(store: MetadataStore) -> None:
    told: list[Changes] = []
    leave = store.subscribe(told.append)
    store.apply([Operation("a", {"n": 1})])
    leave()
    store.apply([Operation("a", {"n": 2})])
    assert told == [Changes(1, False, [Change("a", {"n": 1}, 1)])]


def test_what_a_caller_does_to_a_value_later_changes_nothing(store: MetadataStore) -> None:
    value = {"list": [1]}
    store.apply([Operation("a", value)])
    value["list"].append(2)
    read = store.read().changes[0].value
    assert read == {"list": [1]}
    assert read is not None
    read["list"].append(3)
    assert store.read().changes[0].value == {"list": [1]}


def test_sqlite_keeps_everything_across_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "new directory" / "m.sqlite")
    first = SqliteStore(path)
    first.apply([Operation("topics/ä", {"deep": {"n": [1, None, "x"]}})])
    first.close()
    second = SqliteStore(path)
    assert second.read() == Changes(1, True, [Change("topics/ä", {"deep": {"n": [1, None, "x"]}}, 1)])
    second.close()


def test_sqlite_is_one_file_at_rest_beside_the_reserve_for_a_full_disk(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "m.sqlite"))
    store.apply([Operation("a", {})])
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.sqlite", "m.sqlite-reserve"]


def test_sqlite_applies_nothing_when_the_database_refuses(tmp_path: Path) -> None:
    path = str(tmp_path / "m.sqlite")
    store = SqliteStore(path)
    other = sqlite3.connect(path, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    store._database.execute("PRAGMA busy_timeout = 10")
    with pytest.raises(KafkaStorageError, match="locked"):
        store.apply([Operation("a", {})])
    other.execute("ROLLBACK")
    other.close()
    assert store.apply([Operation("b", {})]) == 1
    assert [change.key for change in store.read().changes] == ["b"]
    store.close()


def test_sqlite_forgets_old_deletions_and_then_reads_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.metadata.sqlite_store._TOMBSTONES", 10)
    store = SqliteStore(str(tmp_path / "m.sqlite"))
    store._database.execute("PRAGMA synchronous=OFF")
    apply: Callable[[list[Operation]], int] = store.apply
    for number in range(500):
        apply([Operation(f"k{number}", {})])
        apply([Operation(f"k{number}", None)])
    assert store._database.execute("SELECT count(*) FROM record").fetchone()[0] < 20
    assert store.read(5) == Changes(1000, True, [])
    assert not store.read(995).full
    store.close()


def test_sqlite_has_what_was_committed_when_the_process_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from barnabas.broker.metadata.metadata_store import Operation\n"
        "from barnabas.broker.metadata.sqlite_store import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "for number in range(50):\n"
        "    store.apply([Operation(f'k{number}', {'n': number})])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = str(tmp_path / "m.sqlite")
    subprocess.run([sys.executable, "-c", script, path], check=False)
    store = SqliteStore(path)
    assert {change.key: change.value for change in store.read().changes} == {f"k{n}": {"n": n} for n in range(50)}
    store.close()
