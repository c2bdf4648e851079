"""What a user gets: a light import, and a wheel that works in an empty virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ["pyarrow", "pyspark", "pandas", "numpy", "rich", "asyncio", "cramjam", "aiohttp", "dataclasses", "uvloop"]

ROUND_TRIP = (Path(__file__).parent / "round_trip.py").read_text()
#: The first example of README, which needs nothing but the package itself.
README_EXAMPLE = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]


def python(executable: Path | str, code: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BARNABAS"))}
    done = subprocess.run(
        [str(executable), "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["Producer", "Consumer", "AdminClient", "Broker", "TopicPartition"])
def test_a_public_name_loads_nothing_heavy(name: str) -> None:
    loaded = python(sys.executable, f"import sys; from barnabas import {name}; print(*sys.modules)").split()

    assert "barnabas" in loaded
    assert not set(HEAVY) & set(loaded)


def test_importing_barnabas_loads_nothing_but_itself() -> None:
    code = "import sys; before = set(sys.modules); import barnabas; print(*(set(sys.modules) - before))"

    assert sorted(python(sys.executable, code).split()) == ["__future__", "barnabas"]


def test_an_unknown_public_name_is_an_error_that_lists_the_known_ones() -> None:
    import barnabas

    with pytest.raises(AttributeError, match="no attribute 'Produce'") as raised:
        _ = barnabas.Produce

    assert str(raised.value).partition("it has ")[2] == ", ".join(sorted({*barnabas.__all__} - {"__version__"}))


def build(directory: Path, *, pure: bool) -> Path:
    """The wheel of what is committed."""
    environment = {**os.environ, **({"BARNABAS_PURE": "1"} if pure else {})}
    clone = directory / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(directory)]
    subprocess.run([*wheel, str(clone)], env=environment, check=True)
    built = next(directory.glob("*.whl"))
    assert built.name.endswith("-py3-none-any.whl") == pure
    return built


def install(directory: Path, requirement: str) -> Path:
    """The Python of a new environment that has nothing but this."""
    venv.create(directory / "empty")
    empty = directory / "empty" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(empty)]
    subprocess.run([*pip, "install", "-q", "--no-compile", requirement], check=True)
    return empty


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pure", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["pure", "compiled"])
def test_a_wheel_works_in_an_empty_virtual_environment(tmp_path: Path, pure: bool) -> None:
    empty = install(tmp_path, str(build(tmp_path, pure=pure)))

    python(empty, ROUND_TRIP)
    assert "flights-" in python(empty, README_EXAMPLE)
    data = "import sys; from barnabas.cli.main import main; sys.exit(main(['monitoring', 'alerts']))"
    assert "KafkaOfflinePartitions" in python(empty, data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_with_all_extras_runs_the_examples_of_readme(tmp_path: Path) -> None:
    empty = install(tmp_path, f"barnabas[all] @ {build(tmp_path, pure=False).as_uri()}")

    python(empty, ROUND_TRIP)
    assert "flights-" in python(empty, README_EXAMPLE)
    assert python(empty, SPARK_EXAMPLE).split()[-1] == "departed"


#: README's stream, with an end.
SPARK_EXAMPLE = """
import os, sys, tempfile
os.environ["PYSPARK_PYTHON"] = sys.executable
import barnabas.spark
from barnabas import Broker, Producer
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
barnabas.spark.register(spark)
with Broker() as broker, tempfile.TemporaryDirectory() as folder:
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("flights", b"departed")
    rows = (spark.readStream.format("barnabas").option("kafka.bootstrap.servers", servers)
            .option("subscribe", "flights").option("startingOffsets", "earliest").load())
    query = (rows.select("key", "value").writeStream.format("barnabas").option("kafka.bootstrap.servers", servers)
             .option("topic", "arrivals").option("guarantee", "exactly-once")
             .option("checkpointLocation", folder).trigger(availableNow=True).start())
    query.awaitTermination()
    (row,) = (spark.read.format("barnabas").option("kafka.bootstrap.servers", servers)
              .option("subscribe", "arrivals").option("kafka.isolation.level", "read_committed").load().collect())
    print(bytes(row.value).decode())
"""
