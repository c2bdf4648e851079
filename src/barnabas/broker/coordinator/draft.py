"""Records, and what they do to a coordinator's state: one act (CoordinatorResult)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.broker.coordinator.partition_storage import Record

#: What a record does to the state; its offset is the argument.
Change = Callable[[int], None]


class Draft:
    """Changes of a coordinator's state, each with its record. What is not committed never was.

    A change must not fail: it is made when its record is in the log already.
    """

    __slots__ = ("_afterwards", "_changes", "records")

    def __init__(self, records: Iterable[Record] = ()):
        self.records: list[Record] = list(records)
        self._changes: list[Change | None] = [None] * len(self.records)
        self._afterwards: list[Callable[[], None]] = []

    def put(self, record: Record, change: Change | None = None) -> None:
        """Add a record, and what it changes; without a change, the change of another record of this draft covers it."""
        self.records.append(record)
        self._changes.append(change)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Do something that has no record (timers, answers to parked requests) once all changes are made."""
        self._afterwards.append(action)

    def commit(self, append: Callable[[Sequence[Record]], int]) -> None:
        """Write the records, all or none, then make the changes, in order. Raises `KafkaError`; then nothing changed.

        `append` writes records and gives the offset of the first.
        """
        if self.records:
            offset = append(self.records)
            for change in self._changes:
                if change is not None:
                    change(offset)
                offset += 1
        for action in self._afterwards:
            action()
