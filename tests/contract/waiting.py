"""Waiting for what a running cluster does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from barnabas import AdminClient, NewTopic
from barnabas.errors import TopicExistsError, UnknownTopicOrPartitionError
from tests.support.patience import PATIENCE


def eventually(check: Callable[[], object], timeout: float = PATIENCE) -> None:
    """A cluster of several parts agrees after a while."""
    deadline = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < deadline, "this never became true"
        time.sleep(0.05)


def create_once(admin: AdminClient, name: str, partitions: int, replicas: int, timeout: float = 60) -> None:
    """Create a topic while controllers die: the one that was asked first may have made it, and its answer was lost."""
    with suppress(TopicExistsError):
        admin.create_topics([NewTopic(name, partitions, replicas)], timeout=timeout)


def in_sync_replicas(admin: AdminClient, topic: str) -> list[set[int]]:
    """Return the brokers in sync for each partition; nothing where the broker asked has not heard of the topic yet."""
    described = admin.describe_topics([topic], raise_errors=False)
    if isinstance(described.errors.get(topic), UnknownTopicOrPartitionError):
        return []
    return [{node.id for node in one.in_sync_replicas} for one in described[topic].partitions]


def create_topic(bootstrap_servers: str, name: str, partitions: int, **configs: str) -> str:
    """Create a topic, and wait until the broker knows it: Apache Kafka's controller answers a moment before."""
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, configs=configs)])
        eventually(lambda: name in admin.describe_topics([name], raise_errors=False))
    return name
