"""Topologies with inputs, and what Apache Kafka 4.3.1's own TopologyTestDriver makes of them, record by record.

README.md explains the format; `python -m tools.streams_vectors FILE` runs any file of it.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tools.streams_vectors.__main__ import difference_of, main, read

FILE = Path(__file__).parent / "topology-vectors.jsonl.gz"
CASES = sorted(read(FILE), key=lambda case: case["category"])
CATEGORIES = {category: list(cases) for category, cases in groupby(CASES, key=lambda case: case["category"])}


@pytest.mark.parametrize("category", CATEGORIES)
def test_topologies_give_what_kafka_gives(category: str) -> None:
    differences = {case["name"]: difference_of(case) for case in CATEGORIES[category]}

    assert {name: text for name, text in differences.items() if text is not None} == {}


def spoilt(case: dict[str, Any], part: str) -> dict[str, Any]:
    expected = dict(case["expected"])
    if part == "describe":
        expected["describe"] = expected["describe"].replace("Sink", "Sunk")
    elif part == "dropped_records":
        expected["dropped_records"] += 1
    else:
        outputs = [dict(output) for output in expected["outputs"]]
        last = next(output for output in reversed(outputs) if output.get(part))
        last[part] = last[part][:-1]
        expected["outputs"] = outputs
    return {**case, "expected": expected}


@pytest.mark.parametrize("part", ["describe", "dropped_records", "records", "internal", "seen"])
def test_the_comparison_sees_each_part(part: str) -> None:
    case = next(
        case
        for case in CASES
        if "error" not in case["expected"]
        and (part in case["expected"] or any(output.get(part) for output in case["expected"]["outputs"]))
    )

    assert difference_of(case) is None
    assert difference_of(spoilt(case, part)) is not None


def test_the_command_prints_the_number_of_equal_cases_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FILE), "stateless"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(CATEGORIES['stateless'])} of 33 equal"
