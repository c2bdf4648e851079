"""The vectors of all messages: what Kafka's own classes write for every type and version."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.protocol.api import message_class

DATA = Path(__file__).parent / "data"
#: `nulls` has each nullable field null by itself, all of them and none, and in older versions all of them.
FILES = (
    "message-vectors",
    "message-vectors-metadata",
    "message-vectors-3.9",
    "message-vectors-nulls",
    "message-vectors-share",
)


class Vector(NamedTuple):
    """One message, as JSON and as bytes."""

    message: str
    version: int
    json: dict[str, Any]
    data: bytes


@cache
def message_vectors() -> list[Vector]:
    """What Kafka 4.3 writes, its metadata log included, and what brokers of 3.9 say in versions that are known."""
    vectors = [vector for file in FILES for vector in vectors_of(file)]
    return [vector for vector in vectors if is_known(vector)]


@cache
def vectors_of(file: str) -> list[Vector]:
    lines = [json.loads(line) for line in gzip.decompress((DATA / f"{file}.jsonl.gz").read_bytes()).splitlines()]
    return [Vector(line["message"], line["version"], line["json"], bytes.fromhex(line["hex"])) for line in lines]


def is_known(vector: Vector) -> bool:
    low, high = message_class(vector.message).VALID_VERSIONS
    return low <= vector.version <= high
