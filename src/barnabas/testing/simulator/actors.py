"""The applications of a run: each uses real clients in a process of its own, and tells the ledger."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.producer.producer import Producer
from barnabas.errors import (
    CommitFailedError,
    GroupIdNotFoundError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RetriableError,
    TransactionAbortableError,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.broker import HOST, PORT
from barnabas.testing.simulator.event_loop import LoopConsumer
from barnabas.testing.simulator.ledger import ABORTED, COMMITTED, UNKNOWN, Sent, Session, Transaction
from barnabas.testing.simulator.world import Process

if TYPE_CHECKING:
    from random import Random

    from barnabas.testing.simulator.ledger import Ledger
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import SimulatedThread, World

BOOTSTRAP = f"{HOST}:{PORT}"


class Actor:
    """An application that lives on when its process is killed: as another process, with the same name.

    A subclass does its work in `live`, which returns when `is_stopping`; `lives` tells which process it is.
    """

    def __init__(self, name: str, world: World, network: Network, ledger: Ledger) -> None:
        self.name = name
        self.world = world
        self.network = network
        self.ledger = ledger
        self.random: Random = world.stream(name)
        self.is_stopping = False
        self.lives = 0
        self.process = Process(name)
        self.thread: SimulatedThread | None = None

    @property
    def is_done(self) -> bool:
        """Whether the application has come to its end."""
        return self.thread is not None and self.thread.done

    def start(self) -> None:
        """Begin in a new process."""
        self.lives += 1
        self.process = Process(self.name)
        life = f"{self.name}.{self.lives}"
        self.thread = self.world.spawn(life, self.process, lambda: self.live(life))

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that has something to do."""
        return not self.process.is_dead and self.thread is not None and not self.thread.done

    def kill(self) -> None:
        """End the process, as kill -9 does."""
        self.world.counts["clients killed"] += 1
        self.network.kill(self.process)

    def live(self, life: str) -> None:
        """Do the work until told to stop."""
        raise NotImplementedError

    def note(self, what: str) -> None:
        """Write into the history."""
        self.world.note(f"{self.name}.{self.lives}", what)

    def pause(self, most: float) -> None:
        """Do something else for a while."""
        self.world.sleep(self.random.random() * most)

    def failed(self, what: str, problem: KafkaError) -> None:
        """Write an error into the history that is part of life when there are faults."""
        self.world.counts[f"{what}: {type(problem).__name__}"] += 1
        self.note(f"{what}: {type(problem).__name__}: {problem}")


class Sender:
    """Numbers the records of one producer, and sends them."""

    def __init__(self, actor: Actor, life: str, topics: dict[str, int]) -> None:
        self._actor = actor
        self._life = life
        self._partitions = [TopicPartition(topic, index) for topic, count in topics.items() for index in range(count)]
        self._number = 0

    def send(
        self, producer: Producer[Any, Any], transaction: Transaction | None = None, what: str = "", to: str = ""
    ) -> Sent:
        """Send one record to a partition drawn by lot."""
        random, ledger = self._actor.random, self._actor.ledger
        partition = random.choice(self._partitions)
        self._number += 1
        value = f"{self._life}|{self._number}|{what}|".encode()
        value += b"." * random.choice((0, 0, 10, 100, 1500))
        sent = ledger.sending(value, self._life, self._number, partition, transaction)

        def delivered(metadata: Any, error: BaseException | None) -> None:
            ledger.delivered(sent, metadata.offset, error)

        producer.send(partition.topic, value, partition=partition.partition, on_delivery=delivered)
        return sent


