"""Producers and consumers of ours whose history is kept, for `check_queue`, while their brokers have faults."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import suppress
from random import Random
from typing import Any

from barnabas import Consumer, Producer, TopicPartition
from barnabas.errors import KafkaError
from tests.support.histories import Anomaly, Outcome, Poll, Send, Transaction, check_queue

#: ww cycles are what Kafka allows: records of a transaction are written before it commits.
ALLOWED = {"G0"}
_PATIENCE = 60.0


class HistoryLoad:
    """Transactional and plain writers and readers of committed records, as long as the block lasts.

    `found` are the anomalies, once it is over; raised where there is one that Kafka does not allow.
    """

    def __init__(self, settings: dict[str, Any], topic: str, partitions: int, *, seed: int = 1) -> None:
        self._settings = settings
        self._topic = topic
        self._partitions = partitions
        self._values = itertools.count(1)
        self._is_over = threading.Event()
        self._is_read = threading.Event()
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self.history: list[Transaction] = []
        self.found: list[Anomaly] = []
        work = [(self._write_transactions, f"txn-{n}") for n in range(2)] + [(self._write, "plain")]
        self._writers = [self._thread(*one, Random(seed * 10 + n)) for n, one in enumerate(work)]
        self._readers = [self._thread(self._read, f"reader-{n}", Random(n)) for n in range(2)]

    def _thread(self, work: Any, name: str, random: Random) -> threading.Thread:
        def run() -> None:
            try:
                work(name, random)
            except BaseException as error:  # noqa: BLE001  (raised again by the test's own thread)
                self._failures.append(error)

        return threading.Thread(target=run, name=name)

    def __enter__(self) -> HistoryLoad:
        for thread in (*self._writers, *self._readers):
            thread.start()
        self.wait_for(30)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        for thread in self._writers:
            thread.join()
        self._is_read.set()
        for thread in self._readers:
            thread.join()
        if kind is not None:
            return
        if self._failures:
            raise self._failures[0]
        self.found = check_queue(sorted(self.history, key=lambda one: one.began_at))
        wrong = [str(one) for one in self.found if one.name not in ALLOWED]
        assert not wrong, f"{len(wrong)} anomalies: {wrong[:10]}"
        outcomes = {outcome: sum(one.outcome is outcome for one in self.history) for outcome in Outcome}
        assert outcomes[Outcome.OK] > outcomes[Outcome.UNKNOWN], f"hardly anything was done: {outcomes}"

    @property
    def acknowledged(self) -> int:
        """How many transactions and sends have succeeded so far."""
        return sum(one.outcome is Outcome.OK and isinstance(one.operations[0], Send) for one in list(self.history))

    def wait_for(self, more: int) -> None:
        """Return when so many more have succeeded."""
        wanted, deadline = self.acknowledged + more, time.monotonic() + _PATIENCE
        while self.acknowledged < wanted and not self._failures:
            assert time.monotonic() < deadline, f"{self.acknowledged} of {wanted} were acknowledged"
            time.sleep(0.05)

    def _note(self, process: str, operations: list[Any], began_at: float, **more: Any) -> None:
        with self._lock:
            self.history.append(
                Transaction(process, tuple(operations), began_at=began_at, ended_at=time.monotonic(), **more)
            )

    # -- writers -----------------------------------------------------------------------------------------------------

    def _write(self, process: str, random: Random) -> None:
        settings = {**self._settings, "acks": "all", "linger.ms": 0, "delivery.timeout.ms": 90_000}
        with Producer(settings) as producer:
            while not self._is_over.is_set():
                partition, value, began_at = random.randrange(self._partitions), next(self._values), time.monotonic()
                future = producer.send(self._topic, b"%d" % value, partition=partition)
                try:
                    offset = future.result(120).offset
                except KafkaError:
                    self._note(process, [Send(partition, value)], began_at, outcome=Outcome.UNKNOWN)
                else:
                    self._note(process, [Send(partition, value, offset)], began_at)
                time.sleep(random.random() * 0.02)

    def _write_transactions(self, process: str, random: Random) -> None:
        settings = {**self._settings, "transactional.id": process, "transaction.timeout.ms": 20_000}
        while not self._is_over.is_set():
            with suppress(KafkaError), Producer(settings) as producer:
                producer.init_transactions()
                while not self._is_over.is_set() and self._transact(producer, process, random):
                    time.sleep(random.random() * 0.02)

    def _transact(self, producer: Producer[Any, Any], process: str, random: Random) -> bool:
        """One transaction; whether the producer may go on."""
        chosen = [(random.randrange(self._partitions), next(self._values)) for _ in range(random.randint(1, 4))]
        began_at, committing_at, outcome = time.monotonic(), None, Outcome.UNKNOWN
        operations = [Send(*one) for one in chosen]
        try:
            producer.begin_transaction()
            futures = [producer.send(self._topic, b"%d" % value, partition=partition) for partition, value in chosen]
            if random.random() < 0.2:
                producer.abort_transaction()
                outcome = Outcome.FAILED
                return True
            producer.flush(60)
            committing_at = time.monotonic()
            producer.commit_transaction()
            operations = [Send(*one, future.result(0).offset) for one, future in zip(chosen, futures, strict=True)]
            outcome = Outcome.OK
        except KafkaError:
            if committing_at is None:
                with suppress(KafkaError):
                    producer.abort_transaction()
                    outcome = Outcome.FAILED
            return outcome is Outcome.FAILED
        finally:
            self._note(process, list(operations), began_at, outcome=outcome, committing_at=committing_at)
        return True

    # -- readers -----------------------------------------------------------------------------------------------------

    def _read(self, process: str, random: Random) -> None:
        partitions = [TopicPartition(self._topic, index) for index in range(self._partitions)]
        with Consumer({**self._settings, "isolation.level": "read_committed", "max.poll.records": 50}) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            deadline = float("inf")
            while True:
                began_at = time.monotonic()
                by_partition: dict[int, list[tuple[int, int]]] = {}
                for record in consumer.poll(0.2):
                    by_partition.setdefault(record.partition, []).append((record.offset, int(record.value)))
                if by_partition:
                    polls = [Poll(key, tuple(records)) for key, records in by_partition.items()]
                    self._note(process, polls, began_at)
                elif self._is_read.is_set():
                    deadline = min(deadline, time.monotonic() + _PATIENCE)
                    ends = consumer.end_offsets(partitions)
                    if all(consumer.position(partition) >= end for partition, end in ends.items()):
                        return
                    assert time.monotonic() < deadline, "the end cannot be read: a transaction is left open"
