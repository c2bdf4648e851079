"""A plan of offsets as people keep it in a file: lines of `topic,partition,offset`, as Kafka's scripts write them."""

from __future__ import annotations

import csv

from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

_FIELDS = ("topic", "partition", "offset")


def parse_plan(text: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition; empty lines and a line of the fields' names are passed over.

    Raises `IllegalArgumentError`, which names the line, for one that says something else or names a partition again.
    """
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        cells = next(csv.reader([line], skipinitialspace=True), [])
        if not any(cells) or tuple(cell.strip().lower() for cell in cells) == _FIELDS:
            continue
        if len(cells) != len(_FIELDS) or not cells[0] or not all(_is_number(cell) for cell in cells[1:]):
            raise IllegalArgumentError(f"line {number} is {line!r}: write topic,partition,offset")
        partition = TopicPartition(cells[0], int(cells[1]))
        if partition in found:
            raise IllegalArgumentError(f"line {number} names {partition} again")
        found[partition] = int(cells[2])
    if not found:
        raise IllegalArgumentError("there is no line of topic,partition,offset")
    return found


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdecimal() and len(text.strip()) < 19
