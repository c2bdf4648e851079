"""What one store answers and lets go of, call by call, in Kafka's TopologyTestDriver and in ours: all must be the same.

Iterators are opened, read in part, and read on after the store has changed; caches are so small that they evict.
`STREAMS_SEEDS=150:20000` chooses the seeds of the long form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import pytest

from tests.interop.streams_test_driver import kafkas_answers
from tools.streams_vectors.store_lives import draw_life, live


def differences(seeds: Iterable[int]) -> dict[str, str]:
    """The first record of each case after which something differs."""
    cases = [draw_life(seed) for seed in seeds]
    found = {}
    for case, expected in zip(cases, kafkas_answers("StoreLives", cases), strict=True):
        for number, (theirs, ours) in enumerate(zip(expected, live(case), strict=True)):
            if theirs != ours:
                calls = json.dumps(case["records"][number]["calls"])
                found[case["name"]] = f"record {number}: {calls}\n  expected {theirs}\n  here     {ours}"
                break
    return found


def test_stores_answer_and_evict_as_kafkas_do() -> None:
    assert differences(range(150)) == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_stores_answer_and_evict_as_kafkas_do() -> None:
    first, last = os.environ.get("STREAMS_SEEDS", "150:20000").split(":")

    assert differences(range(int(first), int(last))) == {}
