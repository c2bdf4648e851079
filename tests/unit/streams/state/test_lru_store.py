"""A store of the entries that were used last evicts the others, in its changelog too, as Kafka's MemoryLRUCache."""

from typing import Any

import pytest

from barnabas.streams import Serdes
from barnabas.streams.config import StreamsConfig
from barnabas.streams.queries.store_view import ViewContext
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.store_factory import make_store
from barnabas.streams.topology.stores import Stores


@pytest.fixture
def store() -> Any:
    builder = Stores.key_value_store_builder(Stores.lru_map("recent", 3), Serdes.string(), Serdes.string())
    made = make_store(builder, MemoryBackend())
    context: Any = ViewContext(StreamsConfig({"application.id": "app"}), "app-recent-changelog")
    context.record_context = RecordContext("topic", 0, 0, 5, [])
    made.init(context)
    return made


def keys(store: Any) -> list[str]:
    return [key for key, _ in store.all()]


def test_what_was_used_longest_ago_is_evicted_and_its_deletion_logged(store: Any) -> None:
    for key in "abc":
        store.put(key, key)
    assert store.get("a") == "a"
    store.put("d", "d")

    assert keys(store) == ["a", "c", "d"]
    assert [(change.key, change.value) for change in store.changes()][-2:] == [(b"d", b"d"), (b"b", None)]


def test_a_deleted_entry_makes_room(store: Any) -> None:
    for key in "abc":
        store.put(key, key)
    assert store.delete("b") == "b"
    store.put("d", "d")

    assert keys(store) == ["a", "c", "d"]


def test_restored_entries_count_as_used_and_are_not_logged_again(store: Any) -> None:
    store.restore([ChangelogRecord(b"%d" % number, b"x", 0, []) for number in range(4)])
    store.restore([ChangelogRecord(b"2", None, 0, [])])
    assert keys(store) == ["1", "3"]
    assert store.changes() == []

    store.put("d", "d")
    store.put("e", "e")
    assert keys(store) == ["3", "d", "e"]
