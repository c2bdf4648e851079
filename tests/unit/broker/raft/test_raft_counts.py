"""Rates and times of the last minute."""

from __future__ import annotations

from barnabas.broker.raft.raft_counts import RaftCounts, RecentValues


def test_a_rate_is_that_of_the_last_minute_and_of_half_a_minute_at_least() -> None:
    values = RecentValues()
    assert values.per_second(100.0) == 0.0
    values.record(60.0, 100.0)
    assert values.per_second(101.0) == 60 / 31
    values.record(60.0, 140.0)
    assert values.per_second(150.0) == 120 / 50
    assert values.per_second(170.0) == 60 / 60 or values.per_second(170.0) == 60 / 30
    assert values.per_second(300.0) == 0.0


def test_average_and_largest_are_those_of_the_last_minute() -> None:
    values = RecentValues()
    for value, now in ((8.0, 0.0), (2.0, 40.0), (4.0, 41.0)):
        values.record(value, now)
    assert (values.average(50.0), values.largest(50.0)) == (14 / 3, 8.0)
    assert (values.average(70.0), values.largest(70.0)) == (3.0, 4.0)
    assert (values.average(200.0), values.largest(200.0)) == (0.0, 0.0)


def test_a_commit_is_timed_from_its_append_and_by_the_record() -> None:
    counts = RaftCounts()
    counts.append(10, 10, 1.0)
    counts.append(12, 2, 1.5)
    counts.commit(9, 1.6)
    assert counts.commits.average(2.0) == 0.0
    counts.commit(12, 2.0)
    assert counts.commits.largest(2.0) == 0.25
    assert counts.commits.average(2.0) == (0.1 + 0.25) / 2


def test_a_node_that_leads_no_more_times_no_commit() -> None:
    counts = RaftCounts()
    counts.append(10, 10, 1.0)
    counts.commit(None, 2.0)
    counts.commit(10, 3.0)
    assert counts.commits.average(3.0) == 0.0
