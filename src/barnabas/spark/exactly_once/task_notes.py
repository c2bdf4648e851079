"""How a task with a state of its own tells the decision log of it: by a note that it leaves with its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.spark.exactly_once.decision import TaskState

if TYPE_CHECKING:
    from barnabas.protocol.topic_partition import TopicPartition


class Note(NamedTuple):
    """A task's name and its text; `topics` are those whose last offsets it wants to know when it restores its state."""

    task: str
    text: str
    topics: tuple[str, ...]

    def state(self, ends: Iterable[tuple[TopicPartition, int]]) -> TaskState:
        """Return what the task leaves, once its rows are stored: `ends` are the last offsets that it wrote."""
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(ends):
            if topic in self.topics:
                found.setdefault(topic, {})[str(partition)] = offset
        return TaskState(self.task, self.text, found)
