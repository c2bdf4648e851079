from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import Broker
from tests.interop.failing_brokers import FAILING, NOT_HERE, SUITES, killed_in_turn
from tests.interop.three_brokers import BROKERS
from tests.peers.java_tools import JavaTools
from tests.peers.mixed_cluster import MixedCluster

_numbers = itertools.count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for a broker of this folder on one that is alone and on a cluster of three.

    Those of `SUITES` run on three that are killed in rotation, too.
    """
    if "broker" in metafunc.fixturenames and not hasattr(metafunc.module, "broker"):
        rides = metafunc.module.__name__.rpartition(".")[2] in SUITES and metafunc.function.__name__ not in NOT_HERE
        metafunc.parametrize("broker", [*BROKERS, *(FAILING if rides else ())], indirect=True, scope="session")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker | MixedCluster]:
    """The brokers for all third-party clients; tests use topics and groups of their own."""
    # Heartbeats of KIP-848 follow the broker's settings, and rebalances go by heartbeats.
    quick = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.min.heartbeat.interval.ms": 100}
    # kafka-python's leader can assign partitions of a topic it has no metadata of yet, and then never looks again.
    quick["group.initial.rebalance.delay.ms"] = 100
    settings: dict[str, Any] = {"num_partitions": 3, "log_retention_ms": -1, "config": quick}
    if isinstance(request.param, str):
        with killed_in_turn(request.param, **settings) as failing:
            yield failing
            assert not isinstance(failing, Broker) or "please report this" not in failing.log_text()
        return
    with Broker(brokers=request.param, **settings) as running:
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
