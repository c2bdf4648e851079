"""Sampled statistics against what they mean, worked out anew from all values whenever it is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.network import sampled_stat as statistic
from barnabas.network.sampled_stat import MetricConfig, Reading, Statistic
from tests.support.line_scheduler import LineScheduler, turns

# In eighths of a second, which are exact.
steps = st.one_of(st.integers(0, 8), st.integers(0, 100), st.integers(0, 2000)).map(lambda step: step / 8)
values = st.lists(st.tuples(steps, st.integers(-1000, 10**6)), max_size=60)
configs = st.builds(MetricConfig, st.integers(1, 4), st.sampled_from([0.0, 0.125, 1.0, 5.0, 30.0]))


def timed(steps_and_values: list[tuple[float, int]]) -> list[tuple[float, int]]:
    now, found = 1000.0, []
    for step, value in steps_and_values:
        now += step
        found.append((now, value))
    return found


def recorded(config: MetricConfig, events: list[tuple[float, int]]) -> Statistic:
    found = Statistic(config)
    for now, value in events:
        found.record(value, now)
    return found


def in_window(config: MetricConfig, events: list[tuple[float, int]], now: float) -> list[list[tuple[float, int]]]:
    samples: list[list[tuple[float, int]]] = []
    for event in events:
        if not samples or event[0] - samples[-1][0][0] >= config.time_window:
            samples.append([])
        samples[-1].append(event)
    newest = samples[-config.samples - 1 :]
    return [sample for sample in newest if now - sample[-1][0] < config.samples * config.time_window]


@given(configs, values, steps)
def test_a_reading_is_what_the_values_in_the_window_make_it(
    config: MetricConfig, steps_and_values: list[tuple[float, int]], wait: float
) -> None:
    events = timed(steps_and_values)
    now = (events[-1][0] if events else 1000.0) + wait
    found = recorded(config, events).at(now)

    window = in_window(config, events, now)
    numbers = [value for sample in window for _, value in sample]
    assert (found.events, found.total) == (len(events), sum(value for _, value in events))
    assert (found.recent_events, found.recent_total) == (len(numbers), sum(numbers))
    assert found.maximum == (max(numbers) if numbers else pytest.approx(math.nan, nan_ok=True))
    assert found.minimum == (min(numbers) if numbers else pytest.approx(math.nan, nan_ok=True))
    assert found.average == pytest.approx(sum(numbers) / len(numbers) if numbers else math.nan, nan_ok=True)
    if numbers:
        elapsed = now - window[0][0][0]
        assert found.seconds >= max(elapsed, (config.samples - 1) * config.time_window)
        assert found.seconds < elapsed + config.samples * config.time_window + 0.001


@given(configs, values, steps)
def test_the_window_has_all_that_is_younger_than_its_samples_and_nothing_older_than_one_more(
    config: MetricConfig, steps_and_values: list[tuple[float, int]], wait: float
) -> None:
    events = timed(steps_and_values)
    now = (events[-1][0] if events else 1000.0) + wait
    found = recorded(config, events).at(now)

    length = config.samples * config.time_window
    assert found.recent_events >= sum(now - time < length for time, _ in events)
    assert found.recent_events <= sum(now - time < length + config.time_window for time, _ in events)


@given(configs, st.lists(values, max_size=3), steps)
def test_reading_changes_nothing_and_several_statistics_read_as_one(
    config: MetricConfig, several: list[list[tuple[float, int]]], wait: float
) -> None:
    all_events = [timed(steps_and_values) for steps_and_values in several]
    now = max((events[-1][0] for events in all_events if events), default=1000.0) + wait
    statistics = [Statistic(config) for _ in all_events]
    for one, events in zip(statistics, all_events, strict=True):
        for time, value in events:
            one.at(time + wait)
            one.record(value, time)

    found, apart = Reading.of(statistics, now), [recorded(config, events).at(now) for events in all_events]
    assert found.events == sum(one.events for one in apart)
    assert found.recent_total == sum(one.recent_total for one in apart)
    assert found.maximum == pytest.approx(
        max((one.maximum for one in apart if one.recent_events), default=math.nan), nan_ok=True
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32).map(turns))
def test_a_total_that_is_read_meanwhile_misses_nothing_and_counts_nothing_twice(order: Iterator[int]) -> None:
    counted = Statistic(MetricConfig(2, 1.0))
    done = [0]

    def record() -> None:
        for number in range(20):
            counted.record(1, 1000 + number * 0.75)
            done[0] += 1

    def read() -> None:
        while done[0] < 20:
            before = done[0]
            old, old_total, samples = counted.samples
            assert before <= old + sum(sample.count for sample in samples) <= done[0] + 1
            assert before <= old_total + sum(sample.total for sample in samples) <= done[0] + 1
            assert not math.isinf(counted.at(0.0).maximum)

    assert LineScheduler(order, statistic).run(record, read) == [None, None]
    assert counted.at(2000.0).total == 20
