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

ROUND_TRIP = """
from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
with Broker() as broker:
    servers = broker.bootstrap_servers
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t", num_partitions=2)])
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"value", key=b"key")
    with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        found = []
        while not found:
            found = [(record.key, record.value) for record in consumer.poll(timeout=1.0)]
    assert found == [(b"key", b"value")], found
"""


def python(executable: Path | str, code: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BARNABAS"))}
    done = subprocess.run(
        [str(executable), "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, timeout=60
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

    with pytest.raises(AttributeError, match="no attribute 'Produce'; it has AdminClient, Broker, Consumer"):
        _ = barnabas.Produce


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pure", [True, False], ids=["pure", "compiled"])
def test_a_wheel_works_in_an_empty_virtual_environment(tmp_path: Path, pure: bool) -> None:
    environment = {**os.environ, **({"BARNABAS_PURE": "1"} if pure else {})}
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*wheel, str(clone)], env=environment, check=True)
    venv.create(tmp_path / "empty", with_pip=True)
    empty = tmp_path / "empty" / "bin" / "python"
    built = next(tmp_path.glob("*.whl"))
    subprocess.run([str(empty), "-m", "pip", "install", "-q", str(built)], check=True)

    python(empty, ROUND_TRIP)

    assert built.name.endswith("-py3-none-any.whl") == pure
