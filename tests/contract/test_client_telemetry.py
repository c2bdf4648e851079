"""Clients tell their metrics to the operators of a cluster who subscribe to them (KIP-714, KIP-1076).

The broker is Apache Kafka with a plugin that keeps what it is given; what Java's own clients push to it is the measure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, KafkaMetric, NewTopic, Producer, TopicPartition, aio
from barnabas.client.admin.configs import ConfigResource
from barnabas.errors import IllegalStateError, UnsupportedVersionError
from barnabas.protocol.kafka_uuid import to_text
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from tests.contract import telemetry_receiver
from tests.contract.telemetry_receiver import TelemetryReceiver
from tests.contract.waiting import eventually
from tests.peers.java_tools import JavaTools
from tests.support.core_broker import SocketClient

PREFIX = "org.apache.kafka"
RECORDS = 50


@pytest.fixture(scope="module")
def receiver() -> Iterator[TelemetryReceiver]:
    """A broker that everything is subscribed at, to be pushed as often as Kafka allows."""
    with telemetry_receiver.running() as receiver:
        with AdminClient(bootstrap_servers=receiver.bootstrap_servers) as admin:
            subscribe(admin, "everything", {"metrics": "*", "interval.ms": "100"})
            eventually(lambda: asked_for(receiver, "anybody") == ["*"])
            admin.create_topics([NewTopic("flights", 1)])
        yield receiver


def subscribe(admin: AdminClient, name: str, settings: dict[str, str]) -> None:
    """What kafka-client-metrics.sh does."""
    admin.incremental_alter_configs({ConfigResource.client_metrics(name): settings})


def asked_for(receiver: TelemetryReceiver, client_id: str) -> list[str]:
    """The metrics that the broker asks such a client for now: a moment after it has described the subscription so."""
    with SocketClient(receiver.bootstrap_servers) as client:
        wanted: list[str] = client.request(GetTelemetrySubscriptionsRequest(), 0, client_id).requested_metrics
    return wanted


def test_a_producer_pushes_its_metrics_and_a_last_time_when_it_closes(receiver: TelemetryReceiver) -> None:
    with Producer(bootstrap_servers=receiver.bootstrap_servers, client_id="sync-producer") as producer:
        for number in range(RECORDS):
            producer.send("flights", b"%d" % number).result(30)
        instance_id = to_text(producer.client_instance_id())
        eventually(lambda: len(receiver.pushes("sync-producer")) >= 2)

    pushes = receiver.pushes("sync-producer")
    assert {push.instance_id for push in pushes} == {instance_id}
    assert [push.is_last for push in pushes] == [False] * (len(pushes) - 1) + [True]
    total = sum(push.value(f"{PREFIX}.producer.record.send.total") for push in pushes)
    assert total == RECORDS, "what was sent since the last push is told, and adds up"
    of_topic = f"{PREFIX}.producer.topic.record.send.total"
    assert sum(push.value(of_topic, topic="flights") for push in pushes if of_topic in push.metrics) == RECORDS
    assert pushes[-1].value(f"{PREFIX}.producer.node.request.latency.max", node_id="node-1") > 0


def most_assigned(receiver: TelemetryReceiver, client_id: str) -> float:
    """The most partitions that any push told of; 0 before there is one."""
    name = f"{PREFIX}.consumer.coordinator.assigned.partitions"
    return max((push.value(name) for push in receiver.pushes(client_id) if name in push.metrics), default=0)


def test_a_consumer_tells_which_member_of_which_group_it_is(receiver: TelemetryReceiver) -> None:
    fill(receiver, "flights-of-groups")
    for protocol in ("classic", "consumer"):
        client_id = f"{protocol}-consumer"
        with Consumer(
            "flights-of-groups", bootstrap_servers=receiver.bootstrap_servers, client_id=client_id, client_rack="r1",
            group_id=f"group-{protocol}", group_protocol=protocol, auto_offset_reset="earliest",
        ) as consumer:  # fmt: skip
            read(consumer)
            labels = {
                "client_rack": "r1", "group_id": f"group-{protocol}",
                "group_member_id": consumer.group_metadata().member_id,
            }  # fmt: skip
            eventually(partial(is_pushed, receiver, client_id, labels))
            # A push may have gone between the joining and the assignment.
            eventually(partial(most_assigned, receiver, client_id))

        pushes = receiver.pushes(client_id)
        assert pushes[-1].is_last
        records = f"{PREFIX}.consumer.fetch.manager.records.consumed.total"
        assert sum(push.value(records) for push in pushes) == RECORDS
        assert most_assigned(receiver, client_id) == 1


def test_a_consumer_whose_application_is_busy_pushes_on(receiver: TelemetryReceiver) -> None:
    fill(receiver, "flights-of-a-busy-one")
    with Consumer(
        "flights-of-a-busy-one", bootstrap_servers=receiver.bootstrap_servers, client_id="busy", group_id="busy",
        auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        read(consumer)
        before = len(receiver.pushes("busy"))

        eventually(lambda: len(receiver.pushes("busy")) >= before + 3)


def test_a_consumer_without_a_group_has_an_id_before_it_reads(receiver: TelemetryReceiver) -> None:
    with Consumer(bootstrap_servers=receiver.bootstrap_servers, client_id="alone") as consumer:
        instance_id = consumer.client_instance_id(30)
        consumer.assign([TopicPartition("flights", 0)])
        consumer.poll(0.0)

        assert len(instance_id) == 16
        assert consumer.client_instance_id(0) == instance_id
    assert receiver.has_last_push("alone")


def test_an_admin_client_pushes_while_it_is_used(receiver: TelemetryReceiver) -> None:
    servers = receiver.bootstrap_servers
    with AdminClient(bootstrap_servers=servers, client_id="sync-admin", enable_metrics_push=True) as admin:
        instance_id = admin.client_instance_id()
        admin.list_topics()

    assert {push.instance_id for push in receiver.pushes("sync-admin")} == {to_text(instance_id)}
    # Each push tells what has come since the one before.
    made = [push.value(f"{PREFIX}.admin.client.connection.creation.total") for push in receiver.pushes("sync-admin")]
    assert sum(made) >= 1


def test_clients_of_an_event_loop_push_as_well(receiver: TelemetryReceiver) -> None:
    fill(receiver, "flights-of-loops")

    async def work() -> dict[str, bytes]:
        servers = receiver.bootstrap_servers
        async with (
            aio.Producer(bootstrap_servers=servers, client_id="aio-producer") as producer,
            aio.Consumer(
                "flights-of-loops", bootstrap_servers=servers, client_id="aio-consumer", group_id="aio",
                auto_offset_reset="earliest",
            ) as consumer,
            aio.AdminClient(bootstrap_servers=servers, client_id="aio-admin", enable_metrics_push=True) as admin,
        ):  # fmt: skip
            await (await producer.send("flights", b"one"))
            while not await consumer.poll(1.0):
                pass
            await admin.list_topics()
            clients = {"aio-producer": producer, "aio-consumer": consumer, "aio-admin": admin}
            ids = {name: await client.client_instance_id() for name, client in clients.items()}
            while not receiver.pushes("aio-consumer"):
                await consumer.poll(0.05)
            return ids

    ids = asyncio.run(work())

    for client_id, instance_id in ids.items():
        assert {push.instance_id for push in receiver.pushes(client_id)} == {to_text(instance_id)}
        assert receiver.has_last_push(client_id)


def test_metrics_of_the_application_go_along(receiver: TelemetryReceiver) -> None:
    orders = KafkaMetric("open-orders", "shop-metrics", lambda: 7.0, {"shop-id": "s1"})
    gone = KafkaMetric("gone", "shop-metrics", lambda: 1.0)
    broken = KafkaMetric("broken", "shop-metrics", lambda: 1 / 0)
    not_theirs = KafkaMetric("record-send-total", "producer-metrics", lambda: -1.0, is_total=True)
    with Producer(bootstrap_servers=receiver.bootstrap_servers, client_id="shop") as producer:
        for metric in (orders, gone, broken, not_theirs):
            producer.register_metric_for_subscription(metric)
        producer.unregister_metric_from_subscription(gone)
        producer.send("flights", b"one").result(30)
        # At the end it pushes what the cluster has subscribed to by then.
        producer.client_instance_id(30)

    (last,) = (push for push in receiver.pushes("shop") if push.is_last)
    assert last.value(f"{PREFIX}.shop.open.orders", shop_id="s1") == 7
    assert f"{PREFIX}.shop.gone" not in last.metrics
    assert f"{PREFIX}.shop.broken" not in last.metrics
    assert sum(push.value(f"{PREFIX}.producer.record.send.total") for push in receiver.pushes("shop")) == 1


def test_only_what_is_subscribed_to_is_pushed(receiver: TelemetryReceiver) -> None:
    wanted = f"{PREFIX}.producer.node."
    with AdminClient(bootstrap_servers=receiver.bootstrap_servers) as admin:
        subscribe(admin, "everything", {"match": "client_id=(?!picky).*"})
        subscribe(admin, "nodes", {"metrics": wanted, "interval.ms": "100", "match": "client_id=picky"})
        eventually(lambda: asked_for(receiver, "picky") == [wanted])
    with Producer(bootstrap_servers=receiver.bootstrap_servers, client_id="picky") as producer:
        producer.send("flights", b"one").result(30)
        eventually(lambda: receiver.pushes("picky"))

    names = {name for push in receiver.pushes("picky") for name in push.metrics}
    assert names
    assert all(name.startswith(wanted) for name in names)


def test_a_client_that_sends_no_telemetry_has_no_id(receiver: TelemetryReceiver) -> None:
    servers = receiver.bootstrap_servers
    with Producer(bootstrap_servers=servers, client_id="quiet", enable_metrics_push=False) as producer:
        producer.send("flights", b"one").result(30)
        with pytest.raises(IllegalStateError, match=r"enable\.metrics\.push is off"):
            producer.client_instance_id()
    assert not receiver.pushes("quiet")


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_what_java_has_as_well_is_told_as_java_tells_it(receiver: TelemetryReceiver, client: str) -> None:
    fill(receiver, "flights-of-java")
    java = {
        "producer": (
            "org.apache.kafka.tools.ProducerPerformance", "--topic", "flights-of-java", "--num-records", "1000",
            "--record-size", "10", "--throughput", "1000", "--producer-props", "client.id=java-producer",
            f"bootstrap.servers={receiver.bootstrap_servers}",
        ),
        "consumer": (
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "flights-of-java", "--from-beginning",
            "--timeout-ms", "2000", "--group", "java", "--command-property", "client.id=java-consumer",
            "--bootstrap-server", receiver.bootstrap_servers,
        ),
    }  # fmt: skip
    with JavaTools() as tools:
        # Java's clients push when there is time for it, and may close before.
        eventually(lambda: tools.run(*java[client]) and receiver.pushes(f"java-{client}"), 120)
    use: dict[str, Callable[[TelemetryReceiver], object]] = {"producer": produce, "consumer": consume}
    use[client](receiver)

    javas, ours = (kinds(receiver.pushes(name)) for name in (f"java-{client}", f"our-{client}"))
    common = javas.keys() & ours.keys()
    assert {name: ours[name] for name in common} == {name: javas[name] for name in common}
    assert len(common) > 40


def produce(receiver: TelemetryReceiver) -> None:
    with Producer(bootstrap_servers=receiver.bootstrap_servers, client_id="our-producer") as producer:
        for _ in range(RECORDS):
            producer.send("flights-of-java", b"one").result(30)
        eventually(lambda: receiver.pushes("our-producer"))


def consume(receiver: TelemetryReceiver) -> None:
    with Consumer(
        "flights-of-java", bootstrap_servers=receiver.bootstrap_servers, client_id="our-consumer", group_id="ours",
        auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        read(consumer)
        consumer.commit()
        eventually(lambda: consumer.poll(0.05) is not None and receiver.pushes("our-consumer"))


def is_pushed(receiver: TelemetryReceiver, client_id: str, labels: dict[str, str]) -> bool:
    """Whether a client has pushed with these labels."""
    return any(push.labels == labels for push in receiver.pushes(client_id))


def kinds(pushes: list[Any]) -> dict[str, tuple[object, ...]]:
    """Of all metrics of all pushes."""
    return {name: kind for push in pushes for name, kind in push.kinds().items()}


def fill(receiver: TelemetryReceiver, topic: str) -> None:
    """A topic of one partition with some records."""
    servers = receiver.bootstrap_servers
    with Producer(bootstrap_servers=servers, enable_metrics_push=False) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number)


def read(consumer: Consumer[Any, Any]) -> None:
    """All records of the topic."""
    left = RECORDS
    while left > 0:
        left -= len(consumer.poll(1.0))


def test_a_broker_without_a_receiver_gives_no_id(bootstrap_servers: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer, pytest.raises(UnsupportedVersionError):
        producer.client_instance_id(30)
