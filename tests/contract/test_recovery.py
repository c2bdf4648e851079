"""Clients and what can happen to their broker and the way to it: they recover by themselves, or say what is wrong.

Each case runs a producer and a consumer through a `FaultProxy` while the fault is there and after it has gone. Nothing
is lost, nothing doubled, nothing out of order, and nobody spins meanwhile.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from barnabas.errors import CommitFailedError, KafkaTimeoutError, RebalanceInProgressError
from barnabas.testing.fault_proxy import FaultProxy
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.support.patience import PATIENCE

SOON = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "request.timeout.ms": 800,
    "socket.connection.setup.timeout.ms": 500,
}
#: The part of one processor that producer, consumer and this test may use together during a fault.
MOST_CPU = 0.5


class World:
    """A broker behind a proxy, and the clients of a test."""

    def __init__(self, proxy: FaultProxy, broker: Broker) -> None:
        self.proxy = proxy
        self.broker = broker

    def settings(self, **others: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.proxy.address, **SOON, **{k.replace("_", "."): v for k, v in others.items()}}

    def gone_for(self, seconds: float) -> None:
        self.broker.kill()
        time.sleep(seconds)
        self.broker.restart()


@pytest.fixture
def world() -> Iterator[World]:
    with FaultProxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.forward_to(broker.bootstrap_servers)
        yield World(proxy, broker)


def cpu_share(work: Callable[[], object]) -> float:
    """How much of one processor this process used while something happened."""
    started, before = time.monotonic(), time.process_time()
    work()
    return (time.process_time() - before) / (time.monotonic() - started)


def a_broker_that_is_gone(world: World) -> None:
    world.gone_for(1.5)


def cuts_in_mid_frame(world: World) -> None:
    source = random.Random(1)
    for number in range(12):
        world.proxy.cut_after(source.randrange(400), "to_client" if number % 2 else "to_broker")
        time.sleep(0.12)


def resets(world: World) -> None:
    for _ in range(5):
        world.proxy.cut(reset=True)
        time.sleep(0.2)


def a_half_open_connection(world: World) -> None:
    world.proxy.freeze()
    time.sleep(2.0)


def a_line_that_is_narrow_and_slow(world: World) -> None:
    world.proxy.delay(0.05)
    world.proxy.limit_bandwidth(60_000)
    time.sleep(1.0)


def garbage(world: World) -> None:
    source = random.Random(2)
    for garbage in (
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",  # a negative size
        b"\x7f\xff\xff\xff\x00\x00",  # a size that never comes
        b"\x00\x00\x00\x04\x12\x34\x56\x78",  # another request's number
        b"\x00\x00\x00\x00",
        source.randbytes(300),
        b"\x00\x00\x01\x00" + source.randbytes(256),
    ):
        world.proxy.garble(garbage)
        time.sleep(0.3)
        world.proxy.heal()
        time.sleep(0.1)


@pytest.mark.parametrize(
    "fault",
    [a_broker_that_is_gone, cuts_in_mid_frame, resets, a_half_open_connection, a_line_that_is_narrow_and_slow, garbage],
    ids=lambda fault: fault.__name__,
)
def test_nothing_is_lost_or_doubled_and_nobody_spins(world: World, fault: Callable[[World], None]) -> None:
    with Traffic(world.settings()) as traffic:
        share = cpu_share(lambda: fault(world))
        world.proxy.heal()
        traffic.wait_until_read(traffic.sent)
    assert share < MOST_CPU


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_broker_may_be_gone_for_a_minute(world: World) -> None:
    with Traffic(world.settings()) as traffic:
        assert cpu_share(lambda: world.gone_for(60)) < MOST_CPU
        traffic.wait_until_read(traffic.sent, 60)


def test_a_broker_may_come_back_at_another_address(tmp_path: Path) -> None:
    with FaultProxy() as old, FaultProxy() as new:
        settings = {**SOON, "bootstrap.servers": f"{old.address},{new.address}"}
        with Broker(data_dir=tmp_path, advertised_listeners=f"PLAINTEXT://{old.address}") as broker:
            old.forward_to(broker.bootstrap_servers)
            new.forward_to(broker.bootstrap_servers)
            traffic = Traffic(settings).__enter__()
        old.refuse()
        try:
            with Broker(data_dir=tmp_path, advertised_listeners=f"PLAINTEXT://{new.address}") as broker:
                new.forward_to(broker.bootstrap_servers)
                traffic.wait_until_read(traffic.sent)
                traffic.__exit__(None)
        except BaseException as error:
            traffic.__exit__(type(error))
            raise


def test_bootstrap_servers_may_all_be_dead_at_the_start(world: World) -> None:
    world.proxy.refuse()
    producer: Producer[Any, Any] = Producer(world.settings(max_block_ms=600))
    consumer: Consumer[Any, Any] = Consumer(TOPIC, world.settings(group_id="g", auto_offset_reset="earliest"))
    admin = AdminClient(world.settings())
    with producer, consumer, admin:

        def in_vain() -> None:
            started = time.monotonic()
            with pytest.raises(KafkaTimeoutError):
                producer.send(TOPIC, b"0").result(5)
            with pytest.raises(KafkaTimeoutError):
                admin.list_topics(timeout=0.6)
            assert not consumer.poll(0.6)
            with pytest.raises(KafkaTimeoutError):
                consumer.partitions_for(TOPIC, timeout=0.6)
            assert time.monotonic() - started < 12

        assert cpu_share(in_vain) < MOST_CPU
        world.proxy.heal()
        eventually(lambda: producer.send(TOPIC, b"1").exception(5) is None)
        assert TOPIC in admin.list_topics()
        eventually(lambda: bool(consumer.poll(0.5)))


def test_a_topic_may_be_deleted_and_created_again_under_its_clients(world: World) -> None:
    with AdminClient(world.settings()) as admin, Producer(world.settings(linger_ms=0)) as producer:
        admin.create_topics([NewTopic(TOPIC, 1)])
        settings = world.settings(
            group_id="g", auto_offset_reset="earliest", metadata_max_age_ms=300, allow_auto_create_topics=False
        )
        with Consumer(TOPIC, settings) as consumer:
            for number in range(5):
                producer.send(TOPIC, b"old %d" % number).result(10)
            assert values(consumer, 5) == [b"old %d" % number for number in range(5)]
            admin.delete_topics([TOPIC])
            assert cpu_share(lambda: consumer.poll(1.0)) < MOST_CPU
            admin.create_topics([NewTopic(TOPIC, 1)])
            for number in range(3):
                producer.send(TOPIC, b"new %d" % number).result(10)
            assert values(consumer, 3) == [b"new %d" % number for number in range(3)]


def test_commits_while_the_group_rebalances_succeed_or_say_why_and_no_record_is_missed(world: World) -> None:
    with AdminClient(world.settings()) as admin:
        admin.create_topics([NewTopic(TOPIC, 4)])
    settings = world.settings(
        group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, heartbeat_interval_ms=100
    )
    seen: set[int] = set()
    refused: list[Exception] = []

    def work(consumer: Consumer[Any, Any], until: Callable[[], bool]) -> None:
        while not until():
            records = consumer.poll(0.1)
            seen.update(int(record.value) for record in records)
            try:
                consumer.commit(timeout=5)
            except (CommitFailedError, RebalanceInProgressError) as error:
                refused.append(error)

    stop = threading.Event()
    with Producer(world.settings()) as producer, Consumer(TOPIC, settings) as steady:
        worker = threading.Thread(target=work, args=(steady, stop.is_set))
        worker.start()
        sent = 0
        try:
            for _ in range(4):
                with Consumer(TOPIC, settings) as guest:
                    until = time.monotonic() + 0.7
                    while time.monotonic() < until:
                        producer.send(TOPIC, b"%d" % sent, partition=sent % 4)
                        sent += 1
                        records = guest.poll(0.02)
                        seen.update(int(record.value) for record in records)
                        try:
                            guest.commit(timeout=5)
                        except (CommitFailedError, RebalanceInProgressError) as error:
                            refused.append(error)
            producer.flush(10)
            eventually(lambda: seen == set(range(sent)))
            # Who was refused reads and commits again after the rebalance.
            with AdminClient(world.settings()) as admin:
                eventually(lambda: sum(at.offset for at in admin.list_consumer_group_offsets("g").values()) == sent)
        finally:
            stop.set()
            worker.join()


def test_a_consumer_closed_while_it_joins_leaves_at_once_and_keeps_nobody_from_its_partitions(world: World) -> None:
    with AdminClient(world.settings()) as admin:
        admin.create_topics([NewTopic(TOPIC, 2)])
        settings = world.settings(group_id="g", request_timeout_ms=10_000)
        first_id = "first"
        with Consumer(TOPIC, {**settings, "client.id": first_id}) as first:
            eventually(lambda: first.poll(0.05) is not None and len(first.assignment()) == 2)
            second: Consumer[Any, Any] = Consumer(TOPIC, settings)
            second.poll(0.5)  # it waits for the first one, which does not poll, to join again
            started = time.monotonic()
            second.close()
            assert time.monotonic() - started < 5
            assert [member.client_id for member in admin.describe_groups(["g"])["g"].members] == [first_id]
            eventually(lambda: first.poll(0.05) is not None and len(first.assignment()) == 2)


def test_closing_does_not_wait_for_a_mute_broker_when_nothing_is_left_to_be_sent(world: World) -> None:
    settings = world.settings(request_timeout_ms=20_000, max_block_ms=400)
    with Producer(settings) as used:
        eventually(lambda: used.send(TOPIC, b"0").exception(10) is None)
        world.proxy.freeze()
        unused: Producer[Any, Any] = Producer(settings)
        with pytest.raises(KafkaTimeoutError):
            unused.send(TOPIC, b"1").result()
        with pytest.raises(KafkaTimeoutError):
            used.partitions_for("another")
        started = time.monotonic()
        unused.close()
        used.close()
        assert time.monotonic() - started < 8
        world.proxy.heal()


def values(consumer: Consumer[Any, Any], count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += [record.value for record in consumer.poll(0.5)]
    return found
