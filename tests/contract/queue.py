"""A topic that is read as a queue, with a share group of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from barnabas import AdminClient, Producer, ShareConsumer
from barnabas.admin import ConfigResource
from tests.support.patience import PATIENCE

EXPLICIT = {"share_acknowledgement_mode": "explicit"}


class Queue:
    """Makes its consumers, fills the topic, and reads.

    The group reads from the beginning; `configs` are settings of the group beside that.
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **configs: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.group = group
        self.members: list[ShareConsumer] = []
        self.configure(**configs)

    def configure(self, **configs: str) -> None:
        """Change settings of the group."""
        named = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): v for key, v in configs.items()}}
        with AdminClient(bootstrap_servers=self.bootstrap_servers) as admin:
            admin.incremental_alter_configs({ConfigResource.group(self.group): named})

    def send(self, *values: bytes, partition: int = 0) -> None:
        """Add records."""
        with Producer(bootstrap_servers=self.bootstrap_servers, linger_ms=5) as producer:
            for value in values:
                producer.send(self.topic, value, partition=partition)

    def consumer(self, **settings: Any) -> ShareConsumer:
        """A member of the group."""
        made = ShareConsumer(
            self.topic, group_id=self.group, bootstrap_servers=self.bootstrap_servers, fetch_max_wait_ms=100, **settings
        )
        self.members.append(made)
        return made

    def rest(self) -> list[bytes]:
        """What another member is given now; it gives it back. Nothing, where all is accepted, archived or locked."""
        with self.consumer(**EXPLICIT) as other:
            found = values(other.poll(0.1))
            while not found and not other._parts.subscriptions.assigned_partitions:
                found = values(other.poll(0.1))
            return found or values(read(other, 1, 0.4))

    def close(self) -> None:
        """End all members."""
        for member in self.members:
            member.close(5)


def read(consumer: ShareConsumer, count: int, seconds: float = PATIENCE) -> list[Any]:
    """At least so many records, unless time is over; each is acknowledged by the poll after, where that is implicit."""
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found.extend(consumer.poll(0.2))
    return found


def values(records: Iterable[Any]) -> list[bytes]:
    """What is in them."""
    return [record.value for record in records]


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether it comes to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
