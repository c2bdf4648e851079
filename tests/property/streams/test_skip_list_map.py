"""Iterators over maps that change meanwhile, against the words of Java's ConcurrentSkipListMap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.streams.state.memory import MemoryMap
from barnabas.streams.state.skip_list_map import SkipListIterator, SkipListMap

KEYS = st.binary(max_size=2) | st.sampled_from([b"a", b"b", b"c"])
STEPS = st.lists(
    st.tuples(st.just("put"), KEYS, st.binary(min_size=1, max_size=2))
    | st.tuples(st.just("delete"), KEYS, st.just(b""))
    | st.tuples(st.just("next"), st.just(b""), st.just(b"")),
    max_size=60,
)


@given(STEPS, STEPS, st.none() | KEYS, st.none() | KEYS, st.booleans())
def test_the_next_entry_is_held_and_all_others_are_looked_up(
    before: list[tuple[str, bytes, bytes]],
    steps: list[tuple[str, bytes, bytes]],
    first: bytes | None,
    last: bytes | None,
    reverse: bool,
) -> None:
    model: dict[bytes, bytes] = {}
    sorted_map, memory = SkipListMap[bytes, bytes](), MemoryMap()

    def change(step: str, key: bytes, value: bytes) -> None:
        if step == "put":
            model[key] = value
            sorted_map.put(key, value)
            memory.put(key, value)
        elif step == "delete":
            assert sorted_map.pop(key) == memory.delete(key) == model.pop(key, None)

    def beyond(key: bytes | None) -> tuple[bytes, bytes] | None:
        within = [
            (each, value) for each, value in model.items()
            if (first is None or each >= first) and (last is None or each <= last)
            if key is None or (each < key if reverse else each > key)
        ]  # fmt: skip
        return (max if reverse else min)(within, default=None)

    for step in before:
        change(*step)
    ahead = beyond(None)
    iterators = [SkipListIterator(kept, first, last, reverse) for kept in (sorted_map, memory)]
    for step in [*steps, *[("next", b"", b"")] * 60]:
        if step[0] != "next":
            change(*step)
            continue
        assert [next(entries, None) for entries in iterators] == [ahead, ahead]
        ahead = None if ahead is None else beyond(ahead[0])
    assert len(sorted_map) == len(memory) == len(model)


def test_long_maps_are_iterated_over_across_their_pieces() -> None:
    memory = MemoryMap()
    keys = [b"%05d" % number for number in range(2000)]
    for key in keys:
        memory.put(key, key)

    assert [key for key, _ in SkipListIterator(memory, None, None)] == keys
    assert [key for key, _ in SkipListIterator(memory, None, None, True)] == keys[::-1]
