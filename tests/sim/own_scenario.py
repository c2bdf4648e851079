"""A scenario as a user writes it: one application that counts, with the simulator's faults."""

from __future__ import annotations

from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.scenario import Scenario


class Counter(Actor):
    """Sends the numbers from 1 on, one after the other, each until it is stored."""

    def live(self, life: str) -> None:
        producer = self.clients.producer(bootstrap_servers=BOOTSTRAP, delivery_timeout_ms=600_000)
        number = 0
        while not self.is_stopping:
            number += 1
            value = f"{life}|{number}|".encode()
            sent = self.ledger.sending(value, life, number, TopicPartition("a", 0))
            try:
                metadata = producer.send("a", value, partition=0).result()
            except KafkaError as problem:
                self.ledger.delivered(sent, -1, problem)
            else:
                self.ledger.delivered(sent, metadata.offset, None)
            self.pause(0.5)
        producer.close()


class Counting(Scenario):
    """One counter."""

    def cast(self) -> None:
        self.add(Counter, "counter")
