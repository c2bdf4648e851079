"""Applications that produce: idempotent, and in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.errors import IllegalStateError, KafkaError, KafkaTimeoutError, TransactionAbortableError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.ledger import ABORTED, UNKNOWN, Sent, Transaction

if TYPE_CHECKING:
    from barnabas.client.producer.append import RecordMetadata
    from barnabas.testing.simulator.actors import Application


class Sender:
    """One producer, whose records it numbers."""

    def __init__(self, actor: Actor, number: int, topics: dict[str, int], settings: dict[str, Any]) -> None:
        self.origin = f"{actor.life}.{number}"
        self.producer = actor.clients.producer(bootstrap_servers=BOOTSTRAP, client_id=self.origin, **settings)
        self._actor = actor
        self._partitions = [TopicPartition(topic, index) for topic, count in topics.items() for index in range(count)]
        self._number = 0

    def init_transactions(self) -> None:
        """Take over from the producer that had the transactional id before."""
        with self._actor.ledger.taking_over(self._actor.name, self.origin):
            self.producer.init_transactions()

    def begin(self) -> Transaction:
        """Begin a transaction; until a commit is asked for, no event can commit it."""
        transaction = self._actor.ledger.begin(self.origin)
        transaction.outcome = ABORTED
        self.producer.begin_transaction()
        return transaction

    def send(self, transaction: Transaction | None = None, what: str = "") -> Sent:
        """Send one record to a partition drawn by lot."""
        random, ledger = self._actor.random, self._actor.ledger
        partition = random.choice(self._partitions)
        self._number += 1
        value = f"{self.origin}|{self._number}|{what}|".encode()
        value += b"." * random.choice((0, 0, 10, 100, 1500))
        sent = ledger.sending(value, self.origin, self._number, partition, transaction)

        def delivered(metadata: RecordMetadata, error: BaseException | None) -> None:
            ledger.delivered(sent, metadata.offset, error)

        self.producer.send(partition.topic, value, partition=partition.partition, on_delivery=delivered)
        return sent

    def end(self, transaction: Transaction, *, commit: bool) -> bool:
        """Commit or abort, and note what is known of it; whether it was committed. Raises what ends the producer."""
        actor = self._actor
        if commit:
            transaction.outcome = UNKNOWN
            asked_at = actor.world.now
            try:
                self.producer.commit_transaction()
            except (TransactionAbortableError, IllegalStateError) as problem:
                actor.failed("commit", problem)
            except KafkaError as problem:
                if self.producer._calls.has_failed or isinstance(problem, KafkaTimeoutError):
                    raise
                actor.failed("commit", problem)
            else:
                actor.ledger.committed_transaction(transaction, asked_at)
                return True
        self.producer.abort_transaction()
        transaction.outcome = ABORTED
        actor.world.counts["transactions aborted"] += 1
        return False


class SendingActor(Actor):
    """Sends records with one producer after the other, each until it fails for good."""

    IN_LOOP = 0.4

    def __init__(
        self, application: Application, number: int, *, topics: dict[str, int], settings: dict[str, Any], pace: float
    ) -> None:
        super().__init__(application, number)
        self._topics = topics
        self._settings = settings
        self._pace = pace
        # When a batch has expired, what was sent after it is sent again in another epoch. If the connection's last
        # bytes come later than that, it is there twice; in Apache Kafka, too (KIP-360 takes the gap for certain).
        self.process.resets_connections = settings["delivery_timeout_ms"] <= settings["request_timeout_ms"] + 1000

    def live(self, life: str) -> None:
        """See `Actor`."""
        made = 0
        while not self.is_stopping:
            made += 1
            sender = Sender(self, made, self._topics, self._settings)
            try:
                self._use(sender)
            except KafkaError as problem:
                self.failed(self._what, problem)
                sender.producer.close(self.random.choice((0, 2.0)))
                if self.is_superseded and self.random.random() < 0.5:
                    return
                self.pause(0.5)
            else:
                sender.producer.close()

    _what = "produce"

    def _use(self, sender: Sender) -> None:
        """Send until told to stop."""
        raise NotImplementedError


class ProducerActor(SendingActor):
    """Sends records, idempotent and in order."""

    def _use(self, sender: Sender) -> None:
        while not self.is_stopping:
            for _ in range(self.random.randint(1, 6)):
                sender.send()
            if self.random.random() < 0.1:
                sender.producer.flush()
            self.pause(self._pace)


class TransactionActor(SendingActor):
    """Sends records in transactions, and commits or aborts them; all its lives share one transactional id."""

    _what = "transaction"

    def _use(self, sender: Sender) -> None:
        sender.init_transactions()
        while not self.is_stopping:
            self._transact(sender)
            self.pause(self._pace)

    def _transact(self, sender: Sender) -> None:
        random = self.random
        transaction = sender.begin()
        try:
            for _ in range(random.randint(0, 8)):
                sender.send(transaction)
                if random.random() < 0.2:
                    self.pause(self._pace)
            if random.random() < 0.1:
                sender.producer.flush()
        except KafkaError as problem:
            self.failed("send in a transaction", problem)
        sender.end(transaction, commit=random.random() < 0.7)
