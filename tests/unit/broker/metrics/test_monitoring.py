"""The dashboard and the alert rules name what a scrape has; each expression is one that Prometheus reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.metrics.controller_metrics import ControllerMetrics
from barnabas.broker.network.login_counts import LoginOutcome
from tests.support.cluster_member import ME, MemberBroker, topic
from tests.support.cluster_member import broker as member_broker
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce
from tests.support.core_controller import CoreController
from tests.support.zookeeper_member import ZooKeeperBroker

promql_parser = pytest.importorskip("promql_parser")
yaml = pytest.importorskip("yaml")

FILES = resources.files("barnabas.broker.monitoring")
DASHBOARD = json.loads(FILES.joinpath("grafana-dashboard.json").read_text())
RULES_TEXT = FILES.joinpath("prometheus-rules.yml").read_text()
RULES = [rule for group in yaml.safe_load(RULES_TEXT)["groups"] for rule in group["rules"]]
#: What Prometheus itself makes of a scrape.
OF_PROMETHEUS = {"up"}


def expressions() -> list[str]:
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return found + [rule["expr"] for rule in RULES]


def readable(expression: str) -> str:
    """The expression with Grafana's variables replaced as Grafana does it."""
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


def selectors(node: Any) -> list[Any]:
    """The vector selectors in a parsed expression."""
    found = [node] if isinstance(node, promql_parser.VectorSelector) else []
    for name in ("expr", "lhs", "rhs", "vector_selector", "param", "args"):
        held = getattr(node, name, None)
        for each in held if isinstance(held, list) else [held]:
            if each is not None and type(each).__module__ == type(node).__module__:
                found += selectors(each)
    return found


@pytest.fixture(scope="module")
def scrape() -> dict[str, list[dict[str, str]]]:
    """Metric → its labels: of a broker at work, of members of clusters of both kinds, and of a controller."""
    broker = CoreBroker()
    metrics = BrokerMetrics(broker.node, lambda: broker.instant, lambda: 0.0)
    broker.node.core.observers.append(metrics)
    for outcome in LoginOutcome:
        broker.node.core.channel.logins.count("SASL", "PLAIN", outcome)
    client = broker.connect()
    client.request(create("t", 1), 7)
    client.request(produce("t", batch(b"a")), 12)
    client.request(produce("missing", batch(b"a")), 12)
    client.request(fetch("t"), 12)
    member = MemberBroker({}, *member_broker(1), *topic("t", bytes(range(16)), [ME, 1]))
    of_member = BrokerMetrics(member.node, lambda: member.instant, lambda: 0.0)
    elected = ZooKeeperBroker(has_controller=False).take_office()
    of_elected = BrokerMetrics(elected.node, lambda: elected.instant, lambda: 0.0)
    controller = CoreController()
    of_controller = ControllerMetrics(controller.node, lambda: controller.instant)
    of_controller.register_all()
    texts = [one.text() for one in (metrics, of_member, of_elected, of_controller)]
    found: dict[str, list[dict[str, str]]] = {}
    for line in b"".join(texts).decode().splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            found.setdefault(name, []).append(dict(re.findall(r'(\w+)="([^"]*)"', labels)))
    return found


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_can_be_read_and_names_metrics_and_labels_of_a_scrape(
    scrape: dict[str, list[dict[str, str]]], expression: str
) -> None:
    parsed = promql_parser.parse(readable(expression))

    named = selectors(parsed)
    assert named
    for selector in named:
        if selector.name in OF_PROMETHEUS:
            continue
        assert selector.name in scrape, f"{selector.name} is in no scrape"
        for matcher in selector.matchers.matchers:
            if matcher.name != "instance":
                assert any(matcher.name in labels for labels in scrape[selector.name]), (selector.name, matcher.name)
            if matcher.name == "quantile":
                assert any(labels.get("quantile") == matcher.value for labels in scrape[selector.name])


def test_every_rule_says_how_bad_it_is_what_it_means_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 15
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert {"summary", "description"} <= rule["annotations"].keys()
        assert rule["for"]


def test_panels_have_places_of_their_own_and_a_data_source_to_choose() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    (tmp_path / "rules.yml").write_text(RULES_TEXT)
    done = subprocess.run([promtool, "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
