"""Percentiles from buckets: near to the exact ones, of the last minutes only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.metrics.percentiles import QUANTILES, Percentiles


@given(st.lists(st.floats(1e-5, 800.0), min_size=1, max_size=300))
def test_each_is_within_four_percent_of_the_exact_one(times: list[float]) -> None:
    counted = Percentiles()
    for seconds in times:
        counted.record(seconds, now=10.0)

    ordered = sorted(times)
    for quantile, found in counted.quantiles(10.0):
        rank = next(index for index in range(len(times)) if index + 1 >= quantile * len(times))
        assert found == pytest.approx(ordered[rank], rel=0.041)
    assert (counted.count, counted.total) == (len(times), pytest.approx(sum(times)))


def test_what_was_minutes_ago_no_longer_counts_but_in_the_totals() -> None:
    counted = Percentiles()
    counted.record(5.0, now=0.0)
    assert dict(counted.quantiles(59.0))[0.5] == pytest.approx(5.0, rel=0.05)
    counted.record(0.001, now=61.0)
    assert dict(counted.quantiles(61.0))[0.999] == pytest.approx(5.0, rel=0.05)
    counted.record(0.001, now=130.0)
    assert dict(counted.quantiles(130.0))[0.999] == pytest.approx(0.001, rel=0.05)
    assert dict(counted.quantiles(1000.0)) == dict.fromkeys(QUANTILES, 0.0)
    assert counted.count == 3


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e9])
def test_times_beyond_all_buckets_count_in_the_last_one(seconds: float) -> None:
    counted = Percentiles()
    counted.record(seconds, now=0.0)
    assert counted.count == 1
    assert all(found >= 0 for _, found in counted.quantiles(0.0))
