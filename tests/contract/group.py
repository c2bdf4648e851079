"""Consumers of one group at their work, polled in turn by the test's own thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from barnabas import Consumer, Producer, TopicPartition
from tests.contract.recorder import Recorder
from tests.support.patience import PATIENCE

PARTITIONS = 4
#: Longer than any test waits, but where one waits for its end: whoever leaves has said so.
SESSION_SECONDS = 40
CLASSIC = {
    "partition_assignment_strategy": "range",
    "heartbeat_interval_ms": 100,
    "session_timeout_ms": SESSION_SECONDS * 1000,
}
CONSUMER = {"group_protocol": "consumer"}


class Group:
    """A topic of four partitions, a group, its members, and what each of them was told and has read."""

    def __init__(self, bootstrap_servers: str, topic: str, group_id: str, settings: dict[str, Any]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.group_id = group_id
        self._settings = settings
        #: Those that did not leave.
        self.members: list[Consumer] = []
        self.listeners: dict[Consumer, Recorder] = {}
        #: Partition and offset of each record.
        self.read: dict[Consumer, list[tuple[int, int]]] = {}

    def join(self, topics: Any = None, **settings: Any) -> Consumer:
        """Join with a client id that sorts behind those of the earlier members, for assignors go by that order."""
        chosen = {
            "client_id": f"member-{len(self.read)}",
            "group_id": self.group_id,
            "auto_offset_reset": "earliest",
            **self._settings,
            **settings,
        }
        consumer = Consumer(bootstrap_servers=self.bootstrap_servers, **chosen)
        self.listeners[consumer] = Recorder()
        self.read[consumer] = []
        consumer.subscribe(topics or [self.topic], self.listeners[consumer])
        self.members.append(consumer)
        return consumer

    def leave(self, consumer: Consumer, operation: str = "default") -> None:
        self.members.remove(consumer)
        consumer.close(5, operation)

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap_servers) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)

    @property
    def records(self) -> list[tuple[int, int]]:
        """What all members together have read, in order of partition and offset."""
        return sorted(record for records in self.read.values() for record in records)

    def poll_until(self, condition: Callable[[], object], *consumers: Consumer, seconds: float = PATIENCE) -> None:
        """Poll these members, or all of them."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, [(sorted(c.assignment()), len(self.read[c])) for c in self.members]
            for consumer in consumers or self.members:
                self.read[consumer].extend((record.partition, record.offset) for record in consumer.poll(0.02))

    def settle(self, *sizes: int, seconds: float = PATIENCE) -> list[list[int]]:
        """Poll until each partition has one owner and the members so many; or all of the topic, dealt out evenly.

        What each of them has then.
        """
        if not sizes:
            share, rest = divmod(PARTITIONS, len(self.members))
            sizes = (share + 1,) * rest + (share,) * (len(self.members) - rest)
        self.poll_until(
            lambda: (
                sorted(len(consumer.assignment()) for consumer in self.members) == sorted(sizes)
                and len(self.owned()) == sum(sizes)
            ),
            seconds=seconds,
        )
        return [sorted(p.partition for p in consumer.assignment()) for consumer in self.members]

    def owned(self) -> set[TopicPartition]:
        return set().union(*(consumer.assignment() for consumer in self.members))
