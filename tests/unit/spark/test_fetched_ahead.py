"""What outlives a task in a Python worker: data fetched ahead and idle consumers, both bounded."""

from __future__ import annotations

from barnabas.client.consumer.fetching.fetched_data import FetchedData
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.client_cache import ClientCache
from barnabas.spark.fetched_ahead import FetchedAheadCache


def data(offset: int, size: int) -> FetchedData:
    return FetchedData(TopicPartition("t", 0), offset, offset + 1, bytes(size), True, None)


def test_data_is_found_by_reader_and_next_offset_and_given_away_once() -> None:
    cache = FetchedAheadCache()
    cache.keep("reader", 5, [data(5, 10)])

    assert cache.take("reader", 6) == ()
    assert cache.take("another", 5) == ()
    assert cache.take("reader", 5) == (data(5, 10),)
    assert cache.take("reader", 5) == ()
    assert cache.size_in_bytes == 0


def test_the_oldest_data_goes_when_there_is_too_much() -> None:
    cache = FetchedAheadCache(most_bytes=100)

    for number in range(4):
        cache.keep("reader", number, [data(number, 40)])
    cache.keep("reader", 9, [data(9, 101)])  # alone too much

    assert [bool(cache.take("reader", number)) for number in (0, 1, 2, 3, 9)] == [False, False, True, True, False]


def test_data_kept_anew_replaces_the_old() -> None:
    cache = FetchedAheadCache(most_bytes=100)
    cache.keep("reader", 1, [data(1, 60)])

    cache.keep("reader", 1, [data(1, 50)])

    assert cache.size_in_bytes == 50


def test_data_that_is_too_old_is_not_used() -> None:
    now = [0.0]
    cache = FetchedAheadCache(longest=60.0, clock=lambda: now[0])
    cache.keep("reader", 1, [data(1, 10)])

    now[0] = 60.0

    assert cache.take("reader", 1) == ()


class Idle:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_consumer_is_used_again_but_never_by_two_at_once() -> None:
    cache: ClientCache[Idle] = ClientCache()
    first, second = cache.acquire("s", Idle), cache.acquire("s", Idle)

    cache.release("s", first)

    assert first is not second
    assert cache.acquire("s", Idle) is first


def test_idle_consumers_beyond_the_bound_are_closed_the_oldest_first() -> None:
    cache: ClientCache[Idle] = ClientCache(most_idle=2)
    consumers = [Idle() for _ in range(4)]

    for settings, consumer in zip(("a", "b", "c", "c"), consumers, strict=True):
        cache.release(settings, consumer)

    assert [consumer.is_closed for consumer in consumers] == [True, False, True, False]


def test_closing_ends_the_idle_ones_and_leaves_those_in_use() -> None:
    cache: ClientCache[Idle] = ClientCache()
    idle, used = cache.acquire("a", Idle), cache.acquire("b", Idle)
    cache.release("a", idle)

    cache.close()

    assert (idle.is_closed, used.is_closed) == (True, False)
    assert cache.acquire("a", Idle) is not idle
