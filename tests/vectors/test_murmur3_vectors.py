"""The hash of foreign-key joins, against what Kafka's Murmur3.hash128 computes: lengths 0 to 49, and longer ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.streams.serdes.murmur3 import hash128

LINES = (Path(__file__).parent / "data" / "murmur3-vectors.jsonl").read_text(encoding="utf-8").splitlines()
VECTORS = [(bytes.fromhex(vector["data"]), tuple(vector["hash"])) for vector in map(json.loads, LINES)]


def test_there_are_vectors_of_every_length_of_a_tail() -> None:
    assert {len(data) % 16 for data, _ in VECTORS if len(data) > 16} == set(range(16))


@pytest.mark.parametrize(("data", "hashed"), VECTORS, ids=[f"{len(data)} bytes" for data, _ in VECTORS])
def test_the_hash_is_javas(data: bytes, hashed: tuple[int, int]) -> None:
    assert hash128(data) == hashed
