"""What Apache Kafka 4.3.1's own classes make of streams groups: records, counts of partitions, assignments.

The file was made by `tests/interop/java/StreamsGroupOracle.java` from the questions of `streams_oracle`;
`tests/interop/test_streams_groups_java.py` asks others.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import streams_oracle
from tests.support.streams_oracle import Question, flat

PATH = Path(__file__).parent / "data" / "streams-group-vectors.jsonl.gz"
VECTORS = [json.loads(line) for line in gzip.decompress(PATH.read_bytes()).splitlines()]


def of_kind(kind: str) -> list[tuple[Question, Any]]:
    return [(one["question"], one["answer"]) for one in VECTORS if one["question"]["kind"] == kind]


def test_records_are_those_of_apache_kafka() -> None:
    for question, answer in of_kind("records"):
        assert streams_oracle.written(question) == answer


def test_internal_topics_are_counted_as_apache_kafka_counts_them() -> None:
    found = [(question, answer) for question, answer in of_kind("configure") if streams_oracle.is_alike(question)]
    assert {answer.get("status", answer.get("failure")) for _, answer in found} == {
        None,
        1,
        2,
        3,
        "StreamsInvalidTopologyException",
    }
    for question, answer in found:
        assert streams_oracle.configured(question) == answer, question


@pytest.mark.parametrize("seed", range(4))
def test_the_assignor_is_as_even_and_as_sticky_as_apache_kafkas(seed: int) -> None:
    check_assignments(of_kind("assign")[seed::4])


def check_assignments(asked: list[tuple[Question, Any]]) -> None:
    kept, uneven = [0, 0], [0, 0]
    for question, answer in asked:
        ours = {name: (target.active, target.standby) for name, target in streams_oracle.assigned(question).items()}
        check_one(question, ours)
        for index, found in enumerate((ours, answer)):
            had = {name: flat(member["active"]) for name, member in question["members"].items()}
            kept[index] += sum(len(flat(found[name][0]) & had[name]) for name in had)
            counts = [len(flat(active)) for active, _ in found.values()]
            uneven[index] += max(counts) - min(counts)
        copies = [sum(len(flat(standby)) for _, standby in found.values()) for found in (ours, answer)]
        assert copies[0] == copies[1], question
    # Neither says what happens between equals, so a single case may go either way.
    assert kept[0] >= 0.99 * kept[1]
    assert uneven[0] <= uneven[1]


def check_one(question: Question, found: dict[str, Any]) -> None:
    """Every task is worked on once, and no process has a task twice."""
    parts = question["subtopologies"].items()
    tasks = {(name, number) for name, (count, _) in parts for number in range(count)}
    active = [task for mine, _ in found.values() for task in flat(mine)]
    assert sorted(active) == sorted(tasks)
    of_process: dict[str, list[tuple[str, int]]] = {}
    for name, (mine, copies) in found.items():
        of_process.setdefault(question["members"][name]["process"], []).extend([*flat(mine), *flat(copies)])
    assert all(len(held) == len(set(held)) for held in of_process.values())
    wanted = min(question["replicas"], len(of_process) - 1)
    stateful = {(name, number) for name, (count, is_stateful) in parts for number in range(count) if is_stateful}
    copied = [task for _, copies in found.values() for task in flat(copies)]
    assert all(copied.count(task) == (wanted if task in stateful else 0) for task in tasks)
