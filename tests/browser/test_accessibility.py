"""Every screen of the console held against axe-core's rules for people who cannot see, or see colours, as others do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from barnabas.admin import AclBinding, AclOperation, ResourceType
from tests.support.browser import Watched, chromium, violations
from tests.support.running_console import RunningConsole
from tests.support.schema_registry import SchemaRegistry

pytest.importorskip("starlette")

#: A place on each screen, and what is there when it is drawn.
PLACES = {
    "overview": "[data-health]",
    "topics": "[data-row]",
    "topic/flights": "table",
    "topic/flights?tab=settings": "table",
    "topic/flights?tab=records": "table",
    "record/flights/0/0": "pre, table",
    "groups": "table, [data-row]",
    "group/readers": "table",
    "transactions": "main h1",
    "brokers": "table",
    "broker/1": "table",
    "access": "table",
    "changes": "main h1",
    "schemas": "table",
    "schema/flights-value": ".diff",
    "anatomy": "main h1",
    "spark": "table",
    "query/delays": "table",
    "streams": "table",
    "topology/delays": "svg",
}


def checkpoint(folder: Path) -> None:
    """What Spark keeps of a query that has read flights."""
    for name, text in (("offsets", 'v1\n{}\n{"flights": {"0": 5, "1": 5}}'), ("commits", "v1\n{}")):
        (folder / name).mkdir(parents=True)
        (folder / name / "0").write_text(text)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    checkpoint(folder := tmp_path_factory.mktemp("checkpoints") / "delays")
    acls = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    with Broker(config=acls) as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("flights", 2), NewTopic("delays-by-carrier-repartition", 1)])
            admin.create_acls([AclBinding(ResourceType.TOPIC, "flights", "User:alice", AclOperation.READ)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("flights", key=b"EWR", value=b'{"n": %d}' % number, partition=number % 2)
        with Consumer(group_id="readers", bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([("flights", 0)])
            consumer.commit(dict.fromkeys(consumer.assignment(), 1))
        with Consumer(group_id="delays", bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([("flights", 0)])
            consumer.commit(dict.fromkeys(consumer.assignment(), 1))
        with SchemaRegistry() as registry:
            for schema in ('"string"', '{"type": "string", "doc": "the carrier"}'):
                registry.answer("POST", ["subjects", "flights-value", "versions"], {"schema": schema})
            options = ["--schema-registry", registry.url, "--checkpoint", str(folder)]
            with RunningConsole(broker.bootstrap_servers, *options) as running:
                yield running


@pytest.fixture(scope="module")
def watched(console: RunningConsole) -> Iterator[Watched]:
    with chromium() as browser:
        found = Watched(browser.new_context(viewport={"width": 1200, "height": 800}).new_page(), console.url)
        found.page.goto(console.link)
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_screen_breaks_no_rule_of_accessibility(
    watched: Watched, console: RunningConsole, place: str, scheme: str
) -> None:
    page = watched.page
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{console.url}/#/{place}")
    page.wait_for_selector(PLACES[place])
    assert violations(page) == []


def test_what_breaks_a_rule_is_found(watched: Watched, console: RunningConsole) -> None:
    page = watched.page
    page.goto(f"{console.url}/#/overview")
    page.wait_for_selector("[data-health]")
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [violation.partition(":")[0] for violation in violations(page)] == ["button-name"]
    page.reload()
