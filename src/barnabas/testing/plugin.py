"""Fixtures for pytest, which finds this module by itself once barnabas is installed. See docs/guide/testing.md.

Nothing of barnabas is imported before a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from barnabas import AdminClient, Broker, Consumer, Producer


@pytest.fixture(scope="session")
def kafka_broker_settings() -> dict[str, Any]:
    """Return the settings of `kafka_broker`, under Kafka's names; override it to have others."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_settings: dict[str, Any]) -> Iterator[Broker]:
    """Return a broker in a child process, one for the whole session: give each test topics and groups of its own."""
    from barnabas import Broker

    with Broker(config=kafka_broker_settings) as broker:
        yield broker


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, admin: AdminClient) -> str:
    """Return the name of a new topic.

    It has one partition, or as many as an indirect parameter says:
    `@pytest.mark.parametrize("kafka_topic", [3], indirect=True)`.
    """
    from barnabas import NewTopic

    name = f"topic-{uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, getattr(request, "param", 1))])
    return name


@pytest.fixture
def admin(kafka_broker: Broker) -> Iterator[AdminClient]:
    """Return an admin client of `kafka_broker`."""
    from barnabas import AdminClient

    with AdminClient(bootstrap_servers=kafka_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def producer(kafka_broker: Broker) -> Iterator[Producer[Any, Any]]:
    """Return a producer to `kafka_broker` with Kafka's default settings; records that are not sent at the end are."""
    from barnabas import Producer

    client: Producer[Any, Any] = Producer(bootstrap_servers=kafka_broker.bootstrap_servers)
    with client:
        yield client


@pytest.fixture
def consumer(kafka_broker: Broker) -> Iterator[Consumer]:
    """Return a consumer of `kafka_broker` in a group of its own, which reads from the beginning; subscribe it first."""
    from barnabas import Consumer

    group = f"group-{uuid4().hex[:12]}"
    with Consumer(
        group_id=group, auto_offset_reset="earliest", bootstrap_servers=kafka_broker.bootstrap_servers
    ) as client:
        yield client
