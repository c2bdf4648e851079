"""The groups that have offsets in a topic are known without a look at all groups."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.broker.groups.offsets.offset_store import OffsetStore

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "pending", "remove", "commit", "abort", "forget"]), NAMES, NAMES))


def scanned(store: OffsetStore, topic: str) -> set[str]:
    """The groups with an offset in the topic, by looking at all of them."""
    held: list[Any] = [store._committed, *store._pending.values()]
    return {group for groups in held for group, topics in groups.items() if topic in topics}


@given(STEPS)
def test_the_index_is_what_a_scan_finds(steps: list[tuple[str, str, str]]) -> None:
    store = OffsetStore()
    for number, (step, group, topic) in enumerate(steps):
        offset = OffsetAndMetadata(number, -1, "", 0)
        producer_id = number % 2
        if step == "put":
            store.put_written(group, topic, producer_id, offset, number)
        elif step == "pending":
            store.put_pending_written(producer_id, group, (topic, producer_id), offset, number)
        elif step == "remove":
            store.remove(group, topic, producer_id)
        elif step == "forget":
            store.forget_group(group)
        else:
            store.end_transaction(producer_id, step == "commit", {group})
        for name in ("a", "b", "c"):
            assert set(store.groups_with(name)) == scanned(store, name)
    assert set(store._groups_of_topics) == {name for name in ("a", "b", "c") if scanned(store, name)}
