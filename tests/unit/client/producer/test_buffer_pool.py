"""buffer.memory: counted, fair, bounded in time."""

from __future__ import annotations

import threading
import time

import pytest

from barnabas.client.producer.buffer_pool import Allocation, BufferPool, Waiter
from barnabas.client.steps import Steps, run
from barnabas.errors import BufferExhaustedError, IllegalArgumentError, IllegalStateError, KafkaTimeoutError
from barnabas.network.sampled_stat import MetricConfig


def allocate(pool: BufferPool, size: int, timeout: float) -> Allocation:
    return run(pool.wait_allocate(size, timeout))


def wait_until_queued(pool: BufferPool, count: int) -> None:
    deadline = time.monotonic() + 30
    while pool.queued < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_memory_is_taken_and_given_back() -> None:
    pool = BufferPool(100, time.monotonic)

    taken = allocate(pool, 60, 0)
    assert pool.available_memory == 40
    taken.release()
    taken.release()
    assert pool.available_memory == 100


def test_who_gets_no_memory_in_time_gets_an_error_and_takes_nothing() -> None:
    pool = BufferPool(100, time.monotonic)
    held = allocate(pool, 90, 0)

    with pytest.raises(BufferExhaustedError, match=r"10 of 100 bytes of buffer\.memory are free") as raised:
        allocate(pool, 20, 0.01)

    assert isinstance(raised.value, KafkaTimeoutError)
    assert (pool.available_memory, pool.queued, held.size) == (10, 0, 90)
    assert pool.metrics(time.monotonic())["buffer-exhausted-total"] == 1


def test_the_time_that_records_waited_for_memory_is_told_in_all_and_as_a_share() -> None:
    times = iter([100.0, 102.4, 102.4])
    pool = BufferPool(100, lambda: next(times), MetricConfig(samples=2, time_window=10.0))
    held = allocate(pool, 90, 0)
    with pytest.raises(BufferExhaustedError):
        allocate(pool, 20, 0.01)

    found = pool.metrics(104.4)
    assert held.size == 90
    assert found["bufferpool-wait-time-ns-total"] == pytest.approx(2.4e9)
    assert found["bufferpool-wait-ratio"] == pytest.approx(2.4 / 12)
    assert found["buffer-exhausted-rate"] == pytest.approx(1 / 12)
    later = pool.metrics(130.0)
    assert later["bufferpool-wait-time-ns-total"] == pytest.approx(2.4e9)
    assert later["bufferpool-wait-ratio"] == later["buffer-exhausted-rate"] == 0


def test_more_than_everything_is_refused_at_once() -> None:
    with pytest.raises(IllegalArgumentError):
        allocate(BufferPool(100, time.monotonic), 101, 10)


def test_waiting_threads_are_served_in_order_even_when_a_later_one_needs_less() -> None:
    pool, order = BufferPool(100, time.monotonic), list[str]()
    held = [allocate(pool, size, 0) for size in (50, 30, 10, 10)]

    def take(name: str, size: int) -> None:
        held.append(allocate(pool, size, 10))
        order.append(name)

    large = threading.Thread(target=take, args=("large", 80))
    large.start()
    wait_until_queued(pool, 1)
    small = threading.Thread(target=take, args=("small", 10))
    small.start()
    wait_until_queued(pool, 2)

    held[0].release()
    assert pool.queued == 2
    held[1].release()
    large.join(30)
    held[2].release()
    small.join(30)

    assert order == ["large", "small"]
    assert pool.available_memory == 0


def test_who_gives_up_passes_what_was_set_aside_to_the_next() -> None:
    pool = BufferPool(100, time.monotonic)
    held = [allocate(pool, 50, 0), allocate(pool, 50, 0)]
    failed, served = threading.Event(), threading.Event()

    def impatient() -> None:
        with pytest.raises(BufferExhaustedError):
            allocate(pool, 80, 1.0)  # the other one has to be in the line by then
        failed.set()

    def patient() -> None:
        held.append(allocate(pool, 40, 10))
        served.set()

    threads = [threading.Thread(target=impatient), threading.Thread(target=patient)]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until_queued(pool, number + 1)
    held[0].release()

    assert failed.wait(30)
    assert served.wait(30)
    assert pool.available_memory == 10
    for thread in threads:
        thread.join(30)


def test_closing_sends_everyone_home() -> None:
    pool = BufferPool(10, time.monotonic)
    held = allocate(pool, 10, 0)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            allocate(pool, 5, 60)
        except IllegalStateError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until_queued(pool, 1)
    pool.close()
    thread.join(30)

    assert len(errors) == 1
    assert held.size == 10
    with pytest.raises(IllegalStateError):
        allocate(pool, 1, 0)


class Waiting(Waiter):
    woken = False

    def wake(self) -> None:
        self.woken = True

    def wait(self, timeout: float) -> Steps[None]:
        yield from ()


def test_who_does_not_block_lines_up_and_is_woken_when_all_bytes_are_granted() -> None:
    pool = BufferPool(100, lambda: 0.0)
    held = [allocate(pool, 30, 0), allocate(pool, 60, 0)]
    assert pool.allocate_nowait(40) is None
    first, second = Waiting(40), Waiting(50)
    pool.line_up(first)
    pool.line_up(second)
    assert pool.allocate_nowait(1) is None, "nobody overtakes who waits"

    held[0].release()
    assert (first.woken, second.woken) == (True, False)
    pool.end_wait(first, held[0], 0.0, 1.0)
    with pytest.raises(BufferExhaustedError):
        pool.end_wait(second, Allocation(pool), 1.0, 1.0)

    assert (pool.available_memory, pool.queued) == (0, 0)


def test_who_leaves_the_line_gives_back_what_was_set_aside_for_the_next_one() -> None:
    pool = BufferPool(100, lambda: 0.0)
    held = allocate(pool, 90, 0)
    first, second = Waiting(40), Waiting(10)
    pool.line_up(first)
    pool.line_up(second)

    pool.withdraw(first)

    assert second.woken
    served = Allocation(pool)
    pool.end_wait(second, served, 0.0, 1.0)
    assert (pool.available_memory, held.size, served.size) == (0, 90, 10)


def test_bytes_that_are_dropped_without_a_release_are_free_again() -> None:
    pool = BufferPool(100, lambda: 0.0)
    held = allocate(pool, 90, 0)
    assert pool.available_memory == 10

    del held

    assert pool.available_memory == 100
    assert allocate(pool, 100, 0).size == 100
