"""What clients of a `ReplicatedCluster` did, as a history that `check_queue` judges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.support.histories import Anomaly, Outcome, Poll, Send, Transaction, check_queue

if TYPE_CHECKING:
    from tests.support.replicated_node import World

#: ww cycles are what Kafka allows: records of a transaction are written before it commits.
ALLOWED = frozenset(("G0",))
Found = tuple[int, bytes]


class ReplicatedHistory:
    """Writers, and two kinds of readers: of all records, and of committed ones. Each kind is judged by itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._writes: list[Transaction] = []
        self._reads: list[Transaction] = []
        self._committed_reads: list[Transaction] = []

    def sending(self, process: Hashable, value: bytes, name: TopicPartition) -> Callable[[int], None]:
        """Note a record outside of transactions; returns whom to tell its offset once it is acknowledged."""
        index, began_at = len(self._writes), self._world.now
        self._write(process, [Send(name, value)], Outcome.UNKNOWN, began_at, None)

        def acknowledged(offset: int) -> None:
            ended_at = self._world.now
            self._writes[index] = Transaction(process, (Send(name, value, offset),), Outcome.OK, began_at, ended_at)

        return acknowledged

    def ended(
        self, process: Hashable, sends: Sequence[Send], outcome: Outcome, began_at: float, committing_at: float
    ) -> None:
        """Note a transaction. `committing_at` is when its end was first asked for."""
        self._write(process, sends, outcome, began_at, committing_at)

    def _write(
        self, process: Hashable, sends: Sequence[Send], outcome: Outcome, began_at: float, committing_at: float | None
    ) -> None:
        self._writes.append(Transaction(process, tuple(sends), outcome, began_at, self._world.now, committing_at))

    def read(self, process: Hashable, name: TopicPartition, offset: int, records: bytes, moved: bool) -> None:
        """Note what a reader of all records got from an offset on. `moved`: it did not get there by reading."""
        found = [
            (record.offset, record.value)
            for batch in read_batches(records)
            if not batch.is_control
            for record in batch
            if record.offset >= offset
        ]
        self._reads.append(self._poll(process, name, found, moved))

    def read_committed(self, process: Hashable, name: TopicPartition, found: Iterable[Found], moved: bool) -> None:
        """Note what a reader of committed records got."""
        self._committed_reads.append(self._poll(process, name, found, moved))

    def _poll(self, process: Hashable, name: TopicPartition, found: Iterable[Found], moved: bool) -> Transaction:
        now = self._world.now
        return Transaction(process, (Poll(name, tuple(sorted(found)), moved),), began_at=now, ended_at=now)

    # -- the end -----------------------------------------------------------------------------------------------------

    def audited(self, name: TopicPartition, start: int, records: Mapping[int, tuple[int, bytes]]) -> None:
        """Note all that a partition has in the end (epoch and value by offset), which begins at `start`."""
        values = {send.value for send in self._sends(name)}
        found = [(offset, value) for offset, (_, value) in records.items() if offset >= start and value in values]
        self._reads += [*self._deleted(name, start), self._poll("auditor", name, found, moved=True)]

    def audited_committed(self, name: TopicPartition, start: int, found: Iterable[Found]) -> None:
        """Note all committed records that a partition has in the end."""
        self._committed_reads += [*self._deleted(name, start), self._poll("auditor", name, found, moved=True)]

    def _sends(self, name: TopicPartition) -> list[Send]:
        return [send for one in self._writes for send in one.operations if send.key == name]

    def _deleted(self, name: TopicPartition, start: int) -> list[Transaction]:
        """What was acknowledged and then deleted counts as read: it is not lost."""
        return [
            self._poll("auditor", name, [(send.offset, send.value)], moved=True)
            for one in self._writes
            if one.outcome is Outcome.OK
            for send in one.operations
            if send.key == name and send.offset is not None and send.offset < start
        ]

    def judge(self) -> None:
        """Raise AssertionError for what must not be."""
        wrong = self._anomalies(self._reads, read_committed=False)
        if self._committed_reads:
            wrong += self._anomalies(self._committed_reads, read_committed=True)
        assert not wrong, f"{len(wrong)} anomalies in the history: " + "; ".join(map(str, wrong[:5]))

    def _anomalies(self, reads: list[Transaction], *, read_committed: bool) -> list[Anomaly]:
        history = sorted([*self._writes, *reads], key=lambda one: one.began_at)
        if not read_committed:
            # What was aborted is there for them: no acknowledged record of it is missing.
            history = [one._replace(outcome=Outcome.UNKNOWN) if one.committing_at else one for one in history]
        return [one for one in check_queue(history, read_committed=read_committed) if one.name not in ALLOWED]
