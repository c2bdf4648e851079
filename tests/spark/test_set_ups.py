"""Where a pipeline may run: executors of their own, Spark Connect, spark-submit, and brokers of two kinds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, NewTopic, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[[int], str]
PROGRAM = Path(__file__).parent / "programs" / "copy_topic.py"
SOURCES = Path(__file__).parents[2] / "src"
VALUES = [f"{number:03}" for number in range(200)]
LOCAL = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}  # fmt: skip

pytestmark = pytest.mark.slow


def fill(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in VALUES:
            producer.send(topic, value.encode(), key=b"k" + value.encode())


def run(command: list[str], arguments: list[str], **environment: str) -> Any:
    """Run the program and give what it printed last."""
    done = subprocess.run(
        [*command, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.timeout(300)
def test_the_same_program_runs_on_executors_in_processes_of_their_own(
    servers: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    source, target = new_topic(3), new_topic(2)
    fill(servers, source)
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executorEnv.PYTHONPATH": str(SOURCES), **LOCAL}
    arguments = [servers, source, target, str(tmp_path), *(f"{name}={value}" for name, value in settings.items())]

    found = run([sys.executable, str(PROGRAM)], arguments, PYSPARK_PYTHON=sys.executable)

    assert found["values"] == VALUES


@pytest.mark.timeout(300)
def test_the_same_program_runs_through_spark_connect(servers: str, new_topic: NewTopicName, tmp_path: Path) -> None:
    for name in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(name, reason="Spark Connect needs pyspark[connect]")
    source, target = new_topic(2), new_topic(1)
    fill(servers, source)

    found = run(
        [sys.executable, str(PROGRAM)], [servers, source, target, str(tmp_path), "remote=local[2]"],
        PYSPARK_PYTHON=sys.executable,
    )  # fmt: skip

    assert found["values"] == VALUES


@pytest.mark.timeout(300)
def test_spark_submit_ships_barnabas_in_an_archive(servers: str, new_topic: NewTopicName, tmp_path: Path) -> None:
    source, target = new_topic(2), new_topic(1)
    fill(servers, source)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(
            SOURCES / "barnabas", "lib/barnabas", filter=lambda entry: None if "__pycache__" in entry.name else entry
        )
    settings = {
        "spark.master": "local-cluster[2,1,1024]", **LOCAL,
        "spark.executorEnv.PYTHONPATH": "./environment/lib",
    }  # fmt: skip
    submit = Path(__import__("pyspark").__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--archives", f"{archive}#environment"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]

    found = run(
        [*command, str(PROGRAM)], [servers, source, target, str(tmp_path / "checkpoint")],
        PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(SOURCES),
    )  # fmt: skip

    assert found["values"] == VALUES
    assert all("/environment/lib/barnabas/" in place for place in found["executors"])


@pytest.mark.parametrize("is_source", [True, False])
def test_a_stream_goes_from_apache_kafka_to_barnabas_and_back(
    spark: SparkSession, ours: str, apache: str, checkpoint: str, is_source: bool
) -> None:
    source, target = (apache, ours) if is_source else (ours, apache)
    names = [f"mixed-{side}-{is_source}" for side in ("source", "target")]
    for address, name in zip((source, target), names, strict=True):
        with AdminClient(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic(name, num_partitions=2)])
    fill(source, names[0])

    given = {"kafka.bootstrap.servers": source, "subscribe": names[0], "startingOffsets": "earliest"}
    stream = spark.readStream.format("barnabas").options(**given).load()
    writer = stream.select("key", "value").writeStream.format("barnabas").option("kafka.bootstrap.servers", target)
    query = writer.options(topic=names[1], checkpointLocation=checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(100)

    copy = spark.read.format("barnabas").options(**{"kafka.bootstrap.servers": target, "subscribe": names[1]}).load()
    assert sorted((bytes(row.key), bytes(row.value)) for row in copy.collect()) == [
        (b"k" + value.encode(), value.encode()) for value in VALUES
    ]
