"""`barnabas top` against running brokers: one look for programs, and the screen driven by keys."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.protocol.topic_partition import TopicPartition
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
    assert "broker" in seen["health"] or "log directories" in seen["health"]
    assert topic in text
    assert "BROKERS" in text


def rows(app: Any, name: str) -> list[list[str]]:
    """What a table shows, by its row."""
    from textual.widgets import DataTable

    table = app.query_one(f"#{name}-table", DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


async def topics_are_filtered(app: Any, pilot: Any, topic: str) -> None:
    await reached(lambda: bool(rows(app, "topics")))
    await pilot.press("slash", *topic)
    await reached(lambda: [row[0] for row in rows(app, "topics")] == [topic])
    assert rows(app, "topics")[0][3] == "9"


async def groups_are_shown_with_their_lag_and_sorted(app: Any, pilot: Any, group: str) -> None:
    from textual.widgets import TabbedContent

    await pilot.press("escape", "g")
    await reached(lambda: app.query_one(TabbedContent).active == "groups")
    assert {row[0]: row[3] for row in rows(app, "groups")}[group] == "7"
    # Where the lag goes is known from the second look on.
    await reached(lambda: {row[0]: row[5] for row in rows(app, "groups")}[group][0] in "→↗")
    await pilot.press("s", "s", "s", "s")
    names = [row[0] for row in rows(app, "groups")]
    assert names == sorted(names)


async def the_command_that_does_the_same_is_told(app: Any, pilot: Any, command: str) -> None:
    await pilot.press("question_mark")
    await reached(lambda: len(app.screen_stack) == 2)
    assert command in str(app.screen.query_one("#command").render())
    await pilot.press("question_mark")
    await reached(lambda: len(app.screen_stack) == 1)


async def a_group_opens(app: Any, pilot: Any, group: str, inside: list[str]) -> None:
    from textual.widgets import DataTable

    await pilot.press("slash", *group, "enter", "enter")
    await reached(lambda: len(app.screen_stack) == 2)
    table = app.screen.query_one("#inside-1", DataTable)
    assert [str(cell) for cell in table.get_row_at(0)] == inside
    await pilot.press("escape", "escape")
    await reached(lambda: len(app.screen_stack) == 1)


async def each_key_works_while_a_row_is_open(app: Any, pilot: Any) -> None:
    await pilot.press("t", "enter")
    await reached(lambda: len(app.screen_stack) == 2)
    await pilot.press("question_mark")
    await reached(lambda: len(app.screen_stack) == 3)
    await pilot.press("q")
    await reached(lambda: len(app.screen_stack) == 2)
    await pilot.press("q")
    await reached(lambda: len(app.screen_stack) == 1)


async def all_keys_heads_and_the_filter_are_read_in_80_columns(app: Any, pilot: Any, topic: str) -> None:
    await pilot.press("slash", *topic)
    await reached(lambda: f'only "{topic}"' in screen_of(app)[0])
    await pilot.press("enter")
    await reached(lambda: "(only" in screen_of(app)[0] and "per second" in "".join(screen_of(app)))
    assert "perSecond" not in "".join(screen_of(app))
    tabs = "".join(screen_of(app)[:4])
    assert all(tab in tabs for tab in ("t Topics", "g Groups", "b Brokers", "x Transactions", "c Clients"))
    footer = screen_of(app)[-1]
    assert all(word in footer for word in ("Sort", "/ Filter", "Freeze", "Offsets", "? Keys", "q Quit")), footer


def screen_of(app: Any) -> list[str]:
    """What a terminal shows, by line."""
    return ["".join(segment.text for segment in line) for line in app.screen._compositor.render_strips()]


async def transactions_and_clients_are_shown(app: Any, pilot: Any, transactional_id: str, client: str) -> None:
    await pilot.press("x")
    await reached(lambda: any(row[0] == transactional_id for row in rows(app, "transactions")))
    (row,) = [row for row in rows(app, "transactions") if row[0] == transactional_id]
    assert (row[1], row[4]) == ("ONGOING", "1")
    await pilot.press("c")
    await reached(lambda: any(row[0] == client for row in rows(app, "clients")))


async def what_is_shown_freezes(app: Any, pilot: Any) -> None:
    await pilot.press("space", "b")
    await reached(lambda: "(frozen)" in str(app.query_one("#health").render()))
    assert rows(app, "brokers")


def test_the_screen_filters_sorts_freezes_and_ends_by_keys(bootstrap_servers: str, busy: tuple[str, str]) -> None:
    pytest.importorskip("textual")
    from barnabas.console.top_app import Top

    topic, group = busy
    open_id = f"{group}-txn"

    async def drive() -> None:
        app = Top({"bootstrap.servers": bootstrap_servers})
        async with app.run_test(size=(120, 40)) as pilot:
            await topics_are_filtered(app, pilot, topic)
            await groups_are_shown_with_their_lag_and_sorted(app, pilot, group)
            await the_command_that_does_the_same_is_told(app, pilot, f"barnabas group list -b {bootstrap_servers}")
            await a_group_opens(app, pilot, group, [topic, "0", "2", "9", "7"])
            await each_key_works_while_a_row_is_open(app, pilot)
            await transactions_and_clients_are_shown(app, pilot, open_id, "the-reader")
            await what_is_shown_freezes(app, pilot)
            await pilot.press("q")

    with (
        Producer(transactional_id=open_id, bootstrap_servers=bootstrap_servers) as producer,
        Consumer(
            topic, group_id=f"{group}-live", client_id="the-reader", bootstrap_servers=bootstrap_servers
        ) as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result()
        eventually(lambda: bool(consumer.poll(0.2)) or bool(consumer.assignment()))
        asyncio.run(drive())
        producer.abort_transaction()


def test_a_small_terminal_shows_all_that_can_be_done(bootstrap_servers: str, busy: tuple[str, str]) -> None:
    pytest.importorskip("textual")
    from barnabas.console.top_app import Top

    async def drive() -> None:
        app = Top({"bootstrap.servers": bootstrap_servers})
        async with app.run_test(size=(80, 24)) as pilot:
            await reached(lambda: bool(rows(app, "topics")))
            await all_keys_heads_and_the_filter_are_read_in_80_columns(app, pilot, busy[0])

    asyncio.run(drive())


def drive_top(
    bootstrap_servers: str, group: str, act: Callable[[Any, Any], Awaitable[None]], *, read_only: bool = False
) -> None:
    """Start the screen, go to a group's row, and act there."""
    pytest.importorskip("textual")
    from textual.widgets import DataTable

    from barnabas.console.top_app import Top

    async def drive() -> None:
        app = Top({"bootstrap.servers": bootstrap_servers}, read_only=read_only)
        async with app.run_test(size=(160, 40)) as pilot:
            await pilot.press("g", "slash", *group, "enter")
            await reached(lambda: app.query_one("#groups-table", DataTable).row_count == 1)
            await act(app, pilot)

    asyncio.run(drive())


