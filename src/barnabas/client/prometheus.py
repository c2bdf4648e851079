"""The clients' metrics for Prometheus, through its own library (extra `metrics`)."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.network.metric_group import NODE_ID, PARTITION, TOPIC, Measured, MetricGroup, node_of

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise ImportError("barnabas.client.prometheus needs prometheus-client: pip install barnabas[metrics]") from None


class ClientCollector(Collector):
    """Reads the metrics of clients when Prometheus asks: `REGISTRY.register(ClientCollector(orders=producer))`.

    Each client is given under the name that the label `client` is to have. `record-send-total` of a producer becomes
    `kafka_producer_record_send_total{client="orders"}`; what is counted by broker has `node_` in its name and the label
    `node`, by topic `topic_` and the label `topic`, by partition `partition_` and the labels `topic` and `partition`.
    Those of a `KafkaStreams` are named for their group: `kafka_streams_task_process_total` is one of each task's.
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
        """Return the numbers now."""
        families: dict[str, Metric] = {}
        for name, client in list(self._clients.items()):
            kind = _kind(client)
            for group in client.metric_groups():
                scope, labels = _scope_and_labels(group)
                for metric, value in group.values.items():
                    _add(families, f"kafka_{kind}_{scope}{_snake(metric)}", {"client": name, **labels}, value)
        yield from families.values()


def _scope_and_labels(group: MetricGroup) -> tuple[str, dict[str, str]]:
    """Return what goes before the names, and the labels, of a group."""
    tags = group.tags
    if group.group.startswith("stream-"):
        scope = group.group.removeprefix("stream-").removesuffix("metrics").removesuffix("-")
        return f"{_snake(scope)}_" if scope else "", {_snake(name): value for name, value in tags.items()}
    if NODE_ID in tags:
        return "node_", {"node": str(node_of(tags))}
    scope = next((f"{tag}_" for tag in (PARTITION, TOPIC) if tag in tags), "")
    return scope, dict(tags)


def _kind(client: Measured) -> str:
    """Return `producer`, `consumer`, `admin` or `streams`, by what the client's class is called."""
    names = [base.__name__.lower() for base in type(client).__mro__]
    return next(
        (kind for kind in ("producer", "consumer", "admin", "streams") if any(kind in name for name in names)), "client"
    )


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
