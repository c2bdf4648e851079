"""What a task tells of itself at level TRACE, beside Kafka's own TopologyTestDriver: names, tags, and how often.

`STREAMS_SEEDS=1000:1300` chooses the seeds of the long form.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.interop.streams_test_driver import kafkas_answers
from tools.streams_vectors.random_cases import draw, draw_cached
from tools.streams_vectors.richer_cases import draw_richer
from tools.streams_vectors.running import run
from tools.streams_vectors.timed_cases import draw_timed

#: Group, name and tags of a metric.
Name = tuple[str, str, frozenset[tuple[str, str]]]

GROUPS = {"stream-task-metrics", "stream-processor-node-metrics", "stream-state-metrics", "stream-record-cache-metrics"}

#: What Kafka tells and a task here does not, by why.
NOT_HERE = {
    "active-buffer-count|input-buffer-bytes-total|enforced-processing-.*": "a batch is what waits; none outlasts it",
    "active-process-ratio": "a task has a process of its own",
    "restore-(total|remaining-records-total)": "of tasks on Spark; the driver restores nothing",
    "(estimate-)?num-keys": "of tasks on Spark, which ask now and then",
    "background-errors|(block-cache|compaction|cur-size|estimate|live-sst|size-all|total-sst)-.*": "RocksDB",
    "write-stall-.*": "RocksDB",
    "bytes-(read|written)-.*|mem-?table-.*|num-(deletes|entries|immutable|live|running)-.*|number-.*": "RocksDB",
}

#: Of these the names are compared alone, by why.
NAMES_ALONE = {
    ".*-latency-(avg|max)|iterator-duration-.*|oldest-iterator-.*": "times of the machine",
    "restore-rate": "Kafka counts that a window store was opened",
    "commit-rate": "Kafka's driver commits once more, before the first record",
    "cache-size-bytes-total": "told at another moment",
    "all-rate": "outer joins in Kafka look through an empty store, too: Long.MAX_VALUE and the window overflow",
    "fetch-rate": "sliding windows in Kafka ask once more for a window that they have seen",
}


def matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def is_compared(group: str, name: str) -> bool:
    """Whether the value must be Kafka's; the age of records is, but that of stores is by the machine's clock there."""
    if "e2e" in name:
        return group != "stream-state-metrics"
    return not matches(NAMES_ALONE, name)


def kafkas(answer: dict[str, Any]) -> dict[Name, float]:
    found = {}
    for metric in answer["metrics"]:
        tags = {name.replace("rocksdb", "lmdb"): value for name, value in metric["tags"].items()}
        # Stores of global tables belong to no task, and are not measured here.
        is_ours = tags.get("task-id") == "0_0" and not (
            metric["group"] == "stream-task-metrics" and metric["name"] == "restore-rate"
        )
        if is_ours and metric["group"] in GROUPS and not matches(NOT_HERE, metric["name"]):
            tags.pop("thread-id", None)
            found[metric["group"], metric["name"], frozenset(tags.items())] = metric.get("value", math.nan)
    return found


def ours(result: dict[str, Any]) -> dict[Name, float]:
    found = {}
    for group, tags, values in result["metrics"]:
        where = frozenset((name, value) for name, value in tags.items() if name != "thread-id")
        found |= {(group, name, where): value for name, value in values.items()}
    return found


def difference(kafka: dict[Name, float], here: dict[Name, float]) -> str | None:
    """Return what differs, None when nothing does; times of the machine are only to be there."""
    if missing := sorted(map(str, kafka.keys() - here.keys())):
        return f"only Kafka has {missing}"
    if extra := sorted(map(str, here.keys() - kafka.keys())):
        return f"only we have {extra}"
    wrong = [
        f"{name}: {kafka[name]} in Kafka, {here[name]} here"
        for name in kafka
        if is_compared(*name[:2])
        and not math.isclose(kafka[name], here[name], rel_tol=1e-9)
        and not (math.isnan(kafka[name]) and math.isnan(here[name]))
    ]
    return "\n".join(wrong) or None


def differences(seeds: Iterable[int], drawn: Callable[[int], dict[str, Any]]) -> tuple[dict[str, str], int]:
    cases = [drawn(seed) for seed in seeds]
    for case in cases:
        case["metrics"] = True
        case["config"] = {**(case.get("config") or {}), "metrics.recording.level": "TRACE"}
    found, compared = {}, 0
    for case, answer in zip(cases, kafkas_answers("Cases", cases), strict=True):
        if "refused" in answer:
            continue
        compared += 1
        if problem := difference(kafkas(answer), ours(run(case | {"expected": {}}))):
            found[case["name"]] = problem
    return found, compared


@pytest.mark.parametrize("drawn", [draw, draw_cached, draw_richer, draw_timed], ids=lambda drawn: drawn.__name__)
def test_a_task_counts_what_kafkas_counts(drawn: Callable[[int], dict[str, Any]]) -> None:
    found, compared = differences(range(20), drawn)

    assert found == {}
    assert compared >= 13


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [draw, draw_cached, draw_richer, draw_timed], ids=lambda drawn: drawn.__name__)
def test_a_task_counts_what_kafkas_counts_in_long(drawn: Callable[[int], dict[str, Any]]) -> None:
    first, last = map(int, os.environ.get("STREAMS_SEEDS", "1000:1300").split(":"))

    found, _ = differences(range(first, last), drawn)

    assert found == {}
