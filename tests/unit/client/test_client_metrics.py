"""What clients count about their connections, and how Prometheus gets it."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from barnabas import AdminClient, Broker, Consumer, Producer, TopicPartition
from barnabas.client.prometheus import ClientCollector
from barnabas.network.metric_group import MetricGroup
from barnabas.network.network_metrics import NetworkMetrics, network_metrics, node_metrics
from tests.unit.client.clients_at_work import at_work


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_connections_requests_bytes_and_latencies_are_counted(broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("counted", b"x" * 1000).result(10)
        found, nodes = producer.metrics(), producer.node_metrics()

    assert found["connection-count"] == found["connection-creation-total"] == len(nodes)
    assert found["connection-close-total"] == found["failed-authentication-total"] == 0
    assert found["outgoing-byte-total"] > 1000
    assert found["incoming-byte-total"] > 100
    leader = nodes[1]
    assert leader["request-total"] == leader["response-total"] >= 2
    assert 1000 < leader["request-size-max"] < 1500
    assert 0 < leader["request-latency-avg"] <= leader["request-latency-max"] < 10_000
    assert sum(node["outgoing-byte-total"] for node in nodes.values()) == found["outgoing-byte-total"]


def test_closed_connections_are_counted_as_such(broker: Broker) -> None:
    producer = Producer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("counted", b"x").result(10)
    producer.close()
    found = producer.metrics()
    assert found["connection-count"] == 0
    assert found["connection-close-total"] == found["connection-creation-total"] > 0


def test_the_time_spent_in_transactions_flush_and_waiting_for_metadata_is_told(broker: Broker) -> None:
    began = time.monotonic()
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="timed") as producer:
        assert sum(value for name, value in producer.metrics().items() if name.endswith("-time-ns-total")) == 0
        producer.init_transactions()
        with producer.transaction():
            producer.send("counted", b"x")
            producer.flush()
            producer.send_offsets_to_transaction({TopicPartition("counted", 0): 1}, "timed")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            raise ZeroDivisionError
        found = producer.metrics()
        elapsed = time.monotonic() - began

    spent = {name: value for name, value in found.items() if name.endswith("-time-ns-total")}
    assert len(spent) == 9, "one for each operation, flush, metadata, and the wait for memory"
    unused = {"bufferpool-wait-time-ns-total", "txn-prepare-time-ns-total"}
    assert {name for name, value in spent.items() if not value} == unused
    assert sum(spent.values()) <= elapsed * 1e9


def test_a_consumers_metrics_may_be_read_while_another_thread_polls(broker: Broker) -> None:
    with Consumer("counted", bootstrap_servers=broker.bootstrap_servers, group_id="counting") as consumer:

        def poll_until_in_the_group() -> None:
            deadline = time.monotonic() + 30
            consumer.poll(0.2)
            while not consumer.assignment() and time.monotonic() < deadline:
                consumer.poll(0.2)

        polling = threading.Thread(target=poll_until_in_the_group)
        polling.start()
        reads = 0
        while polling.is_alive():
            found = consumer.metrics()
            reads += 1
        polling.join()
        assert reads > 1
        # The application's connections and those of the group's core.
        assert consumer.metrics()["connection-count"] >= 2
        assert 0 < found["request-total"] <= sum(node["request-total"] for node in consumer.node_metrics().values())


def test_an_admin_client_counts_too(broker: Broker) -> None:
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.metrics()["request-total"] == 0
        assert math.isnan(admin.metrics()["request-latency-avg"])
        admin.list_topics()
        assert admin.metrics()["request-total"] > 0


def test_several_network_clients_are_one_clients() -> None:
    one, other = NetworkMetrics(), NetworkMetrics()
    one.on_sent(1, 10, 100.0)
    one.on_answered(1, 5, 100.0, 100.001)
    other.on_sent(1, 30, 101.0)
    other.on_answered(1, 5, 101.0, 101.003)
    other.on_sent(2, 1, 102.0)
    both = [one, other]
    first, second = node_metrics("consumer-node-metrics", both, 110.0)
    assert first.group == second.group == "consumer-node-metrics"
    assert (first.tags, second.tags) == ({"node-id": "node-1"}, {"node-id": "node-2"})
    assert first.values["request-size-avg"] == 20
    assert first.values["request-latency-avg"] == pytest.approx(2.0)
    assert math.isnan(second.values["request-latency-max"])
    found = network_metrics(both, 110.0)
    assert (found["request-total"], found["network-io-total"]) == (3, 5)
    assert found["request-rate"] == pytest.approx(3 / 40), "in the ten seconds since the first, and one sample before"
    assert found["request-latency-max"] == pytest.approx(3.0)
    assert network_metrics(both, 170.0)["request-total"] == 3
    assert network_metrics(both, 170.0)["request-rate"] == 0
    assert math.isnan(network_metrics(both, 170.0)["request-latency-max"])


def test_prometheus_reads_clients_under_the_names_they_were_given(broker: Broker) -> None:
    registry = CollectorRegistry()
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        Consumer(
            "counted", bootstrap_servers=broker.bootstrap_servers, group_id="prometheus", auto_offset_reset="earliest"
        ) as consumer,
    ):
        collector = ClientCollector(orders=producer)
        registry.register(collector)
        collector.add("orders-reader", consumer)
        producer.send("counted", b"x").result(10)
        while not consumer.poll(1.0):
            pass

        text = generate_latest(registry).decode()
        collector.remove("orders-reader")
        later = generate_latest(registry).decode()

    assert registry.get_sample_value("kafka_producer_record_send_total", {"client": "orders"}) == 1
    assert registry.get_sample_value("kafka_producer_connection_count", {"client": "orders"}) == 0, "it is closed"
    latency = registry.get_sample_value("kafka_producer_node_request_latency_avg", {"client": "orders", "node": "1"})
    assert latency is not None
    assert latency > 0
    assert (
        '# TYPE kafka_consumer_connection_count gauge\nkafka_consumer_connection_count{client="orders-reader"}' in text
    )
    assert 'kafka_producer_topic_record_send_total{client="orders",topic="counted"} 1.0\n' in text
    for kind, name in (("counter", "record_send_total"), ("gauge", "record_send_rate"), ("gauge", "batch_size_avg")):
        assert f"# TYPE kafka_producer_{name} {kind}\n" in text
    rate = registry.get_sample_value("kafka_producer_record_send_rate", {"client": "orders"})
    assert rate is not None
    assert 0 < rate <= 1 / 30
    assert 'kafka_consumer_topic_records_consumed_total{client="orders-reader",topic="counted"}' in text
    assert 'kafka_consumer_partition_records_lag{client="orders-reader",partition="0",topic="counted"} 0.0\n' in text
    assert "orders-reader" not in later
    assert "NaN" not in text


def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, extra in (("prometheus", "metrics"), ("opentelemetry", "opentelemetry")):
        for library in ("prometheus_client.core", "opentelemetry"):
            monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.delitem(sys.modules, f"barnabas.client.{module}", raising=False)
        with pytest.raises(ImportError, match=rf"pip install barnabas\[{extra}\]"):
            __import__(f"barnabas.client.{module}")


def tags_by_group(groups: list[MetricGroup]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for group in groups:
        found.setdefault(group.group, []).append(dict(group.tags))
    return found


def test_all_metrics_are_told_in_kafkas_groups_and_the_rest_are_views_of_them(broker: Broker) -> None:
    began = time.time()
    with at_work(broker, "grouped") as (producer, consumer, admin):
        produced, consumed, asked = (client.metric_groups() for client in (producer, consumer, admin))
        topics, partitions = consumer.topic_metrics(), consumer.partition_metrics()
    nodes = [{"node-id": "node--1"}, {"node-id": "node-1"}]
    at = {"topic": "grouped", "partition": "0"}

    of_all = {"app-info": [{}], "kafka-metrics-count": [{}]}
    assert tags_by_group(produced) == {
        **of_all,
        "producer-metrics": [{}],
        "producer-topic-metrics": [{"topic": "grouped"}],
        "producer-node-metrics": nodes,
    }
    found = tags_by_group(consumed)
    assert found.pop("consumer-node-metrics")[:2] == nodes, "and the coordinator"
    assert found == {
        **of_all,
        "consumer-metrics": [{}],
        "consumer-coordinator-metrics": [{}],
        "consumer-fetch-manager-metrics": [{}, {"topic": "grouped"}, at],
    }
    assert tags_by_group(asked)["admin-client-metrics"] == [{}]
    assert topics["grouped"]["records-consumed-total"] == 1
    assert partitions[TopicPartition("grouped", 0)]["records-lag"] == 0
    for groups in (produced, consumed, asked):
        assert groups[-1].values == {"count": sum(len(group.values) for group in groups)}
        assert began * 1000 - 1 <= groups[-2].values["start-time-ms"] <= time.time() * 1000
        names = [name for group in groups if not group.tags for name in group.values]
        assert len(names) == len(set(names)), "metrics() would lose one"
