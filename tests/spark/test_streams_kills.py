"""A streams application whose processes and broker are killed; see tools/spark_streams_kills.py."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.peers import apache_kafka
from tools.spark_streams_kills import torment

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]


@pytest.fixture(autouse=True)
def _java() -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is missing (apt-get install openjdk-17-jre-headless)")


def test_each_record_is_counted_once_whatever_was_killed() -> None:
    outcome = torment(0)

    assert outcome.is_exact, outcome
    assert set(outcome.kills) == {"driver", "worker", "task process", "broker"}


def test_each_record_goes_once_through_repartition_topics_within_the_batch_or_a_batch_later() -> None:
    outcome = torment(0, least=6, job="repartitioned")

    assert outcome.is_exact, outcome
    assert outcome.kills.keys() >= {"driver", "worker", "task process", "broker"}


def test_the_same_with_executors_in_processes_of_their_own() -> None:
    outcome = torment(0, master="local-cluster[2,1,1024]")

    assert outcome.is_exact, outcome
    assert set(outcome.kills) == {"driver", "worker", "task process", "broker", "executor"}


@pytest.mark.parametrize("broker", ["barnabas", "barnabas-cluster"])
def test_windows_and_joins_with_ten_thousand_keys_are_exact(broker: str) -> None:
    outcome = torment(60, broker=broker, master="local-cluster[2,1,1024]", job="windows-and-joins")

    assert outcome.is_exact, outcome


@pytest.mark.parametrize("broker", ["apache-kafka", "apache-kafka-cluster"])
def test_the_same_on_apache_kafka(broker: str) -> None:
    if (why := apache_kafka.why_not()) is not None:
        pytest.skip(why)

    outcome = torment(60, broker=broker)

    assert outcome.is_exact, outcome
