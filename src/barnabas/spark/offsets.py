"""Offsets per topic-partition, and their JSON form `{"topic":{"0":23}}`, which is Spark's own."""

from __future__ import annotations

import json
from collections.abc import Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import OptionError

LATEST, EARLIEST = -1, -2

#: Where the offsets of a query with co-partitions hold the time of the micro-batch: no topic can be called so.
CLOCK = ""

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


def parse_offsets(option: str, value: str) -> Offsets:
    """Read `{"topic":{"0":23,"1":-2}}`; raises OptionError that names the option."""
    try:
        return from_json(json.loads(value))
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f"option {option}={value!r} is neither earliest, nor latest, nor offsets of the form "
            f'{{"topic":{{"0":23,"1":-2}}}} (-1 is latest, -2 earliest): {error}'
        ) from error


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Turn `{"topic":{"0":23}}` into offsets by topic-partition; the time of the micro-batch is left out."""
    return {
        TopicPartition(topic, int(partition)): _whole(offset)
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
        if topic != CLOCK
    }


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        raise ValueError(f"{value!r} is not an offset")
    return value


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Turn offsets by topic-partition into `{"topic":{"0":23}}`, sorted, for checkpoints and messages."""
    found: OffsetsJson = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found
