"""Applications that consume, transform and produce, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
    UnreleasedInstanceIdError,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.membership import GroupMember
from barnabas.testing.simulator.producing import Sender

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_record import ConsumerRecord

#: More than a poll brings.
MOST_RECORDS = 1000


class TransformActor(GroupMember):
    """Reads committed records, and writes one for each in the same transaction.

    Before the time `hurries_from` some of them take long, and the group may go on to another generation meanwhile.
    """

    def __init__(
        self, *place: Any, output: dict[str, int], producing: dict[str, Any], hurries_from: float, **more: Any
    ) -> None:
        super().__init__(*place, auto_commits=False, **more)
        self._hurries_from = hurries_from
        self._output = output
        self._producing = producing
        self._sender: Sender | None = None
        self._senders = 0
        #: How many records a transaction takes: after one that did not get done in time half as many, then more again.
        self._most = MOST_RECORDS

    def turn(self) -> None:
        """See `GroupMember`."""
        try:
            sender = self._ready_sender()
            records = self.consumer.poll(self.random.choice((0.05, 0.3)))
            if len(records):
                self._transform(sender, self._first_of(list(records)))
            self.pause(1.0)
        except (FencedInstanceIdError, UnreleasedInstanceIdError):
            raise
        except KafkaError as problem:
            self.failed("transform", problem)
            self._drop_sender(0)
            # Two that both stayed would shut each other out for ever.
            if isinstance(problem, ProducerFencedError) and self.is_superseded and self.random.random() < 0.5:
                self.gives_way = True
            self._go_back()

    def _ready_sender(self) -> Sender:
        if self._sender is None:
            self._senders += 1
            self._sender = Sender(self, self._senders, self._output, self._producing)
            self._sender.init_transactions()
        return self._sender

    def _drop_sender(self, timeout: float) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.producer.close(timeout)

    def _first_of(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """As many as a transaction takes; the others are read again.

        Where each batch waits for a flush, what one poll brings may take longer than a record may wait.
        """
        for record in reversed(records[self._most :]):
            self.consumer.seek(TopicPartition(record.topic, record.partition), record.offset)
        return records[: self._most]

    def _transform(self, sender: Sender, records: list[ConsumerRecord[Any, Any]]) -> None:
        sessions = [self.session_of(record) for record in records]
        if None in sessions:
            return
        # As whom it has read them: a group that has gone on meanwhile takes no offsets for it.
        read_as = self.consumer.group_metadata()
        if self.world.now < self._hurries_from and self.random.random() < 0.4:
            self._work_long()
            has_lost_some = any(session is not self.sessions.get(session.partition) for session in sessions if session)
            if has_lost_some and self.consumer.group_metadata() == read_as:
                # Lost, and got back in the same epoch: that it cannot be told apart is why the listener was told.
                self._go_back()
                return
        transaction = sender.begin()
        offsets: dict[TopicPartition, int] = {}
        for record in records:
            # What it is made of: a record of which a result is visible counts as read by the group.
            sender.send(transaction, f"{self.group}/{record.topic}/{record.partition}/{record.offset}")
            offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
        commits = self.random.random() < 0.9
        asked_at = self.world.now
        try:
            sender.producer.send_offsets_to_transaction(offsets, read_as)
        except (CommitFailedError, TransactionAbortableError) as problem:
            self.failed("offsets in a transaction", problem)
            commits = False
        tried = self._most
        if commits:
            # Before the end, which raises an error where the transaction took longer than its time-out.
            self._most = max(1, len(records) // 2)
        if sender.end(transaction, commit=commits):
            self.ledger.commit_acknowledged(self.who, offsets.items(), asked_at)
            self._most = min(2 * tried, MOST_RECORDS)
        else:
            self._go_back()

    def _work_long(self) -> None:
        """Stay a member while something is made of the records elsewhere; what comes meanwhile is read again later."""
        consumer = self.consumer
        until = self.world.now + self.random.uniform(0.5, 6)
        self.world.counts["long transformations"] += 1
        try:
            while self.world.now < until and not self.is_stopping:
                consumer.pause(*consumer.assignment())
                first: dict[TopicPartition, int] = {}
                for record in consumer.poll(0.2):
                    first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
                for partition, offset in first.items():
                    consumer.seek(partition, offset)
        finally:
            consumer.resume(*consumer.assignment())

    def _go_back(self) -> None:
        """Read again what was not transformed."""
        while not self.is_stopping:
            assigned = self.consumer.assignment()
            try:
                committed = self.consumer.committed(assigned, timeout=5.0)
            except KafkaTimeoutError as problem:
                self.failed("committed", problem)
                continue
            for partition in sorted(assigned):
                found = committed[partition]
                self.consumer.seek(partition, found.offset if found is not None else 0)
            return

    def close(self) -> None:
        """See `GroupMember`."""
        self._drop_sender(5.0)
        super().close()
