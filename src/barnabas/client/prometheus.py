"""The clients' metrics for Prometheus, through its own library (extra `metrics`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise ImportError("barnabas.client.prometheus needs prometheus-client: pip install barnabas[metrics]") from None


class Measured(Protocol):
    """Producer, Consumer or AdminClient."""

    def metrics(self) -> dict[str, float]:
        """Numbers by name."""

    def node_metrics(self) -> dict[int, dict[str, float]]:
        """Numbers by broker and name."""


class ClientCollector(Collector):
    """Reads the metrics of clients when Prometheus asks: `REGISTRY.register(ClientCollector(orders=producer))`.

    Each client is given under the name that the label `client` is to have. `record-send-total` of a producer becomes
    `kafka_producer_record_send_total{client="orders"}`; what is counted by broker has `node_` in its name and the label
    `node`, by topic `topic_` and the label `topic`, by partition `partition_` and the labels `topic` and `partition`.
    Averages and maxima that have no value yet are left out.
    """

    def __init__(self, **clients: Measured) -> None:
        self._clients = clients

    def add(self, name: str, client: Measured) -> None:
        """One more client, or another one under a known name."""
        self._clients[name] = client

    def remove(self, name: str) -> None:
        """Forget a client, when it is closed."""
        self._clients.pop(name, None)

    def describe(self) -> list[Metric]:
        """Nothing is promised before there are clients to ask."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The numbers now."""
        families: dict[str, Metric] = {}
        for name, client in list(self._clients.items()):
            kind = _kind(client)
            for scope, labels, values in _all_metrics(client):
                for metric, value in values.items():
                    _add(families, f"kafka_{kind}_{scope}{_snake(metric)}", {"client": name, **labels}, value)
        yield from families.values()


def _all_metrics(client: Any) -> Iterator[tuple[str, dict[str, str], dict[str, float]]]:
    """What goes before the names, the labels, and the numbers by name."""
    yield "", {}, client.metrics()
    for node, values in client.node_metrics().items():
        yield "node_", {"node": str(node)}, values
    # An AdminClient has no numbers by topic, a Producer none by partition.
    if hasattr(client, "topic_metrics"):
        for topic, values in client.topic_metrics().items():
            yield "topic_", {"topic": topic}, values
    if hasattr(client, "partition_metrics"):
        for partition, values in client.partition_metrics().items():
            yield "partition_", {"topic": partition.topic, "partition": str(partition.partition)}, values


def _kind(client: Measured) -> str:
    """`producer`, `consumer` or `admin`, by what the client's class is called."""
    names = [base.__name__.lower() for base in type(client).__mro__]
    return next((kind for kind in ("producer", "consumer", "admin") if any(kind in name for name in names)), "client")


def _snake(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _add(families: dict[str, Metric], name: str, labels: dict[str, str], value: float) -> None:
    if value != value:  # not a number: nothing has happened yet
        return
    family = families.get(name)
    if family is None:
        make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        text = f"Kafka's {name.removeprefix('kafka_').partition('_')[2].replace('_', '-')}"
        family = families[name] = make(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]  # both families have it
