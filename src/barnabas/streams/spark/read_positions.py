"""Up to where the tasks have read their topics, as a decision tells it. No I/O.

A task's note says up to where its batch went. A repartition topic that was read within the batch is read, beyond that,
up to the last offset that any decided batch has written there, in any process: also where its reader had
nothing to do, or was not lost when what it had read was written anew (`barnabas spark repair`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable
from typing import Any

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import LOST, REWRITE, Decision
from barnabas.spark.offsets import Offsets


def positions_of(decision: Decision | None) -> Offsets:
    """Return where the tasks stand after a decision."""
    found: Offsets = {}
    if decision is None:
        return found
    states = decision.states_after().values()
    for state in states:
        for topic, ends in noted(state.note).get("positions", {}).items():
            for number, end in ends.items():
                # A task whose sub-topology has another number now has left a note of its own, which is older.
                _raise(found, TopicPartition(topic, int(number)), end)
    # Whether who was to read what is lost has read it is not known before it is written again.
    for state in decision.states if decision.state in (LOST, REWRITE) else states:
        for topic in noted(state.note).get("inner", ()):
            for number, offset in state.ends.get(topic, {}).items():
                _raise(found, TopicPartition(topic, int(number)), offset + 1)
    return found


def _raise(found: Offsets, partition: TopicPartition, offset: int) -> None:
    found[partition] = max(offset, found.get(partition, 0))


def note_of_reading(
    ranges: Iterable[tuple[str, int, int, int]], reads: Collection[str], inner: Collection[str], *, is_within: bool
) -> dict[str, Any]:
    """Return what a task's note says of what it has read, by (topic, partition, start, end).

    `positions` are up to where, `began` from where in the repartition topics that it `reads`, `inner` those topics that
    it writes and that can be read within a batch, `within` that they were.
    """
    found: dict[str, Any] = {"positions": {}}
    for topic, partition, start, end in ranges:
        found["positions"].setdefault(topic, {})[str(partition)] = end
        if topic in reads:
            found.setdefault("began", {}).setdefault(topic, {})[str(partition)] = start
    if inner:
        found["inner"] = sorted(inner)
    if is_within:
        found["within"] = True
    return found


@functools.lru_cache(maxsize=4096)
def noted(note: str) -> dict[str, Any]:
    """Return what a note says; not to be changed. Each batch asks for those of all tasks, most of which are old."""
    found: dict[str, Any] = json.loads(note)
    return found
