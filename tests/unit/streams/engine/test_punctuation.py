"""Punctuators of one time in the order of Kafka's queue, that of Java's PriorityQueue, and times that are restored."""

from __future__ import annotations

import json
import random
from typing import Any

from barnabas.streams.engine.punctuation import PunctuationQueue, Schedule


def queue_of(*intervals: int) -> tuple[PunctuationQueue, list[Schedule]]:
    """As each start of a task schedules them; the punctuator has the schedule's number."""
    queue = PunctuationQueue()
    node: Any = None
    return queue, [queue.add(Schedule(node, 0, interval, lambda _: None)) for interval in intervals]


def called(queue: PunctuationQueue, now: int) -> list[int]:
    found: list[int] = []
    queue.punctuate(now, lambda schedule, _: found.append(schedule.number))
    return found


def test_of_one_time_the_last_of_the_heap_comes_second() -> None:
    queue, _ = queue_of(20, 1, 1)

    # As Kafka 4.3.1 does it: the array is (0, 1, 2); the first is taken, the last takes its place.
    assert called(queue, 120) == [0, 2, 1]


def test_times_are_restored_to_whom_they_belong() -> None:
    queue, _ = queue_of(1, 50)
    called(queue, 60)
    called(queue, 61)
    again, schedules = queue_of(1, 50)

    again.restore_times(queue.times())

    assert [found.time for found in schedules] == [62, 100]


def test_who_was_cancelled_leaves_its_number_behind() -> None:
    queue, first = queue_of(10, 20, 30)
    called(queue, 100)
    first[0].cancel()
    again, schedules = queue_of(10, 20, 30)

    again.restore_times(queue.times())

    assert [found.time for found in schedules] == [0, 120, 120]


def test_a_task_that_was_restored_calls_them_in_the_same_order() -> None:
    chance = random.Random(1)
    for _ in range(200):
        intervals = [chance.choice((1, 2, 3, 10)) for _ in range(chance.randint(1, 7))]
        queue, _ = queue_of(*intervals)
        now = 0
        for _ in range(10):
            now += chance.randint(0, 7)
            called(queue, now)
            again, _ = queue_of(*intervals)
            again.restore_times(json.loads(json.dumps(queue.times())))
            now += chance.randint(0, 7)
            assert called(again, now) == called(queue, now)
