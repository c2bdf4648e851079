"""`barnabas top` against running brokers: one look for programs, and the screen driven by keys."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from tests.contract.waiting import eventually
from tests.support.patience import PATIENCE

PEERS = ["barnabas", pytest.param("apache-kafka", marks=pytest.mark.slow)]

WAIT = PATIENCE


@pytest.fixture
def busy(bootstrap_servers: str, admin: AdminClient, new_name: Callable[[str], str]) -> tuple[str, str]:
    """A topic with 8 records, and a group that has committed the second of them."""
    topic, group = new_name("busy"), new_name("group")
    admin.create_topics([NewTopic(topic, 1, 1)])
    eventually(lambda: topic in admin.describe_topics([topic], raise_errors=False))
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(8):
            producer.send(topic, b"x")
    with Consumer(group_id=group, bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit(dict.fromkeys(consumer.assignment(), 2))
    return topic, group


def test_one_look_tells_topics_groups_and_brokers(bootstrap_servers: str, busy: tuple[str, str]) -> None:
    topic, group = busy
    command = [sys.executable, "-m", "barnabas.cli.main", "top", "--once", "-b", bootstrap_servers]

    seen = json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, check=True, timeout=120).stdout)
    text = subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout

    (row,) = [row for row in seen["topics"] if row["topic"] == topic]
    assert (row["partitions"], row["endOffsets"], row["underReplicated"]) == (1, 8, 0)
    assert {row["group"]: row["lag"] for row in seen["groups"]}[group] == 6
    assert sum(row["leads"] for row in seen["brokers"]) >= 1
    assert "brokers" in seen["health"] or "log directories" in seen["health"]
    assert topic in text
    assert "BROKERS" in text


def test_the_screen_filters_sorts_freezes_and_ends_by_keys(bootstrap_servers: str, busy: tuple[str, str]) -> None:
    pytest.importorskip("textual")
    from textual.widgets import DataTable, TabbedContent

    from barnabas.console.top_app import Top

    topic, group = busy

    def rows(app: Top, name: str) -> list[list[str]]:
        table = app.query_one(f"#{name}-table", DataTable)
        return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]

    async def drive() -> None:
        app = Top({"bootstrap.servers": bootstrap_servers})
        async with app.run_test(size=(120, 40)) as pilot:
            deadline = asyncio.get_running_loop().time() + WAIT
            while not rows(app, "topics"):
                assert asyncio.get_running_loop().time() < deadline
                await pilot.pause(0.1)
            await pilot.press("slash", *topic)
            await pilot.pause()
            assert [row[0] for row in rows(app, "topics")] == [topic]
            assert rows(app, "topics")[0][3] == "8"
            await pilot.press("escape", "g")
            assert app.query_one(TabbedContent).active == "groups"
            assert {row[0]: row[3] for row in rows(app, "groups")}[group] == "6"
            await pilot.press("s", "s")
            names = [row[0] for row in rows(app, "groups")]
            assert names == sorted(names)
            await pilot.press("space", "b")
            assert "(frozen)" in str(app.query_one("#health").render())
            assert rows(app, "brokers")
            await pilot.press("q")

    asyncio.run(drive())


def test_without_a_cluster_it_says_so() -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "top", "--once", "-b", "127.0.0.1:1"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:1" in done.stderr