class ProducerActor(Actor):
    """Sends records, idempotent and in order; when a producer fails for good it makes another one."""

    def __init__(self, *arguments: Any, topics: dict[str, int], settings: dict[str, Any], pace: float) -> None:
        super().__init__(*arguments)
        self._topics = topics
        self._settings = settings
        self._pace = pace

    def live(self, life: str) -> None:
        """See `Actor`."""
        made = 0
        while not self.is_stopping:
            made += 1
            producer: Producer[Any, Any] = Producer(bootstrap_servers=BOOTSTRAP, client_id=life, **self._settings)
            sender = Sender(self, f"{life}.{made}", self._topics)
            try:
                self._produce(producer, sender)
            except KafkaError as problem:
                self.failed("produce", problem)
            producer.close()

    def _produce(self, producer: Producer[Any, Any], sender: Sender) -> None:
        while not self.is_stopping:
            for _ in range(self.random.randint(1, 6)):
                sender.send(producer)
            if self.random.random() < 0.1:
                producer.flush()
            self.pause(self._pace)


class TransactionActor(Actor):
    """Sends records in transactions, and commits or aborts them; all its lives share one transactional id."""

    def __init__(self, *arguments: Any, topics: dict[str, int], settings: dict[str, Any], pace: float) -> None:
        super().__init__(*arguments)
        self._topics = topics
        self._settings = settings
        self._pace = pace

    def live(self, life: str) -> None:
        """See `Actor`."""
        made = 0
        while not self.is_stopping:
            made += 1
            producer: Producer[Any, Any] = Producer(
                bootstrap_servers=BOOTSTRAP, client_id=life, transactional_id=self.name, **self._settings
            )
            sender = Sender(self, f"{life}.{made}", self._topics)
            try:
                producer.init_transactions()
                while not self.is_stopping:
                    self._transact(producer, sender)
                    self.pause(self._pace)
            except KafkaError as problem:
                self.failed("transaction", problem)
                producer.close(0)
                self.pause(0.5)
            else:
                producer.close()

    def _transact(self, producer: Producer[Any, Any], sender: Sender) -> None:
        random = self.random
        transaction = self.ledger.begin(self.name)
        # Until a commit is asked for, it cannot be committed, whatever happens.
        transaction.outcome = ABORTED
        producer.begin_transaction()
        try:
            for _ in range(random.randint(0, 8)):
                sender.send(producer, transaction)
                if random.random() < 0.2:
                    self.pause(self._pace)
            if random.random() < 0.1:
                producer.flush()
        except KafkaError as problem:
            self.failed("send in a transaction", problem)
        end_transaction(self, producer, transaction, commit=random.random() < 0.7)


def end_transaction(actor: Actor, producer: Producer[Any, Any], transaction: Transaction, *, commit: bool) -> bool:
    """Commit or abort, and note what is known of it; whether it was committed. Raises what ends the producer."""
    counts = actor.world.counts
    if commit:
        transaction.outcome = UNKNOWN
        try:
            producer.commit_transaction()
            transaction.outcome = COMMITTED
            counts["transactions committed"] += 1
            return True
        except (TransactionAbortableError, IllegalStateError) as problem:
            actor.failed("commit", problem)
        except KafkaError as problem:
            if producer.has_failed or isinstance(problem, KafkaTimeoutError):
                raise
            actor.failed("commit", problem)
    producer.abort_transaction()
    transaction.outcome = ABORTED
    counts["transactions aborted"] += 1
    return False