async def reached(check: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + WAIT
    while not check():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


def says(app: Any) -> str:
    return str(app.screen.query_one("#says").render())


async def preview(app: Any, pilot: Any, place: str) -> list[list[str]]:
    """Type a place, and read the table that comes of it."""
    from textual.widgets import DataTable, Input

    before = says(app)
    field = app.screen.query_one("#place", Input)
    field.focus()
    field.value = place
    await pilot.pause()
    await pilot.press("enter")
    table = app.screen.query_one("#preview", DataTable)
    await reached(lambda: table.row_count > 0 or says(app) not in (before, ASKS))
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


ASKS = "Enter shows where offsets go; m moves them there; Escape goes back"


def committed(admin: AdminClient, group: str, topic: str) -> int:
    return admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset


#: What is typed → the offset that becomes of 2 in a partition of 8 records, before it is kept in range, and the option.
PLACES = {
    "earliest": ("0", "0", "--to-earliest"),
    "latest": ("8", "8", "--to-latest"),
    "99": ("8", "99", "--to-offset"),
    "+3": ("5", "5", "--shift-by=3"),
    "-9": ("0", "-7", "--shift-by=-9"),
    "2013-06-01T12:00": ("0", "0", "--to-datetime"),
    "-1h": ("0", "0", "--to-datetime"),
    "5": ("5", "5", "--to-offset"),
}


def test_offsets_are_shown_first_and_then_moved_there(
    bootstrap_servers: str, admin: AdminClient, busy: tuple[str, str]
) -> None:
    topic, group = busy

    async def act(app: Any, pilot: Any) -> None:
        await pilot.press("o")
        await reached(lambda: len(app.screen_stack) == 2)
        for place, (offset, wanted, option) in PLACES.items():
            found = await preview(app, pilot, f"{place} {topic}")
            assert found == [[topic, "0", "2", offset, str(8 - int(offset)), wanted]], place
            assert f"group offsets reset {group} --topic {topic} {option}" in says(app)
        assert committed(admin, group, topic) == 2
        await pilot.press("m")
        await reached(lambda: len(app.screen_stack) == 1)

    drive_top(bootstrap_servers, group, act)
    assert committed(admin, group, topic) == 5


def test_a_place_that_is_none_is_said_and_another_place_needs_another_preview(
    bootstrap_servers: str, admin: AdminClient, busy: tuple[str, str]
) -> None:
    topic, group = busy

    async def act(app: Any, pilot: Any) -> None:
        await pilot.press("o")
        await reached(lambda: len(app.screen_stack) == 2)
        assert await preview(app, pilot, "nowhere") == []
        assert "no place in a topic" in says(app)
        assert await preview(app, pilot, "latest another-topic") == []
        assert "no committed offsets" in says(app)
        assert len(await preview(app, pilot, "latest")) == 1
        # An m in the field is a letter; and what was typed since has not been shown.
        app.screen.query_one("#place").focus()
        await pilot.press("m")
        assert await preview(app, pilot, "earliest") == [[topic, "0", "2", "0", "8", "0"]]
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    drive_top(bootstrap_servers, group, act)
    assert committed(admin, group, topic) == 2


def test_offsets_of_a_group_with_members_are_not_moved_nor_are_any_where_it_is_read_only(
    bootstrap_servers: str, admin: AdminClient, busy: tuple[str, str]
) -> None:
    topic, group = busy
    said: list[str] = []

    async def refused(app: Any, pilot: Any) -> None:
        await pilot.press("o")
        await reached(lambda: bool(app._notifications))
        said.extend(notification.message for notification in app._notifications)
        assert len(app.screen_stack) == 1

    async def joined_meanwhile(app: Any, pilot: Any) -> None:
        await pilot.press("o")
        await reached(lambda: len(app.screen_stack) == 2)
        assert len(await preview(app, pilot, "latest")) == 1
        with member() as consumer:
            await asyncio.to_thread(eventually, lambda: bool(consumer.poll(0.2)) or bool(consumer.assignment()))
            await pilot.press("m")
            await reached(lambda: "GroupNotEmptyError" in says(app))

    def member() -> Consumer[bytes, bytes]:
        return Consumer(topic, group_id=group, bootstrap_servers=bootstrap_servers, enable_auto_commit=False)

    drive_top(bootstrap_servers, group, refused, read_only=True)
    with member() as consumer:
        eventually(lambda: bool(consumer.poll(0.2)) or bool(consumer.assignment()))
        drive_top(bootstrap_servers, group, refused)
    drive_top(bootstrap_servers, group, joined_meanwhile)
    assert "--read-only" in said[0]
    assert "has 1 member," in said[1]
    assert committed(admin, group, topic) == 2


def test_without_a_cluster_it_says_so() -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "top", "--once", "-b", "127.0.0.1:1"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:1" in done.stderr
