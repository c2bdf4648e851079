"""The metrics of the clients, against those of Java's (tools/java_metrics.py) and of docs/guide/observability.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import Broker, ShareConsumer
from barnabas.admin import ConfigResource
from barnabas.network.metric_group import Measured, MetricGroup
from tests.unit.client.clients_at_work import at_work

ROOT = Path(__file__).parents[3]
JAVA = ROOT / "tests" / "vectors" / "data" / "java-client-metrics.txt"
PAGE = (ROOT / "docs" / "guide" / "observability.md").read_text(encoding="utf-8")
TABLE, _, REST = PAGE.partition("### Not offered")
NOT_OFFERED = REST.partition("### Prometheus")[0]

# Group and tags.
Place = tuple[str, frozenset[str]]
OWN = {
    ("producer-metrics", frozenset[str]()): {"byte-rate", "byte-total"},
    ("consumer-metrics", frozenset[str]()): {"request-latency-avg", "request-latency-max"},
    ("admin-client-metrics", frozenset[str]()): {"request-latency-avg", "request-latency-max"},
}


def names_by_place(groups: list[MetricGroup]) -> dict[Place, set[str]]:
    found: dict[Place, set[str]] = {}
    for group in groups:
        found.setdefault((group.group, frozenset(group.tags)), set()).update(group.values)
    return found


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, dict[Place, set[str]]]]:
    """By client, after some work."""
    quick = {"group.share.heartbeat.interval.ms": 100, "group.share.min.heartbeat.interval.ms": 100}
    with (
        Broker(config=quick) as broker,
        at_work(broker, "named") as (producer, consumer, admin),
        ShareConsumer("named", group_id="named-queue", bootstrap_servers=broker.bootstrap_servers) as share,
    ):
        earliest = {ConfigResource.group("named-queue"): {"share.auto.offset.reset": "earliest"}}
        admin.incremental_alter_configs(earliest)
        while not share.poll(0.2):
            pass
        share.commit_sync()
        clients: dict[str, Measured] = {
            "producer": producer,
            "consumer": consumer,
            "admin": admin,
            "share consumer": share,
        }
        yield {name: names_by_place(client.metric_groups()) for name, client in clients.items()}


def javas() -> dict[str, dict[Place, set[str]]]:
    """By client; what its consumers for the two protocols have, together."""
    found: dict[str, dict[Place, set[str]]] = {}
    for line in JAVA.read_text(encoding="utf-8").splitlines():
        client, group, tags, name = line.split("\t")
        place = group, frozenset(tags.split(",")) - {""}
        found.setdefault(client.partition(" (")[0], {}).setdefault(place, set()).add(name)
    return found


def in_code(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def rows(text: str) -> list[list[str]]:
    return [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("client", ["producer", "consumer", "admin", "share consumer"])
def test_a_client_has_javas_metrics_but_for_those_that_the_page_leaves_out_with_a_reason(
    ours: dict[str, dict[Place, set[str]]], client: str
) -> None:
    left_out = {name for names, _ in rows(NOT_OFFERED) for name in in_code(names)}
    expected = javas()[client]

    assert ours[client].keys() == expected.keys()
    for place, names in expected.items():
        assert ours[client][place] == names - left_out | OWN.get(place, set()), place


def test_nothing_is_left_out_that_java_does_not_have() -> None:
    known = {name for places in javas().values() for names in places.values() for name in names}
    left_out = {name for names, _ in rows(NOT_OFFERED) for name in in_code(names)} - {"app-info"}
    assert left_out <= known
    assert all(reason.strip() for _, reason in rows(NOT_OFFERED))


def test_the_page_lists_all_metrics_by_group_and_tags(ours: dict[str, dict[Place, set[str]]]) -> None:
    listed: dict[Place, set[str]] = {}
    for groups, tags, names in rows(TABLE):
        for group in in_code(groups):
            for choice in tags.split(";"):
                is_of_nodes = "-node-" in group
                of_choice = in_code(choice) if is_of_nodes or "node-id" not in choice else set()
                listed.setdefault((group, frozenset(of_choice)), set()).update(in_code(names))

    expected: dict[Place, set[str]] = {}
    for places in ours.values():
        for place, names_there in places.items():
            expected.setdefault(place, set()).update(names_there)
    assert listed == expected
