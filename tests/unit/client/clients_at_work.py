"""A producer, a consumer in a group and an admin client that have all done something, for tests of their metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from barnabas import AdminClient, Broker, Consumer, Producer

Clients = tuple[Producer[Any, Any], Consumer[Any, Any], AdminClient]


@contextmanager
def at_work(broker: Broker, topic: str) -> Iterator[Clients]:
    """The clients, open: a record was sent to the topic and read from it, and topics were listed."""
    servers = broker.bootstrap_servers
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest") as consumer,
        AdminClient(bootstrap_servers=servers) as admin,
    ):
        producer.send(topic, b"x").result(10)
        while not consumer.poll(1.0):
            pass
        admin.list_topics()
        yield producer, consumer, admin
