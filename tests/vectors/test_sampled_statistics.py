"""Averages, extremes, rates and totals, against what Kafka's own Java classes say of the same values and times."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from barnabas.network.sampled_stat import MetricConfig, Statistic

LINES = (Path(__file__).parent / "data" / "sampled-statistics.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def test_the_cases_have_windows_with_all_with_some_and_with_none_of_the_values() -> None:
    shares = [_statistic(case).at(case["asked_ms"] / 1000) for case in CASES if case["values"]]
    assert sum(one.recent_events == one.events for one in shares) > 10
    assert sum(0 < one.recent_events < one.events for one in shares) > 10
    assert sum(not one.recent_events for one in shares) > 10


@pytest.mark.parametrize("number", range(0, len(CASES), 10))
def test_statistics_are_javas(number: int) -> None:
    for case in CASES[number : number + 10]:
        found = _statistic(case).at(case["asked_ms"] / 1000)
        counted = found.counted("count")
        ours = {
            "avg": found.average,
            "max": found.maximum,
            "min": found.minimum,
            "rate": found.metered("")["-rate"],
            "total": found.total,
            "count-rate": counted["count-rate"],
            "count": counted["count-total"],
            "count-rate-per-hour": found.counted_per_hour("count")["count-rate-per-hour"],
        }
        assert ours == pytest.approx(case["java"], rel=1e-9, abs=1e-9, nan_ok=True)
        assert math.isnan(ours["avg"]) == (found.recent_events == 0)


def _statistic(case: dict[str, Any]) -> Statistic:
    statistic = Statistic(MetricConfig(case["samples"], case["window_ms"] / 1000))
    for time_ms, value in case["values"]:
        statistic.record(value, time_ms / 1000)
    return statistic
