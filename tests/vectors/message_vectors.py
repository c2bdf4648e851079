"""The vectors of all messages: what Kafka's own classes write for every type and version."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data" / "message-vectors.jsonl.gz"


class Vector(NamedTuple):
    """One message, as JSON and as bytes."""

    message: str
    version: int
    json: dict[str, Any]
    data: bytes


@cache
def message_vectors() -> list[Vector]:
    lines = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
    return [Vector(line["message"], line["version"], line["json"], bytes.fromhex(line["hex"])) for line in lines]
