"""Broker, producers and consumers are killed at random; in the end every number is counted.

Numbers go into `in` by an idempotent producer; processes (copy_numbers.py) copy them to `out`: in transactions exactly
once, with commits at least once.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from tests.support.patience import PATIENCE

COPIER = Path(__file__).with_name("copy_numbers.py")
PARTITIONS = 3
KEYS = 17
COPIERS = 2
SETTINGS = {
    "group.min.session.timeout.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}


class Feeder(threading.Thread):
    """Sends numbers until it is stopped, and remembers which the broker has acknowledged."""

    def __init__(self, bootstrap: str):
        super().__init__(daemon=True)
        self._producer = Producer(bootstrap_servers=bootstrap, linger_ms=5)
        self._stopped = threading.Event()
        self.acknowledged: list[int] = []
        self.failures: list[Exception] = []
        self.sent = 0

    def run(self) -> None:
        while not self._stopped.wait(0.005):
            for number in range(self.sent, self.sent + 5):
                self._producer.send(
                    "in",
                    value=str(number).encode(),
                    key=str(number % KEYS).encode(),
                    on_delivery=lambda _metadata, error, number=number: (
                        self.failures.append(error) if error else self.acknowledged.append(number)
                    ),
                )
            self.sent += 5
        self._producer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive()


class Copiers:
    """The processes; one that has ended is replaced."""

    def __init__(self, bootstrap: str, source: random.Random, log: Path, mode: list[str]):
        self._bootstrap = bootstrap
        self._mode = mode
        self._source = source
        self._log = log
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.started = self.killed = 0

    def keep_running(self) -> None:
        for number in range(COPIERS):
            process = self._processes.get(number)
            if process is None or process.poll() is not None:
                command = [
                    sys.executable,
                    str(COPIER),
                    self._bootstrap,
                    str(number),
                    str(self._source.random()),
                    *self._mode,
                ]
                with self._log.open("ab") as log:
                    self._processes[number] = subprocess.Popen(command, stderr=log)
                self.started += 1

    def kill(self, number: int) -> None:
        process = self._processes[number]
        if process.poll() is None:
            process.kill()
            process.wait()
            self.killed += 1

    def close(self) -> None:
        for number in self._processes:
            self.kill(number)


def committed(broker: Broker, topic: str) -> list[list[tuple[bytes, int]]]:
    """Of each partition the keys and numbers that readers of committed records see."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found: list[list[tuple[bytes, int]]] = [[] for _ in partitions]
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + PATIENCE
        while any(consumer.position(p) < ends[p] for p in partitions) and time.monotonic() < deadline:
            for record in consumer.poll(timeout=0.2):
                found[record.partition].append((record.key, int(record.value)))
    return found


def faults_for(
    seconds: float, broker: Broker, copiers: Copiers, source: random.Random, is_enough: Callable[[], bool]
) -> int:
    """Kill this and that for so long, and until it had its effect; how often the broker was killed."""
    end = time.monotonic() + seconds
    crashes, patience = 0, 1.0
    while (left := end - time.monotonic()) > 0 or not (crashes and copiers.killed and is_enough()):
        assert left > -60
        if left <= 0:  # on a slow machine a process has to live longer before it does anything
            patience *= 1.2
        copiers.keep_running()
        time.sleep(patience * source.uniform(0.2, 1.2))
        if source.random() < 0.3 or (crashes == 0 and left < seconds / 2):
            broker.kill()
            time.sleep(source.uniform(0, 0.3))
            broker.start()
            crashes += 1
        else:
            copiers.kill(source.randrange(COPIERS))
    return crashes


def numbers_of(partitions: list[list[tuple[bytes, int]]]) -> Counter[int]:
    return Counter(number for partition in partitions for _, number in partition)


def check_order(partitions: list[list[tuple[bytes, int]]]) -> None:
    for partition in partitions:
        for key in {key for key, _ in partition}:
            of_key = [number for found, number in partition if found == key]
            assert of_key == sorted(of_key)


def count_everything(tmp_path: Path, seed: int, seconds: float, *mode: str) -> Counter[int]:
    """How often each number was copied."""
    source = random.Random(seed)
    log = tmp_path / "copiers.log"
    with Broker(config=SETTINGS) as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("in", PARTITIONS), NewTopic("out", PARTITIONS)])

        def is_enough() -> bool:
            """Without transactions somebody must have been killed between its records and their commit."""
            return bool(mode) or max(numbers_of(committed(broker, "out")).values(), default=0) > 1

        feeder, copiers = Feeder(broker.bootstrap_servers), Copiers(broker.bootstrap_servers, source, log, [*mode])
        try:
            copiers.keep_running()
            feeder.start()
            crashes = faults_for(seconds, broker, copiers, source, is_enough)
            feeder.stop()
            deadline = time.monotonic() + PATIENCE
            while len(numbers_of(committed(broker, "out"))) < feeder.sent:
                copiers.keep_running()
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.2)
        finally:
            copiers.close()
        taken, copied = committed(broker, "in"), committed(broker, "out")
    assert not feeder.failures
    assert sorted(feeder.acknowledged) == list(range(feeder.sent))
    assert numbers_of(taken) == Counter(range(feeder.sent))
    check_order(taken)
    counts = numbers_of(copied)
    assert set(counts) == set(range(feeder.sent))
    if mode:
        check_order(copied)
    assert feeder.sent > 100
    assert crashes > 0
    assert copiers.killed > 0
    sys.stdout.write(
        f"{feeder.sent} numbers, {crashes} crashes, {copiers.killed} of {copiers.started} copiers killed\n"
    )

    return counts


@pytest.mark.timeout(180)
def test_every_number_is_there_once_though_broker_and_producers_are_killed(tmp_path: Path) -> None:
    assert set(count_everything(tmp_path, 1, 4, "transactions").values()) == {1}


@pytest.mark.timeout(180)
def test_commits_that_were_not_recorded_lead_to_duplicates_but_nothing_is_lost(tmp_path: Path) -> None:
    assert max(count_everything(tmp_path, 1, 4).values()) > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 8))
def test_every_number_is_there_once_for_long(tmp_path: Path, seed: int) -> None:
    assert set(count_everything(tmp_path, seed, 60, "transactions").values()) == {1}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 4))
def test_every_number_is_there_for_long(tmp_path: Path, seed: int) -> None:
    assert max(count_everything(tmp_path, seed, 60).values()) > 1
