"""Kafka's own assignments, made by its Java classes, against ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.consumer.assignors.consumer_partition_assignor import PartitionCountAssignor, Subscription
from barnabas.client.consumer.assignors.range_assignor import RangeAssignor
from barnabas.client.consumer.assignors.round_robin_assignor import RoundRobinAssignor

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "assignor-vectors.jsonl").read_text(encoding="utf-8").splitlines()
]
ASSIGNORS: dict[str, PartitionCountAssignor] = {"range": RangeAssignor(), "roundrobin": RoundRobinAssignor()}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_assigns_as_kafka_does(name: str) -> None:
    vectors: list[dict[str, Any]] = [vector for vector in VECTORS if vector["assignor"] == name]

    for vector in vectors:
        subscriptions = {member: Subscription(topics) for member, topics in vector["subscriptions"].items()}
        dealt = ASSIGNORS[name].assign_partitions(vector["partitions"], subscriptions)

        assert {member: [str(p) for p in partitions] for member, partitions in dealt.items()} == vector["assignment"]

    assert len(vectors) == 120
