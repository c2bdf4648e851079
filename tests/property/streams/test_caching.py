"""A store behind a cache shows what a store without one shows, whatever is evicted when, and logs the last updates."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from barnabas.streams import Serdes, TimeWindow, Windowed
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.state.key_value import KeyValueStore
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.record_cache import RecordCache
from barnabas.streams.state.window import WindowStore
from barnabas.streams.state.window_bytes import TimeOrderedWindowSegments, WindowSegments

KEYS = st.sampled_from("abcdefgh")
VALUES = st.none() | st.text("xyz", max_size=30)
STARTS = st.integers(0, 40).map(lambda number: number * 50)
SIZES = st.sampled_from([1, 100, 300, 1_000, 1_000_000])


def opened(store, max_bytes=0):
    """Open a store, with a cache if it has any bytes."""
    cache = RecordCache(max_bytes)
    if max_bytes:
        store.enable_cache(cache, 60_000)
    context = RecordContext(0, 0, 0, "t", [])
    store.init(
        SimpleNamespace(
            key_serde=None, value_serde=None, record_context=context, changelog_topic=lambda name: name,
            record_dropped=lambda: None,
        )
    )  # fmt: skip
    return store, cache


def newest(changes):
    """The last change of each key, those left out that came and went."""
    return {record.key: record.value for record in changes if record.value is not None}


@given(
    SIZES,
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), KEYS, VALUES),
            st.tuples(st.just("get"), KEYS),
            st.tuples(st.just("range"), st.none() | KEYS, st.none() | KEYS, st.booleans()),
            st.tuples(st.just("flush")),
        ),
        max_size=60,
    ),
)
def test_a_cached_key_value_store_shows_what_was_put(size, steps):
    stores = [
        opened(KeyValueStore("s", Serdes.string(), Serdes.string(), MemoryBackend()), bytes_) for bytes_ in (0, size)
    ]
    for step, *arguments in steps:
        answers = []
        for store, _ in stores:
            if step == "put":
                store.put(*arguments)
            elif step == "get":
                answers.append(store.get(*arguments))
            elif step == "range":
                first, last, reverse = arguments
                answers.append(list((store.reverse_range if reverse else store.range)(first, last)))
            else:
                store.flush()
        assert answers[:1] == answers[1:]
        assert stores[1][1].size <= max(size, 0) or step == "flush"
    (plain, _), (cached, _) = stores
    cached.flush()
    assert list(cached.all()) == list(plain.all())
    logged = cached.changes()
    assert len(logged) <= len(plain.changes())
    assert {key: value for key, value in newest(logged).items() if plain.get(key.decode()) is not None} == {
        key.encode(): value.encode() for key, value in plain.all()
    }


@given(
    SIZES,
    st.booleans(),
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), KEYS, VALUES, STARTS),
            st.tuples(st.just("fetch"), KEYS, STARTS),
            st.tuples(st.just("fetch"), KEYS, STARTS, STARTS),
            st.tuples(st.just("backward_fetch"), KEYS, STARTS, STARTS),
            st.tuples(st.just("fetch"), st.none() | KEYS, st.none() | KEYS, STARTS, STARTS),
            st.tuples(st.just("fetch_all"), STARTS, STARTS),
            st.tuples(st.just("backward_all")),
            st.tuples(st.just("flush")),
        ),
        max_size=60,
    ),
)
def test_a_cached_window_store_shows_what_was_put(size, time_ordered, steps):
    def segments():
        if time_ordered:
            return TimeOrderedWindowSegments("s", 3_600_000, 60_000, MemoryBackend(), indexed=False)
        return WindowSegments("s", 3_600_000, 60_000, MemoryBackend())

    stores = [
        opened(WindowStore("s", Serdes.string(), Serdes.string(), segments(), 50), bytes_)[0] for bytes_ in (0, size)
    ]
    for step, *arguments in steps:
        answers = [getattr(store, step)(*arguments) for store in stores]
        shown = [list(answer) if hasattr(answer, "__iter__") else answer for answer in answers]
        assert shown[0] == shown[1]
    stores[1].flush()
    assert list(stores[1].all()) == list(stores[0].all())
    for key, _ in stores[0].all():
        assert key == Windowed(key.key, TimeWindow(key.window.start, key.window.start + 50))
