"""Coordinators of transactions go between Apache Kafka's brokers and ours; no transaction stays open anywhere.

`__transaction_state` is led by one kind of broker, then the other, while transactions are open, decided, or complete
in some of their partitions. Afterwards the last stable offset of every partition is its end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.admin import OffsetSpec
from barnabas.errors import KafkaError
from barnabas.protocol.kinds import ElectionType
from tests.contract.mixed_world import SOON, World
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]

STATES = "__transaction_state"
#: Brokers of Apache Kafka, and ours.
THEIRS, OURS = (1, 2), (3, 4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    # A paused leader keeps its leaderships: its markers have to wait.
    with MixedCluster(theirs=2, ours=2, settings={"broker.session.timeout.ms": "20000"}) as running:
        yield running


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    # A broker that is paused answers nothing: another one is asked soon.
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "request.timeout.ms": 3000, **SOON}) as admin:
        yield World(cluster, admin)


def lead(world: World, topic: str, leader: int, others: list[int] | None = None) -> None:
    """Have a broker lead every partition of a topic: it becomes the first of their replicas, and is elected."""
    moved = {}
    for found in world.partitions(topic):
        replicas = [node.id for node in found.replicas]
        rest = others or [number for number in replicas if number != leader][: len(replicas) - 1]
        moved[TopicPartition(topic, found.partition)] = [leader, *rest]
    with suppress(KafkaError):  # leads already, or is not in sync yet
        world.admin.alter_partition_reassignments(moved)
        time.sleep(0.2)
        world.admin.elect_leaders(ElectionType.PREFERRED, list(moved))


def _is_led(part: Any, brokers: tuple[int, ...]) -> bool:
    replicas = tuple(node.id for node in part.replicas)
    is_whole = len(part.in_sync_replicas) == len(brokers)
    return replicas == brokers and is_whole and part.leader is not None and part.leader.id == brokers[0]


def coordinate(world: World, *brokers: int) -> None:
    """Have the first of these brokers lead `__transaction_state`, and the others follow it, in sync."""
    if not world.partitions(STATES):
        with Producer({**world.settings, "transactional.id": "first"}) as producer:
            producer.init_transactions()

    def is_so() -> bool:
        found = world.partitions(STATES)
        if all(_is_led(part, brokers) for part in found):
            return True
        if all(len(part.in_sync_replicas) == len(part.replicas) for part in found):
            lead(world, STATES, brokers[0], list(brokers[1:]))
        time.sleep(0.3)
        return False

    eventually(is_so, 180)


def stuck(world: World, topic: str, only: list[int] | None = None) -> dict[TopicPartition, tuple[int, int]]:
    """The partitions whose last stable offset is not their end, with both."""
    indexes = only if only is not None else [found.partition for found in world.partitions(topic)]
    names = [TopicPartition(topic, index) for index in indexes]
    ends = world.admin.list_offsets(dict.fromkeys(names, OffsetSpec.LATEST))
    stable = world.admin.list_offsets(dict.fromkeys(names, OffsetSpec.LATEST), isolation_level="read_committed")
    return {name: (stable[name].offset, ends[name].offset) for name in names if stable[name] != ends[name]}


class Load:
    """Producers that commit and abort small transactions over all partitions of a topic, as long as the block lasts."""

    def __init__(self, world: World, topic: str, partitions: int, writers: int) -> None:
        self._world, self._topic, self._partitions = world, topic, partitions
        self._is_over = threading.Event()
        self.done = [0] * writers
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait_for_each(self, more: int) -> None:
        """Return when each producer has ended so many more."""
        wanted = [done + more for done in self.done]
        eventually(lambda: all(done >= least for done, least in zip(self.done, wanted, strict=True)), 60)

    def _write(self, number: int) -> None:
        random = Random(number)
        settings = {**self._world.settings, "transactional.id": f"storm-{number}", "linger.ms": 0}
        while not self._is_over.is_set():
            with suppress(KafkaError), Producer(settings) as producer:
                producer.init_transactions()
                while not self._is_over.is_set():
                    producer.begin_transaction()
                    for _ in range(random.randint(1, 4)):
                        producer.send(self._topic, b"x", partition=random.randrange(self._partitions))
                    producer.commit_transaction() if random.random() < 0.8 else producer.abort_transaction()
                    self.done[number] += 1


def test_no_transaction_stays_open_while_coordinators_and_leaders_move(world: World) -> None:
    """A refused marker named no producer once: a coordinator of Apache Kafka forgot it, and it was never written."""
    topic = world.create("storm", {n: [(n + k) % 4 + 1 for k in range(3)] for n in range(6)})
    random = Random(1)
    with Load(world, topic, 6, 6) as load:
        for turn in range(30):
            load.wait_for_each(1)
            lead(world, STATES, (THEIRS if turn % 2 else OURS)[turn // 2 % 2])
            lead(world, topic, random.randint(1, 4))
        load.wait_for_each(1)
    eventually(lambda: not stuck(world, topic), 30)


# -- one transaction, held in each of its states ---------------------------------------------------------------------


class Held:
    """A transaction in two partitions, whose leaders can be paused: their markers wait."""

    def __init__(self, world: World, name: str, coordinator: int, slow: int, quick: int) -> None:
        self.world, self.name, self.leaders = world, name, (quick, slow)
        others = [number for number in (*THEIRS, *OURS) if number not in (coordinator, slow, quick)]
        self.topic = world.create(name, {0: [quick, *others], 1: [slow, *others]})
        self.producer: Producer[bytes, bytes] = Producer({**world.settings, "transactional.id": name})
        self.producer.init_transactions()
        self._ending: threading.Thread | None = None

    def write(self) -> None:
        self.producer.begin_transaction()
        sent = [self.producer.send(self.topic, b"x", partition=index) for index in (0, 1)]
        for future in sent:
            future.result(60)

    @contextmanager
    def paused(self, first: int) -> Iterator[None]:
        """With the leaders paused from this partition on."""
        pids = [self.world.brokers[number].pid for number in self.leaders[first:]]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def end(self, commit: bool) -> None:
        """Begin to end it; returns once that is decided."""
        end = self.producer.commit_transaction if commit else self.producer.abort_transaction
        self._ending = threading.Thread(target=end)
        self._ending.start()
        eventually(lambda: self.state in ("PrepareCommit", "PrepareAbort"), 60)

    @property
    def state(self) -> str:
        return str(self.world.admin.describe_transactions([self.name])[self.name].state)

    def check(self, commit: bool) -> None:
        """It has ended as decided, and the producer goes on."""
        if self._ending is not None:
            self._ending.join(60)
            assert not self._ending.is_alive(), "the producer was never told that its transaction has ended"
        eventually(lambda: not stuck(self.world, self.topic), 60)
        for wanted in (2 if commit else 0, 4 if commit else 2):
            assert len(read(self.world, self.topic, wanted)) == wanted
            self.write()
            self.producer.commit_transaction()
        self.producer.close()


def read(world: World, topic: str, count: int) -> list[bytes]:
    """The committed records, `count` at least."""
    found: list[bytes] = []
    partitions = [TopicPartition(topic, index) for index in (0, 1)]
    with Consumer({**world.settings, "isolation.level": "read_committed"}) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()

        def has_read_all() -> bool:
            # A transaction is committed for its producer before its markers are in the partitions.
            found.extend(record.value for record in consumer.poll(0.2))
            ends = consumer.end_offsets(partitions)
            return len(found) >= count and all(consumer.position(partition) >= end for partition, end in ends.items())

        eventually(has_read_all, 30)
    return found


def hand_over(world: World, coordinator: int, following: int) -> None:
    lead(world, STATES, following)


def stop(world: World, coordinator: int, following: int) -> None:
    world.brokers[coordinator].stop()


def kill(world: World, coordinator: int, following: int) -> None:
    world.brokers[coordinator].stop(kill=True)


#: State → how many of the two markers are written when the coordinator moves.
_MARKERS = {"Ongoing": 0, "PrepareCommit": 0, "PrepareAbort": 0, "half committed": 1, "half aborted": 1, "committed": 2}


#: The coordinator, who follows it, the broker that is paused, the one that leads the other partition.
@pytest.mark.parametrize("roles", [(1, 3, 2, 4), (3, 1, 4, 2), (1, 3, 4, 2), (3, 1, 2, 4)], ids=str)
@pytest.mark.parametrize("move", [hand_over, stop, kill])
@pytest.mark.parametrize("state", _MARKERS)
def test_a_transaction_ends_wherever_its_coordinator_moves(
    world: World, state: str, move: Callable[[World, int, int], None], roles: tuple[int, int, int, int]
) -> None:
    """None, one or both of its partitions have their markers when another kind of broker becomes the coordinator."""
    coordinator, following, slow, quick = roles
    coordinate(world, coordinator, following, quick)
    name = f"{state}-{move.__name__}-{coordinator}-{slow}".replace(" ", "-")
    held = Held(world, name, coordinator, slow, quick)
    held.write()
    is_aborted, written = "bort" in state, _MARKERS[state]
    if state in ("Ongoing", "committed"):
        if written:
            held.producer.commit_transaction()
            eventually(lambda: not stuck(world, held.topic), 30)
        move(world, coordinator, following)
    else:
        with held.paused(first=written):
            held.end(commit=not is_aborted)
            if written:
                eventually(lambda: not stuck(world, held.topic, [0]), 30)
            move(world, coordinator, following)
            time.sleep(1)
    if not world.brokers[coordinator].is_running:
        world.brokers[coordinator].start()
    if state == "Ongoing":
        held.producer.commit_transaction()
    held.check(commit=not is_aborted)
