"""What application threads and the Sender thread can do to each other in the producer, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.producer import buffer_pool, produce_request_result
from barnabas.client.producer.buffer_pool import BufferPool
from barnabas.client.producer.produce_request_result import ProduceRequestResult
from barnabas.client.steps import run
from barnabas.errors import BufferExhaustedError, IllegalStateError
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.line_scheduler import LineScheduler, turns

PARTITION = TopicPartition("t", 0)


# Some bugs show in one order of a hundred.
many = settings(max_examples=300, deadline=None)
orders = st.integers(0, 2**32).map(turns)


@many
@given(orders)
def test_a_callback_added_while_the_result_comes_runs_exactly_once(order: Iterator[int]) -> None:
    scheduler = LineScheduler(order, produce_request_result)
    with mock.patch.object(produce_request_result, "threading", scheduler.threading()):
        result = ProduceRequestResult(PARTITION)
        ran: Counter[str] = Counter()
        result.add_done_callback("early", 0, lambda name: ran.update([name]))

        def complete() -> None:
            result.set(5, -1)
            result.complete()

        ends = scheduler.run(
            complete,
            lambda: result.add_done_callback("one", 0, lambda name: ran.update([name])),
            lambda: result.add_done_callback("two", 1, lambda name: ran.update([name])),
            lambda: result.wait_for(0, None),
        )

    assert ends == [None] * 4
    assert ran == {"early": 1, "one": 1, "two": 1}


@many
@given(orders)
def test_a_callback_added_while_the_batch_is_split_runs_with_its_part(order: Iterator[int]) -> None:
    scheduler = LineScheduler(order, produce_request_result)
    with mock.patch.object(produce_request_result, "threading", scheduler.threading()):
        whole, first, second = (ProduceRequestResult(PARTITION) for _ in range(3))
        ran: list[tuple[str, int]] = []

        def split_and_complete() -> None:
            whole.split([(0, first), (2, second)])
            for number, part in enumerate((second, first)):
                part.set(100 * number, -1)
                part.complete()

        def note(name: str) -> None:
            index = {"first": 1, "second": 3}[name]
            ran.append((name, whole.outcome(index)[0][1]))

        ends = scheduler.run(
            split_and_complete,
            lambda: whole.add_done_callback("first", 1, note),
            lambda: whole.add_done_callback("second", 3, note),
            lambda: whole.wait_for_all(None),
        )

    assert ends == [None, None, None, True]
    assert sorted(ran) == [("first", 101), ("second", 1)]


@many
@given(orders)
def test_memory_is_never_given_out_twice_and_everybody_gets_it(order: Iterator[int]) -> None:
    scheduler = LineScheduler(order, buffer_pool)
    with mock.patch.object(buffer_pool, "threading", scheduler.threading()):
        pool = BufferPool(10, lambda: 0.0)
        held = [0]

        def use(size: int) -> None:
            taken = run(pool.wait_allocate(size, 60.0))
            held[0] += size
            assert held[0] <= 10
            held[0] -= size
            taken.release()

        ends = scheduler.run(lambda: use(6), lambda: use(6), lambda: use(10), lambda: use(3))

    assert ends == [None] * 4
    assert (pool.available_memory, pool.queued) == (10, 0)


def use(pool: BufferPool, size: int) -> int:
    run(pool.wait_allocate(size, 1.0)).release()
    return size


@many
@given(orders)
def test_when_the_pool_is_closed_everybody_goes_home_and_no_byte_is_lost(order: Iterator[int]) -> None:
    scheduler = LineScheduler(order, buffer_pool)
    with mock.patch.object(buffer_pool, "threading", scheduler.threading()):
        pool = BufferPool(10, lambda: 0.0)
        taken = run(pool.wait_allocate(8, 0.0))
        ends = scheduler.run(lambda: use(pool, 4), lambda: use(pool, 2), lambda: use(pool, 10), pool.close)

    for end, size in zip(ends, (4, 2, 10), strict=False):
        assert end == size or isinstance(end, IllegalStateError)
    assert (pool.available_memory, pool.queued, taken.size) == (2, 0, 8)


@many
@given(orders)
def test_when_time_is_over_what_was_set_aside_comes_back(order: Iterator[int]) -> None:
    scheduler = LineScheduler(order, buffer_pool)
    with mock.patch.object(buffer_pool, "threading", scheduler.threading()):
        pool = BufferPool(10, lambda: 0.0)
        taken = run(pool.wait_allocate(8, 0.0))
        ends = scheduler.run(lambda: use(pool, 4), lambda: use(pool, 2), lambda: use(pool, 3))

    assert isinstance(ends[0], BufferExhaustedError)
    assert ends[1] == 2 or isinstance(ends[1], BufferExhaustedError)
    assert isinstance(ends[2], BufferExhaustedError)
    assert (pool.available_memory, pool.queued, taken.size) == (2, 0, 8)


def test_threads_that_wait_for_each_other_are_noticed() -> None:
    scheduler = LineScheduler([], buffer_pool)
    one, other = scheduler.threading().Lock(), scheduler.threading().Lock()
    one.acquire()

    with pytest.raises(AssertionError, match="wait for each other"):
        scheduler.run(one.acquire, other.acquire)
