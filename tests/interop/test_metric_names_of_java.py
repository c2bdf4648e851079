"""The list of metrics to which ours are held is what a broker of Apache Kafka tells by JMX."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from barnabas import Consumer, Producer
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka, free_port
from tests.peers.java_tools import JavaTools
from tests.unit.broker.metrics.test_metric_names_of_kafka import NAMES, listed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

_BEAN = re.compile(r"(kafka\.[\w.]+):(.*):([\w.-]+)\t")


def told(printed: str) -> Iterator[str]:
    """The names in what JmxTool prints: of Yammer's beans their name, of others the attribute."""
    for domain, properties, attribute in _BEAN.findall(printed):
        found = dict(one.split("=", 1) for one in properties.split(",") if "=" in one)
        yield f"{domain} {found['type']}:{found.get('name', attribute)}"


def test_the_list_is_that_of_a_running_broker() -> None:
    if missing := apache_kafka.why_not():
        pytest.skip(missing)
    port = str(free_port())
    kafka = ApacheKafka()
    options = {"port": port, "rmi.port": port, "authenticate": "false", "ssl": "false"}
    kafka.system.update({f"com.sun.management.jmxremote.{name}": value for name, value in options.items()})
    kafka.system["java.rmi.server.hostname"] = "127.0.0.1"
    with kafka, JavaTools() as java:
        client = {"bootstrap.servers": kafka.bootstrap_servers}
        with Producer(client) as producer:
            producer.send("flights", b"one").result(30)
        with Consumer("flights", {**client, "group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
            assert len(consumer.poll(timeout=30)) == 1
        address = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
        options_of_tool = ("--object-name", "kafka.*:*", "--one-time", "--report-format", "tsv", "--jmx-url", address)
        printed = java.run("org.apache.kafka.tools.JmxTool", *options_of_tool)

    assert printed.code == 0, printed.err
    assert sorted(set(told(printed.out))) == sorted(map(str, listed())), f"write {NAMES.name} anew"
