"""murmur2 and the partition of a key, against what Kafka's own Java classes compute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.client.producer.partitioner import murmur2, partition_for_key

LINES = (Path(__file__).parent / "data" / "partitioning-vectors.jsonl").read_text(encoding="utf-8").splitlines()
KEYS = [vector for vector in map(json.loads, LINES) if "murmur2" in vector]


def test_there_are_vectors_of_every_length_modulo_four() -> None:
    assert {len(bytes.fromhex(vector["key"])) % 4 for vector in KEYS} == {0, 1, 2, 3}


@pytest.mark.parametrize("vector", KEYS, ids=lambda vector: vector["key"][:16] or "empty")
def test_murmur2_and_partitions_are_javas(vector: dict[str, int | str]) -> None:
    key = bytes.fromhex(str(vector["key"]))

    assert murmur2(key) == vector["murmur2"]
    assert {f"of{count}": partition_for_key(key, count) for count in (1, 3, 6, 50)} == {
        name: vector[name] for name in ("of1", "of3", "of6", "of50")
    }
