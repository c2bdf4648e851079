"""What a task goes on from when its topology has changed: states of the tasks that had its stores and topics. No I/O.

Decisions name states by task, `SUBTOPOLOGY_PARTITION`, and a change of the topology may give sub-topologies other
numbers. Changelogs keep their names and partitions, so how far a task's changelogs go is what any state of the decision
says of them at most; a state that is older than the change says less, for offsets only grow. Times of the task are
taken over by what they belong to: topics, stores, and operators whose name the user gave. Other names are generated
from a counter, and may be another operator's now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.spark.exactly_once.decision import TaskState
from barnabas.streams.spark.topology_shape import is_generated

Ends = dict[str, dict[str, int]]

_UNKNOWN = -1


class TaskShape(NamedTuple):
    """What a task is in its topology: the `fingerprint` of its sub-topology, what it reads, where its stores lie."""

    partition: int
    fingerprint: str
    sources: frozenset[str]
    changelogs: frozenset[str]


def state_of(name: str, shape: TaskShape, states: Mapping[str, TaskState]) -> TaskState | None:
    """Return what a task goes on from, None if no state knows of it."""
    own = states.get(name)
    ends = _ends(shape, states.values())
    if own is not None and _fingerprint(own) in (None, shape.fingerprint):
        return own if ends.items() <= own.ends.items() else own._replace(ends={**own.ends, **ends})
    before = [state for state in states.values() if _concerns(state, shape)]
    if not before:
        return None
    before.sort(key=lambda state: _reach(state, shape))
    return TaskState(name, json.dumps({"id": "", "metadata": json.dumps(_metadata(shape, before))}), ends)


def _fingerprint(state: TaskState) -> str | None:
    found: str | None = json.loads(state.note).get("fingerprint")
    return found


def _ends(shape: TaskShape, states: Iterable[TaskState]) -> Ends:
    """Return up to where the task's changelogs are written."""
    number = str(shape.partition)
    found: Ends = {}
    for state in states:
        for topic in shape.changelogs & state.ends.keys():
            end = state.ends[topic].get(number, -1)
            if end > found.get(topic, {}).get(number, -1):
                found[topic] = {number: end}
    return found


def _concerns(state: TaskState, shape: TaskShape) -> bool:
    number = str(shape.partition)
    read = json.loads(state.note).get("positions", {})
    return any(number in found for topic, found in read.items() if topic in (shape.sources | shape.changelogs)) or any(
        number in found for topic, found in state.ends.items() if topic in shape.changelogs
    )


def _reach(state: TaskState, shape: TaskShape) -> int:
    """Return a number that is greater for the newer of two states of the same topics."""
    number = str(shape.partition)
    read = json.loads(state.note).get("positions", {})
    topics = shape.sources | shape.changelogs
    read_up_to: int = sum(found.get(number, 0) for topic, found in read.items() if topic in topics)
    # A state may tell, too, where the repartition topics end that its task has written.
    return read_up_to + sum(found.get(number, 0) for topic, found in state.ends.items() if topic in shape.changelogs)


def _metadata(shape: TaskShape, states: Iterable[TaskState]) -> dict[str, Any]:
    """Return one task's times from those of several, the older ones first: see `Task.metadata`."""
    times: dict[str, int] = {}
    operators: dict[str, Any] = {}
    stores: dict[str, Any] = {}
    for state in states:
        each = json.loads(json.loads(state.note)["metadata"])
        for topic, number, time in each["partition_times"]:
            if topic in shape.sources and number == shape.partition:
                times[topic] = max(time, times.get(topic, _UNKNOWN))
        operators |= {name: kept for name, kept in each["operators"].items() if not is_generated(name)}
        stores |= each["stores"]
    return {
        "stream_time": max(times.values(), default=_UNKNOWN),
        "partition_times": [[topic, shape.partition, time] for topic, time in times.items()],
        "operators": operators,
        "stores": stores,
        "punctuations": {},
    }
