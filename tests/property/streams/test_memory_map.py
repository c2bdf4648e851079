"""A map in memory is a sorted dict, whatever is put, deleted and asked for in between."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from barnabas.streams.state import memory
from barnabas.streams.state.memory import MemoryMap

KEYS = st.integers(0, 400).map(lambda number: number.to_bytes(2, "big"))
BOUNDS = st.none() | KEYS
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("put many"), st.integers(0, 300)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("range"), BOUNDS, BOUNDS, st.booleans(), st.booleans()),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from([1, 2, 5, 512]))
def test_a_memory_map_is_a_sorted_dict(steps, length):
    with patch.object(memory, "_LENGTH", length):  # short lists become two, and empty, soon
        follow(steps)


def test_a_list_that_lost_its_keys_goes_and_its_neighbours_take_new_ones():
    keys = [b"%05d" % number for number in range(5000)]
    found = MemoryMap()
    assert list(found.range(None, None)) == []
    for key in keys:
        found.load(key, b"")
    for key in keys[:4500]:
        found.delete(key)
    found.put(keys[7], b"again")

    assert found.entries(b"", keys[4501]) == [(keys[7], b"again"), (keys[4500], b""), (keys[4501], b"")]
    assert [key for key, _ in found.range(keys[4998], None, reverse=True)] == keys[4999:4997:-1]


def follow(steps):
    found, expected = MemoryMap(), {}
    for number, (step, *arguments) in enumerate(steps):
        value = b"%d" % number
        if step == "put":
            found.put(arguments[0], value)
            expected[arguments[0]] = value
        elif step == "put many":
            for at in range(arguments[0], arguments[0] + 100):
                key = (at * 37 % 401).to_bytes(2, "big")
                found.put(key, value)
                expected[key] = value
        elif step == "delete":
            assert found.delete(arguments[0]) == expected.pop(arguments[0], None)
        else:
            first, last, reverse, open_end = arguments
            inside = [
                (key, kept)
                for key, kept in sorted(expected.items(), reverse=reverse)
                if (first is None or key >= first) and (last is None or key < last or (key == last and not open_end))
            ]
            assert list(found.range(first, last, reverse, open_end)) == inside
        assert len(found) == len(expected)
