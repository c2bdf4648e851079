"""A real Spark whose driver, Python workers and broker are killed; see tools/spark_exactly_once.py."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.peers import apache_kafka
from tools.spark_exactly_once import torment

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _java() -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is missing (apt-get install openjdk-17-jre-headless)")


def test_each_row_is_seen_once_after_driver_worker_and_broker_were_killed() -> None:
    outcome = torment(0)

    assert outcome.is_exact, outcome
    assert set(outcome.kills) == {"driver", "worker", "broker"}


@pytest.mark.slow
def test_the_same_with_two_phase_commit() -> None:
    outcome = torment(60, options=["--two-phase-commit"])

    assert outcome.is_exact, outcome


@pytest.mark.slow
@pytest.mark.parametrize("broker", ["barnabas-cluster", "apache-kafka", "apache-kafka-cluster"])
def test_the_same_on_three_brokers_and_on_apache_kafka(broker: str) -> None:
    why = apache_kafka.why_not()
    if why is not None and broker != "barnabas-cluster":
        pytest.skip(why)

    outcome = torment(60, broker=broker)

    assert outcome.is_exact, outcome
    assert outcome.kills["broker"] > 0