class MemberListener(ConsumerRebalanceListener):
    """Keeps a session for each partition that a member has."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.assigned(partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.revoked(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        self._member.lost(partitions)


class GroupMember(Actor):
    """A member of a group: reads, commits what it has read, leaves and comes back."""

    def __init__(
        self, *arguments: Any, group: str, topics: dict[str, int], settings: dict[str, Any], auto_commits: bool
    ) -> None:
        super().__init__(*arguments)
        self.group = group
        self.topics = topics
        self.settings = settings
        self.auto_commits = auto_commits
        self.member = ""
        self.sessions: dict[TopicPartition, Session] = {}
        self.next_offsets: dict[TopicPartition, int] = {}
        self.consumer: Any = None

    def make_consumer(self, **settings: Any) -> Any:
        """The consumer, made of these settings."""
        return Consumer(**settings)

    def live(self, life: str) -> None:
        """See `Actor`."""
        made = 0
        while not self.is_stopping:
            made += 1
            self.member = f"{life}.{made}"
            self.consumer = self.make_consumer(
                bootstrap_servers=BOOTSTRAP,
                client_id=self.member,
                group_id=self.group,
                enable_auto_commit=self.auto_commits,
                auto_offset_reset="earliest",
                **self.settings,
            )
            self.sessions.clear()
            self.next_offsets.clear()
            self.consumer.subscribe(list(self.topics), MemberListener(self))
            leaves_at = self.world.now + self.random.uniform(3, 40)
            while not self.is_stopping and (self.world.now < leaves_at):
                self.turn()
            self._close()

    def turn(self) -> None:
        """Read, and perhaps commit."""
        consumer, random = self.consumer, self.random
        records = consumer.poll(random.choice((0.0, 0.05, 0.3, 1.0)))
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            session = self.sessions.get(partition)
            if session is None:
                self.world.violate(f"{self.member} was handed a record of {partition}, which it does not have")
                return
            self.ledger.read(session, record.offset, record.value or b"")
            self.next_offsets[partition] = record.offset + 1
        if not self.auto_commits and random.random() < 0.4:
            self._commit()
        if random.random() < 0.6:
            self.pause(0.8)

    def _commit(self) -> None:
        offsets = dict(self.next_offsets)
        if not offsets:
            return
        if self.random.random() < 0.5:
            self.consumer.commit_async(offsets, self._committed)
            return
        try:
            self.consumer.commit(offsets, timeout=5.0)
        except (CommitFailedError, RebalanceInProgressError, KafkaTimeoutError) as problem:
            self.failed("commit of offsets", problem)
        except GroupIdNotFoundError as problem:
            self._without_group(problem)
        else:
            self.ledger.commit_acknowledged(self.group, offsets.items())

    def _committed(self, offsets: Any, error: BaseException | None) -> None:
        if error is None:
            self.ledger.commit_acknowledged(self.group, [(tp, found.offset) for tp, found in offsets.items()])
        else:
            self.world.counts[f"asynchronous commit: {type(error).__name__}"] += 1

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions were given to this member."""
        generation = self.consumer.group_metadata().generation_id
        names = ", ".join(map(str, sorted(partitions)))
        self.note(f"{self.member} gets {names or 'nothing'} in generation {generation}")
        self.world.counts["assignments"] += 1
        self.ledger.assigned(self.group, self.member, generation, self.consumer.assignment())
        for partition in sorted(partitions):
            self.sessions[partition] = self.ledger.session(self.group, self.member, generation, partition)

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions have to be given up; what was read of them is committed."""
        self.note(f"{self.member} gives up {', '.join(map(str, sorted(partitions))) or 'nothing'}")
        if partitions and not self.auto_commits and self.random.random() < 0.8:
            self._commit_sync_what(partitions)
        self._forget(partitions)

    def _commit_sync_what(self, partitions: Collection[TopicPartition]) -> None:
        offsets = {tp: offset for tp, offset in self.next_offsets.items() if tp in set(partitions)}
        if not offsets:
            return
        try:
            self.consumer.commit(offsets, timeout=2.0)
        except (CommitFailedError, RebalanceInProgressError, KafkaTimeoutError) as problem:
            self.failed("commit while revoking", problem)
        except GroupIdNotFoundError as problem:
            self._without_group(problem)
        else:
            self.ledger.commit_acknowledged(self.group, offsets.items())

    def _without_group(self, problem: GroupIdNotFoundError) -> None:
        # As in Apache Kafka it tells the application, but a group only vanishes with what the power takes.
        self.failed("commit of offsets", problem)
        if not self.ledger.loses_unflushed:
            self.world.violate(f"group {self.group} has vanished")

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are gone already."""
        self.note(f"{self.member} has lost {', '.join(map(str, sorted(partitions)))}")
        self.world.counts["partitions lost"] += len(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.sessions.pop(partition, None)
            self.next_offsets.pop(partition, None)

    def _close(self) -> None:
        self.note(f"{self.member} leaves")
        try:
            self.consumer.close(10.0)
        except (CommitFailedError, RebalanceInProgressError, RetriableError) as problem:
            self.failed("close", problem)
        except GroupIdNotFoundError as problem:
            self._without_group(problem)


class LoopMember(GroupMember):
    """A member of a group that lives in an event loop (`barnabas.aio`)."""

    def make_consumer(self, **settings: Any) -> LoopConsumer:
        """See `GroupMember`."""
        return LoopConsumer(self.world, self.network, **settings)

    def pause(self, most: float) -> None:
        """See `Actor`; the loop goes on meanwhile."""
        self.consumer.pause(self.random.random() * most)

    def _commit_sync_what(self, partitions: Collection[TopicPartition]) -> None:
        # Called inside of the loop, where nothing may wait.
        offsets = {tp: offset for tp, offset in self.next_offsets.items() if tp in set(partitions)}
        if offsets:
            self.consumer.commit_async(offsets, self._committed)


class TransformActor(GroupMember):
    """Consume, transform, produce: reads committed records, and writes one for each in the same transaction."""

    def __init__(self, *arguments: Any, output: str, output_partitions: int, producing: dict[str, Any], **more: Any):
        super().__init__(*arguments, auto_commits=False, **more)
        self._output = {output: output_partitions}
        self._producing = producing
        self._producer: Producer[Any, Any] | None = None
        self._sender: Sender | None = None
        self._producers = 0

    def live(self, life: str) -> None:
        """See `Actor`."""
        # What the process before had is gone with it.
        self._producer = None
        super().live(life)

    def turn(self) -> None:
        """See `GroupMember`."""
        try:
            producer, sender = self._ready_producer()
            records = self.consumer.poll(self.random.choice((0.05, 0.3)))
            if len(records):
                self._transform(producer, sender, list(records))
            self.pause(1.0)
        except KafkaError as problem:
            self.failed("transform", problem)
            if self._producer is not None:
                self._producer.close(0)
            self._producer = None
            self._go_back()

    def _ready_producer(self) -> tuple[Producer[Any, Any], Sender]:
        if self._producer is None or self._sender is None:
            self._producers += 1
            life = f"{self.name}.{self.lives}.{self._producers}"
            self._producer = Producer(
                bootstrap_servers=BOOTSTRAP, client_id=life, transactional_id=self.name, **self._producing
            )
            self._sender = Sender(self, life, self._output)
            self._producer.init_transactions()
        return self._producer, self._sender

    def _transform(self, producer: Producer[Any, Any], sender: Sender, records: list[Any]) -> None:
        transaction = self.ledger.begin(self.name)
        transaction.outcome = ABORTED
        producer.begin_transaction()
        offsets: dict[TopicPartition, int] = {}
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            session = self.sessions.get(partition)
            if session is None:
                self.world.violate(f"{self.member} was handed a record of {partition}, which it does not have")
                return
            sender.send(producer, transaction, f"{record.topic}/{record.partition}/{record.offset}")
            offsets[partition] = record.offset + 1
        commits = self.random.random() < 0.9
        try:
            producer.send_offsets_to_transaction(offsets, self.consumer.group_metadata())
        except (CommitFailedError, TransactionAbortableError) as problem:
            self.failed("offsets in a transaction", problem)
            commits = False
        if end_transaction(self, producer, transaction, commit=commits):
            for record in records:
                self.ledger.read(
                    self.sessions[TopicPartition(record.topic, record.partition)], record.offset, record.value
                )
            self.ledger.commit_acknowledged(self.group, offsets.items())
        else:
            self._go_back()

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

    def _close(self) -> None:
        if self._producer is not None:
            self._producer.close(5.0)
            self._producer = None
        super()._close()
