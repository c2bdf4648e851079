"""Where replicas go: the JSON of kafka-reassign-partitions, and partitions spread over brokers."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import TopicPartition
from barnabas.admin import TopicPartitionReplica
from barnabas.cli.reassignment_plan import Assignment, from_text, spread, to_document
from barnabas.errors import IllegalArgumentError


def _document(**changes: Any) -> str:
    entry = {"topic": "flights", "partition": 0, "replicas": [1, 2], **changes}
    return json.dumps({"version": 1, "partitions": [entry]})


def test_a_document_of_the_java_tool_is_read_and_written() -> None:
    text = _document(log_dirs=["any", "any"])
    plan = from_text(text, "plan.json")
    assert plan == ({TopicPartition("flights", 0): [1, 2]}, {})
    assert json.dumps(to_document(*plan)) == _document()


def test_a_document_may_name_directories_of_replicas() -> None:
    text = _document(log_dirs=["any", "/disk/2"])
    plan = from_text(text, "plan.json")
    assert plan.directories == {TopicPartitionReplica("flights", 0, 2): "/disk/2"}
    assert json.dumps(to_document(*plan)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "plan.json is no JSON"),
        ("[]", "a list `partitions`"),
        ('{"partitions": []}', "not empty"),
        ('{"version": 2, "partitions": [{}]}', "version 2 is not known"),
        ('{"partitions": [7]}', r"partitions\[0\]: it must have a `topic`"),
        (_document(partition=-1), "a `partition`"),
        (_document(partition=True), "a `partition`"),
        (_document(replicas=[]), "one at least"),
        (_document(replicas=[1, 1]), "each once"),
        (_document(replicas=["1"]), "ids of brokers"),
        (_document(log_dirs=["/disk/2"]), "`log_dirs` must have an absolute path, or `any`, for each"),
        (_document(log_dirs=["disk/2", "any"]), "an absolute path"),
        (_document(log_dirs="any"), "an absolute path"),
        (_document(log_dirs=[1, 2]), "an absolute path"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(IllegalArgumentError, match=says):
        from_text(text, "plan.json")


def test_a_partition_that_is_there_twice_is_refused() -> None:
    entry = {"topic": "flights", "partition": 0, "replicas": [1]}
    with pytest.raises(IllegalArgumentError, match="flights-0 is there twice"):
        from_text(json.dumps({"partitions": [entry, entry]}), "plan.json")


_IDS = st.integers(1, 8)


@st.composite
def _assignments(draw: st.DrawFn) -> Assignment:
    size = draw(st.integers(1, 3))
    replicas = draw(st.lists(st.lists(_IDS, min_size=size, max_size=size, unique=True), min_size=1, max_size=12))
    return {TopicPartition("t", number): found for number, found in enumerate(replicas)}


@given(_assignments(), st.sets(_IDS, min_size=3))
def test_replicas_are_spread_evenly_and_nothing_moves_the_second_time(current: Assignment, to: set[int]) -> None:
    brokers = dict.fromkeys(sorted(to))
    found = spread(current, brokers)
    assert found.keys() == current.keys()
    for key, replicas in found.items():
        assert len(replicas) == len(set(replicas)) == len(current[key])
        assert set(replicas) <= to
    load = Counter(dict.fromkeys(to, 0))
    load.update(broker for replicas in found.values() for broker in replicas)
    assert max(load.values()) - min(load.values()) <= 1
    assert spread(found, brokers) == found


def test_replicas_that_may_stay_do_and_only_the_missing_are_copied() -> None:
    current = {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [2, 3], TopicPartition("t", 2): [3, 1]}
    found = spread(current, {2: None, 3: None, 4: None})
    assert [set(replicas) for replicas in found.values()] == [{2, 4}, {2, 3}, {3, 4}]
    assert sorted(replicas[0] for replicas in found.values()) == [2, 3, 4]


def test_new_replicas_come_to_racks_without_one() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    current = {TopicPartition("t", number): [1] for number in range(8)}
    for replicas in spread(current, racks, 2).values():
        assert {racks[broker] for broker in replicas} == {"a", "b"}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(IllegalArgumentError, match="t-0 has 3 replicas, and there are 2 brokers for them"):
        spread({TopicPartition("t", 0): [1]}, {1: None, 2: None}, 3)
