"""One local Spark and one broker for all Spark tests; skipped where PySpark or Java is missing."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import AdminClient, Broker, NewTopic
from tests.peers import apache_kafka, spark_kafka_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()

#: Seconds. A Spark takes some to start, and on a machine that others use tens of them. A test that is ended in the
#: middle of a call of the JVM takes the session with it: the next call finds the answer to another.
LONGEST = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test here more time than the others have."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark on two cores with the format registered."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is missing (apt-get install openjdk-17-jre-headless)")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import barnabas.spark

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.jars": _built_in_connector(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short life: less compiling
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = SparkSession.builder.master("local[2]").appName("barnabas-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    barnabas.spark.register(session)
    yield session
    session.stop()


def _built_in_connector() -> str:
    """The jars of `format("kafka")`, to compare with; empty where they cannot be had."""
    try:
        return "" if spark_kafka_connector.why_not() else spark_kafka_connector.jars()
    except RuntimeError:  # no network
        return ""


@pytest.fixture(scope="session", autouse=True)
def idle_clients_are_closed() -> Iterator[None]:
    """What tests read and write without Spark is done by this process' consumers and producers, which are kept."""
    yield
    for module, kept in (("barnabas.spark.fetch_loop", "_consumers"), ("barnabas.spark.sink", "_PRODUCERS")):
        if module in sys.modules:
            getattr(sys.modules[module], kept).close()


@pytest.fixture(scope="session")
def apache() -> Iterator[str]:
    """Where a real Apache Kafka listens; only the long form asks for it."""
    if missing := apache_kafka.why_not():
        pytest.skip(missing)
    with apache_kafka.ApacheKafka({"log.retention.ms": "-1"}) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="session")
def ours() -> Iterator[str]:
    """Where barnabas' broker listens, one for all tests."""
    with Broker(log_retention_ms=-1) as broker:  # some records of the tests are years old
        yield broker.bootstrap_servers


@pytest.fixture(scope="session", params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest) -> str:
    """Where the broker under a test listens: barnabas', and in the long form Apache Kafka too."""
    found: str = request.getfixturevalue("ours" if request.param == "barnabas" else "apache")
    return found


@pytest.fixture
def new_topic(servers: str) -> Callable[[int], str]:
    """Creates a topic with so many partitions and gives its name."""

    def create(partitions: int) -> str:
        name = f"topic-{next(_numbers)}"
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, num_partitions=partitions)])
        return name

    return create


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A new folder for a query's checkpoint."""
    return str(tmp_path / "checkpoint")
