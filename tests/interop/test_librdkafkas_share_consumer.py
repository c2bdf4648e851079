"""librdkafka's own tests of its share consumer (0170 to 0185), on our broker and on Apache Kafka's.

Left out are those that it plays on a broker of its own making (0182, 0183, 0186, and the local half of others). The
settings are those of librdkafka's own clusters; but for the heartbeats, by which most of them wait less.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas import Broker
from tests.peers import apache_kafka, foreign_programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

SETTINGS = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "num.partitions": "4",
}
TESTS = {
    "0170": "subscription",
    "0171": "consume",
    "0172": "acknowledge",
    "0173": "commit_async",
    "0174": "concurrency",
    "0175": "groups",
    "0176": "commit_sync",
    "0177": "transactions",
    "0178": "close",
    "0179": "destroy",
    "0180": "config",
    "0181": "topic_delete",
    "0184": "topic_recreate",
    "0185": "max_poll_interval",
}
#: So many run beside each other: they mostly wait.
AT_ONCE = 5
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "barnabas":
        with Broker(config=SETTINGS) as running:
            yield running.bootstrap_servers
            assert "please report this" not in running.log_text()
        return
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with apache_kafka.ApacheKafka(SETTINGS) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[str]]]:
    """What each test of librdkafka's that was chosen prints."""
    program = foreign_programs.librdkafka_tests()
    folder = tmp_path_factory.mktemp("librdkafka")
    (folder / "test.conf").write_text(f"bootstrap.servers={servers}\ntest.timeout.multiplier=4\n")
    chosen = {
        item.callspec.params["number"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    }
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {number: pool.submit(play, program, folder, number) for number in TESTS if number in chosen}
    pool.shutdown(cancel_futures=True)


def play(program: Path, folder: Path, number: str) -> str:
    libraries = f"{program.parent.parent / 'src'}:{program.parent.parent / 'src-cpp'}"
    done = subprocess.run(
        [str(program), "-L"], cwd=folder, timeout=2000, check=False,
        env={**os.environ, "TESTS": number, "TEST_KAFKA_VERSION": apache_kafka.VERSION, "LD_LIBRARY_PATH": libraries},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return _COLOR.sub("", done.stdout.decode(errors="replace")) + f"\nended with {done.returncode}"


@pytest.mark.parametrize("number", TESTS)
def test_librdkafkas_own(runs: dict[str, Future[str]], number: str) -> None:
    told = runs[number].result()
    assert f"Test {number}_share_consumer_{TESTS[number]} PASSED" in told, told[-4000:]
    assert told.endswith("\nended with 0"), told[-1000:]
