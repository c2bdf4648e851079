"""How the offsets of a micro-batch are chosen and shared out to tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.offsets import from_json, to_json
from barnabas.spark.ranges import OffsetRange, divided, packed
from barnabas.spark.rate_limit import TriggerDelay, limited

PARTITIONS = [TopicPartition("t", number) for number in range(5)]

spans = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=5)


def offsets_of(lengths: list[tuple[int, int]]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    start = {PARTITIONS[number]: begin for number, (begin, _) in enumerate(lengths)}
    return start, {PARTITIONS[number]: begin + size for number, (begin, size) in enumerate(lengths)}


def test_without_pressure_everything_is_taken() -> None:
    start, latest = offsets_of([(0, 10), (5, 10)])

    assert limited(start, latest, 20) == latest


def test_partitions_share_the_limit_in_proportion_to_what_waits() -> None:
    start, latest = offsets_of([(0, 300), (100, 100)])

    assert limited(start, latest, 40) == {PARTITIONS[0]: 30, PARTITIONS[1]: 110}


def test_a_small_partition_beside_a_large_one_still_moves() -> None:
    start, latest = offsets_of([(0, 100_000), (0, 1)])

    assert limited(start, latest, 10)[PARTITIONS[1]] == 1


@given(spans, st.integers(1, 500))
def test_a_limited_batch_moves_forward_and_stays_within_the_limit(lengths: list[tuple[int, int]], limit: int) -> None:
    start, latest = offsets_of(lengths)

    taken = limited(start, latest, limit)

    assert all(start[partition] <= taken[partition] <= latest[partition] for partition in latest)
    assert sum(taken[partition] - start[partition] for partition in taken) <= limit + len(taken)
    assert taken == start if latest == start else taken != start


@given(spans, st.one_of(st.none(), st.integers(1, 40)))
def test_divided_ranges_cover_the_same_offsets_once(lengths: list[tuple[int, int]], wanted: int | None) -> None:
    start, latest = offsets_of(lengths)
    ranges = [OffsetRange(partition, start[partition], latest[partition]) for partition in start]

    found = divided(ranges, wanted)

    covered = [(part.topic_partition, offset) for part in found for offset in range(part.start, part.end)]
    expected = [(part.topic_partition, offset) for part in ranges for offset in range(part.start, part.end)]
    assert covered == expected
    assert all(part.size > 0 for part in found)


def test_min_partitions_cuts_the_large_ranges() -> None:
    ranges = [OffsetRange(PARTITIONS[0], 0, 900), OffsetRange(PARTITIONS[1], 0, 100)]

    found = divided(ranges, 10)

    assert [part.size for part in found] == [100] * 10


@pytest.mark.parametrize(
    ("wanted", "most", "tasks"),
    [(5, None, 5), (6, None, 6), (7, None, 7), (10, None, 10), (16, None, 16), (33, None, 33), (39, None, 40),
     (7, 50, 6), (21, 30, 19), (28, 30, 29), (37, 10, 31)],
)  # fmt: skip
def test_min_partitions_makes_as_many_tasks_as_the_built_in_connector_did(
    wanted: int, most: int | None, tasks: int
) -> None:
    ranges = [OffsetRange(part, 0, size) for part, size in zip(PARTITIONS, (1, 3, 100, 37, 6), strict=True)]

    assert len(divided(ranges, wanted, most)) == tasks


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=12), st.integers(1, 2000))
def test_small_ranges_share_tasks_and_every_range_is_read_once(sizes: list[int], least: int) -> None:
    ranges = [OffsetRange(TopicPartition("t", number), 7, 7 + size) for number, size in enumerate(sizes)]

    tasks = packed(ranges, least)

    small = [part.size for part in ranges if part.size < least]
    assert sorted(part for task in tasks for part in task) == ranges
    assert all(len(task) == 1 for task in tasks if any(part.size >= least for part in task))
    assert len(tasks) <= len(ranges) - len(small) + max(1, sum(small) // least)


def test_a_few_rows_of_many_partitions_are_one_tasks_work_and_more_are_shared_out_evenly() -> None:
    few, more = [[OffsetRange(partition, 0, size) for partition in PARTITIONS] for size in (150, 600)]

    assert packed(few, 1000) == [tuple(few)]
    assert packed(more, 1000) == [(more[0], more[1]), (more[2],), (more[3], more[4])]


def test_offsets_have_the_json_form_of_sparks_checkpoints() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 10): 3, TopicPartition("a", 2): 5}

    assert to_json(offsets) == {"a": {"2": 5, "10": 3}, "b": {"1": 7}}
    assert from_json(to_json(offsets)) == offsets


def test_max_records_per_partition_cuts_every_range_above_it_and_min_partitions_then_cuts_on() -> None:
    ranges = [OffsetRange(PARTITIONS[0], 0, 900), OffsetRange(PARTITIONS[1], 0, 100)]

    assert [part.size for part in divided(ranges, None, 300)] == [300, 300, 300, 100]
    assert [part.size for part in divided(ranges, 3, 300)] == [300, 300, 300, 100]
    assert len(divided(ranges, 10, 300)) == 10


def test_a_micro_batch_waits_for_enough_records_or_for_long_enough_but_the_first_never() -> None:
    delay = TriggerDelay()

    held = [
        delay.holds_back(waiting, least=100, longest_ms=1000, now_ms=now)
        for waiting, now in [(1, 0), (1, 10), (99, 999), (100, 999), (5, 1998), (5, 1999)]
    ]

    assert held == [False, True, True, False, True, False]
