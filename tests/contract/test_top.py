"""`barnabas top` against running brokers: one look for programs, and the screen driven by keys."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

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
    assert {"transactions", "clients"} <= seen.keys()
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

    async def until(check: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + WAIT
        while not check():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)

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
            assert rows(app, "topics")[0][3] == "9"
            await pilot.press("escape", "g")
            assert app.query_one(TabbedContent).active == "groups"
            assert {row[0]: row[3] for row in rows(app, "groups")}[group] == "7"
            await pilot.press("s", "s")
            names = [row[0] for row in rows(app, "groups")]
            assert names == sorted(names)
            await pilot.press("slash", *group, "enter", "enter")
            await until(lambda: len(app.screen_stack) == 2)
            inside = app.screen.query_one("#inside-1", DataTable)
            assert [str(cell) for cell in inside.get_row_at(0)] == [topic, "0", "2", "9", "7"]
            await pilot.press("escape", "escape")
            assert len(app.screen_stack) == 1
            await pilot.press("x")
            await until(lambda: any(row[0] == open_id for row in rows(app, "transactions")))
            (row,) = [row for row in rows(app, "transactions") if row[0] == open_id]
            assert (row[1], row[4]) == ("ONGOING", "1")
            await pilot.press("c")
            await until(lambda: any(row[0] == "the-reader" for row in rows(app, "clients")))
            await pilot.press("space", "b")
            assert "(frozen)" in str(app.query_one("#health").render())
            assert rows(app, "brokers")
            await pilot.press("q")

    open_id = f"{group}-txn"
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
    with (
        Producer(transactional_id=open_id, **settings) as producer,
        Consumer(topic, group_id=f"{group}-live", client_id="the-reader", **settings) as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result()
        eventually(lambda: bool(consumer.poll(0.2)) or bool(consumer.assignment()))
        asyncio.run(drive())
        producer.abort_transaction()


def test_without_a_cluster_it_says_so() -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "top", "--once", "-b", "127.0.0.1:1"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:1" in done.stderr
