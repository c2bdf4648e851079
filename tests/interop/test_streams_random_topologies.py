"""Random topologies through Kafka's TopologyTestDriver and ours, in the same run: every record must be the same.

`STREAMS_SEEDS=1000:3000` chooses the seeds of the long form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.interop.streams_test_driver import kafkas_answers
from tools.streams_vectors.__main__ import difference_of
from tools.streams_vectors.random_cases import draw, draw_cached, draw_with_headers
from tools.streams_vectors.richer_cases import draw_richer
from tools.streams_vectors.running import run
from tools.streams_vectors.timed_cases import draw_timed


def sorted_names(described: str) -> str:
    """Sort what Java lists in the order of a hash: topics and stores in brackets."""
    return re.sub(r"\[([^]]*)]", lambda found: "[" + ", ".join(sorted(found[1].split(", "))) + "]", described)


def differences(seeds: Iterable[int], drawn: Callable[[int], dict[str, Any]] = draw) -> tuple[dict[str, str], int]:
    """What differs by case, and how many topologies Kafka built."""
    cases = [drawn(seed) for seed in seeds]
    found, built = {}, 0
    for case, answer in zip(cases, kafkas_answers("Cases", cases), strict=True):
        if "refused" in answer:  # some topologies cannot be; the vectors hold with which errors
            if "error" not in run(case | {"expected": {}}):
                found[case["name"]] = f"only Kafka refuses it: {answer['refused']}"
            continue
        built += 1
        answer["describe"] = sorted_names(answer["describe"])
        if (difference := difference_of({**case, "expected": answer})) is not None:
            found[case["name"]] = difference
    return found, built


def cached(seed: int, max_bytes: int) -> dict[str, Any]:
    """A case with a cache of a given size."""
    case = draw_cached(seed)
    case["config"]["statestore.cache.max.bytes"] = max_bytes
    return case


def test_random_topologies_give_what_kafka_gives() -> None:
    found, built = differences(range(20))

    assert found == {}
    assert built >= 15


def test_global_tables_cogroups_versions_splits_and_processors_give_what_kafka_gives() -> None:
    found, built = differences(range(30), draw_richer)

    assert found == {}
    assert built >= 20


def test_punctuators_windows_versions_and_patterns_give_what_kafka_gives() -> None:
    # In 98 a join with grace logs the offsets of records that were read by a pattern.
    found, built = differences([*range(30), 98], draw_timed)

    assert found == {}
    assert built >= 25


def test_caches_hold_back_and_evict_as_kafkas_do() -> None:
    # In the last few a lookup passes entries that are not asked for, which makes those the most recently used.
    found, built = differences([*range(30), 467, 586, 728, 752, 816, 899, 914], draw_cached)

    assert found == {}
    assert built >= 20


def test_stores_with_headers_write_kafkas_changelogs() -> None:
    found, built = differences(range(30), draw_with_headers)

    assert found == {}
    assert built >= 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_caches_hold_back_and_evict_as_kafkas_do() -> None:
    first, last = os.environ.get("STREAMS_SEEDS", "1000:3000").split(":")
    large, built = differences(range(int(first), int(last)), lambda seed: cached(seed, 10_000_000))
    small, _ = differences(range(int(first), int(last)), draw_cached)

    assert large == {}
    assert built > (int(last) - int(first)) * 0.7
    assert small == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("drawn", [draw, draw_richer, draw_timed])
def test_many_random_topologies_give_what_kafka_gives(drawn: Callable[[int], dict[str, Any]]) -> None:
    first, last = os.environ.get("STREAMS_SEEDS", "1000:3000").split(":")
    found, built = differences(range(int(first), int(last)), drawn)

    assert found == {}
    assert built > (int(last) - int(first)) * 0.7
