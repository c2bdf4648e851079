"""How a task with a state of its own tells the decision log of it: by a row among its rows, which is no record.

The row's topic is `NOTE_TOPIC`, which no topic can be named; its value is a `Note`. The sink takes such rows only from
those who ask for it (`takeNotes=true`), which is `barnabas.streams`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.spark.exactly_once.decision import DecisionError, TaskState

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.protocol.topic_partition import TopicPartition

NOTE_TOPIC = ""


class Note(NamedTuple):
    """A task's name and its text; `topics` are those whose last offsets it wants to know when it restores its state."""

    task: str
    text: str
    topics: tuple[str, ...]

    def encode(self) -> bytes:
        """Return the value of the row."""
        return json.dumps(self, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Note:
        """Return what `encode` made a value of."""
        task, text, topics = json.loads(value)
        return cls(task, text, tuple(topics))


class NoteTaker:
    """Takes the notes out of a task's rows; there may be one."""

    def __init__(self) -> None:
        self._note: Note | None = None

    def without_notes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are records. Raises DecisionError for a second note."""
        import pyarrow.compute as pc

        is_note = pc.equal(batch.column("topic"), NOTE_TOPIC)
        for value in batch.filter(is_note).column("value"):
            if self._note is not None:
                raise DecisionError(f"a task has left two notes on its state, of {self._note.task} and {value}")
            self._note = Note.decode(value.as_py())
        return batch.filter(pc.invert(is_note)) if self._note is not None else batch

    def state(self, ends: Iterable[tuple[TopicPartition, int]]) -> TaskState | None:
        """Return what the task leaves, once its rows are stored: `ends` are the last offsets that it wrote."""
        if self._note is None:
            return None
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(ends):
            if topic in self._note.topics:
                found.setdefault(topic, {})[str(partition)] = offset
        return TaskState(self._note.task, self._note.text, found)
