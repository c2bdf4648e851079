from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from barnabas import Broker
from tests.interop.three_brokers import BROKERS
from tests.peers.java_tools import JavaTools

_numbers = itertools.count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for a broker of this folder on one that is alone and on a cluster of three."""
    if "broker" in metafunc.fixturenames and not hasattr(metafunc.module, "broker"):
        metafunc.parametrize("broker", BROKERS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The brokers for all third-party clients; tests use topics and groups of their own."""
    # Heartbeats of KIP-848 follow the broker's settings, and rebalances go by heartbeats.
    quick = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.min.heartbeat.interval.ms": 100}
    # kafka-python's leader can assign partitions of a topic it has no metadata of yet, and then never looks again.
    quick["group.initial.rebalance.delay.ms"] = 100
    with Broker(brokers=request.param, num_partitions=3, log_retention_ms=-1, config=quick) as running:
        yield running
        assert "please report this" not in running.log_text()


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Makes names of topics and groups that no other test uses."""
    return lambda kind: f"{kind}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    """Apache Kafka's own tools, in one Java for all tests of a module."""
    with JavaTools() as tools:
        yield tools
