"""Which topic-partitions one task reads together, and when a task runs without any news: the option `coPartitions`.

`{"groups": {"0": {"topics": ["flights", "planes"]}, "1": {"topics": ["delays"], "clock_ms": 1000}},
"shared": ["airports"]}`: partition p of all topics of a group is one task, called GROUP_p as Kafka Streams names its
tasks. With `clock_ms` all tasks of the group run whenever the time of the micro-batches passes a multiple of it. With
`tasks` the group has so many, and reads topics that are not planned, too: a query begins with a micro-batch then.
`shared` topics are planned and not read: each task is told how far they reach.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.spark.errors import OptionError
from barnabas.spark.offsets import CLOCK
from barnabas.spark.ranges import OffsetRange


class Group(NamedTuple):
    """Topics whose partitions of the same number are one task, in the order in which ties of time are decided.

    `tasks` is how many there are where they read topics that are not planned, too.
    """

    topics: tuple[str, ...]
    clock_ms: int | None = None
    tasks: int | None = None

    def is_due(self, before_ms: int, now_ms: int) -> bool:
        """Whether all tasks run in a micro-batch of this time, which follows one of the other."""
        return self.clock_ms is not None and now_ms // self.clock_ms > before_ms // self.clock_ms


class CoPartitions(NamedTuple):
    """All groups by name, and the topics that every task may read by itself."""

    groups: dict[str, Group]
    shared: tuple[str, ...] = ()

    @property
    def topics(self) -> set[str]:
        """All topics of which the query must know the offsets."""
        return {topic for group in self.groups.values() for topic in group.topics} | set(self.shared)

    @property
    def begins_with_a_batch(self) -> bool:
        """Whether something may wait of which the offsets tell nothing."""
        return any(group.tasks is not None for group in self.groups.values())

    def to_json(self) -> str:
        """Return the option's value."""
        groups = {
            name: {field: value for field, value in group._asdict().items() if value is not None}
            for name, group in self.groups.items()
        }
        return json.dumps({"groups": groups, "shared": self.shared})


class PlannedTask(NamedTuple):
    """One task of a micro-batch: its ranges in the order of the group's topics, the time, the shared topics' ends."""

    name: str
    partition: int
    ranges: tuple[OffsetRange, ...]
    now_ms: int
    shared: tuple[OffsetRange, ...]

    def to_json(self) -> str:
        """Return what the task's first row tells."""

        def offsets(ranges: Iterable[OffsetRange]) -> list[tuple[str, int, int, int]]:
            return [(*each.topic_partition, each.start, each.end) for each in ranges]

        return json.dumps({
            "task": self.name, "now_ms": self.now_ms, "ranges": offsets(self.ranges), "shared": offsets(self.shared),
        })  # fmt: skip


def planned_tasks(
    wanted: CoPartitions, ranges: Iterable[OffsetRange], before_ms: int, now_ms: int
) -> list[PlannedTask]:
    """Return the tasks that have something to read, and those that are due."""
    by_place = {(each.topic_partition.topic, each.topic_partition.partition): each for each in ranges}
    shared = shared_ranges(wanted, by_place.values())
    found = []
    for name, group in wanted.groups.items():
        is_due = group.is_due(before_ms, now_ms)
        numbers = {number for topic, number in by_place if topic in group.topics}
        for number in sorted(numbers | set(range((group.tasks or 0) if is_due else 0))):
            own = tuple(by_place[topic, number] for topic in group.topics if (topic, number) in by_place)
            if any(each.size > 0 for each in own) or is_due:
                found.append(PlannedTask(f"{name}_{number}", number, own, now_ms, shared))
    return found


def shared_ranges(wanted: CoPartitions, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return how far the topics reach that every task may read by itself."""
    return tuple(each for each in sorted(ranges) if each.topic_partition.topic in wanted.shared)


def time_of(offsets: Mapping[str, Mapping[str, int]]) -> int:
    """Return the time of the micro-batch that ends here, in milliseconds; 0 before the first."""
    return offsets.get(CLOCK, {}).get("0", 0)


def with_time(offsets: Mapping[str, Mapping[str, int]], now_ms: int) -> dict[str, dict[str, int]]:
    """Return the offsets with this time for the micro-batch that ends there."""
    return {**{topic: dict(found) for topic, found in offsets.items()}, CLOCK: {"0": now_ms}}


def parse_co_partitions(value: str) -> CoPartitions:
    """Read the option's value. Raises OptionError that shows its form."""
    try:
        content = json.loads(value)
        groups = {name: _group(**group) for name, group in content.pop("groups").items()}
        shared = _names(content.pop("shared", ()))
        if content or not groups:
            raise ValueError("only groups, at least one, and shared are known")
        return CoPartitions(groups, shared)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OptionError(
            f"option coPartitions={value!r} is not of the form "
            f'{{"groups":{{"0":{{"topics":["a","b"],"clock_ms":1000}}}},"shared":["c"]}}: {error}'
        ) from error


def _group(topics: Any, clock_ms: Any = None, tasks: Any = None) -> Group:
    for name, value in (("clock_ms", clock_ms), ("tasks", tasks)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ValueError(f"{name}={value!r} is not a positive whole number")
    return Group(_names(topics), clock_ms, tasks)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"{value!r} is no list of topics")
    return tuple(value)
