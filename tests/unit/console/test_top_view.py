"""The tables of `barnabas top`: the busiest first, names that cannot drive a terminal."""

from __future__ import annotations

import pytest

from barnabas.admin import GroupListing, GroupState, GroupType, TopicDescription
from barnabas.admin import TopicPartitionInfo as Info
from barnabas.console.lag_clock import Delay
from barnabas.console.sampler import Disk, GroupSample, Point, trend_of
from barnabas.console.top_view import COMMANDS, TABLES, Client, More, details, health, table_rows
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition
from tests.unit.console.test_overview import ONE, TWO, sample

AT = TopicPartition("busy", 0)
LISTING = GroupListing("", "consumer", GroupState.STABLE, GroupType.CLASSIC)
GROUPS: list[tuple[str, dict[TopicPartition, int], int]] = [
    ("behind", {AT: 1}, 6),
    ("new", {}, 0),
    ("done", {AT: 7}, 0),
]
WAITS = {"behind": Delay(1500, is_at_least=False)}
TRENDS = {"behind": -1.5, "new": 2.0, "done": 0.0}
WELL = Info(0, ONE, [ONE, TWO], [ONE, TWO], 1)
SEEN = sample(
    WELL,
    topics={name: TopicDescription(name, None, name.startswith("__"), [WELL]) for name in ("quiet", "busy", "__own")},
    rates={"busy": 12.34},
    ends={AT: 7, TopicPartition("quiet", 0): 9},
    groups={
        name: GroupSample(LISTING._replace(group_id=name), done, lag, WAITS.get(name), trend=TRENDS[name])
        for name, done, lag in GROUPS
    },
    disks=(Disk(1, "/a", 5, -1, -1, None), Disk(1, "/b", 6, -1, -1, None)),
)


def test_the_busiest_come_first_and_what_has_no_number_last() -> None:
    assert [row["topic"] for row in table_rows("topics", SEEN)] == ["busy", "quiet"]
    assert [(row["group"], row["lag"], row["lagSeconds"]) for row in table_rows("groups", SEEN)] == [
        ("behind", 6, 1.5),
        ("done", 0, None),
        ("new", None, None),
    ]
    assert [(row["lagPerSecond"], row["emptyInSeconds"]) for row in table_rows("groups", SEEN)] == [
        (-1.5, 4.0), (0.0, None), (None, None),
    ]  # fmt: skip
    assert [(row["broker"], row["leads"], row["logBytes"]) for row in table_rows("brokers", SEEN)] == [
        (1, 3, 11),
        (2, 0, None),
    ]


def test_a_trend_is_that_of_the_last_minute() -> None:
    since = Point(1_000, 0.0, {"a": 50, "b": 5}, {})

    assert trend_of(since, "a", 30, 11_000) == -2.0
    assert trend_of(since, "b", 5, 11_000) == 0.0
    assert trend_of(since, "unknown", 5, 11_000) is None
    assert trend_of(since, "a", 30, 1_000) is None
    assert trend_of(None, "a", 30, 11_000) is None


def test_a_trend_has_an_arrow() -> None:
    pytest.importorskip("rich")
    from barnabas.console.top_cells import cell

    shown = [cell(value, "lagPerSecond").plain for value in (12.5, -3.0, 0.0, None)]

    assert shown == ["↗ +12.5", "↘ -3.0", "→", "-"]
    assert cell(-3.0).plain == "-3.0"


@pytest.mark.parametrize("name", TABLES)
def test_every_column_sorts_and_every_row_has_every_column(name: str) -> None:
    for column in TABLES[name].columns:
        rows = table_rows(name, SEEN, column)
        assert len(rows) == len(table_rows(name, SEEN))
        assert all(set(TABLES[name].columns) <= row.keys() for row in rows)


MORE = More(
    [{"id": "pay", "state": "ONGOING", "producerId": 7, "epoch": 0, "coordinator": 1, "timeout": 60000,
      "started": SEEN.at_ms - 2500, "partitions": ["busy-0"]}],
    [Client("reader", "/10.0.0.1", "behind", "m-1", 3)],
)  # fmt: skip


def test_transactions_and_clients_are_tables_too() -> None:
    (row,) = table_rows("transactions", SEEN, more=MORE)
    assert (row["transactionalId"], row["openSeconds"], row["partitions"]) == ("pay", 2.5, 1)
    assert [row["client"] for row in table_rows("clients", SEEN, text="read", more=MORE)] == ["reader"]


@pytest.mark.parametrize("name", TABLES)
def test_every_row_opens(name: str) -> None:
    for row in table_rows(name, SEEN, more=MORE):
        for detail in details(name, row, SEEN, MORE):
            assert all(set(detail.columns) <= found.keys() for found in detail.rows)


def test_a_row_opens_with_what_it_has() -> None:
    def inside(name: str, first: str | int) -> dict[str, list[tuple[object, ...]]]:
        (row,) = [row for row in table_rows(name, SEEN, more=MORE) if next(iter(row.values())) == first]
        return {
            detail.title: [tuple(found[column] for column in detail.columns) for found in detail.rows]
            for detail in details(name, row, SEEN, MORE)
        }

    assert inside("topics", "busy") == {
        "partitions": [(0, 1, "1 2", "1 2", 7)], "groups that read it": [("behind", 6, 1), ("done", 0, 1)],
    }  # fmt: skip
    assert inside("groups", "behind") == {
        "members": [("m-1", "reader", "/10.0.0.1", 3)], "partitions": [("busy", 0, 1, 7, 6)],
    }  # fmt: skip
    assert inside("brokers", 2)["replicas"] == [
        ("__own", 0, False, True), ("busy", 0, False, True), ("quiet", 0, False, True),
    ]  # fmt: skip
    assert inside("transactions", "pay") == {"partitions that take part": [("busy-0",)]}
    assert inside("clients", "reader") == {"groups in which it is a member": [("behind", "m-1", "/10.0.0.1", 3)]}


def test_a_text_narrows_the_rows() -> None:
    assert [row["topic"] for row in table_rows("topics", SEEN, text="QUI")] == ["quiet"]


def test_one_sentence_says_what_is_wrong() -> None:
    assert health(SEEN) == "all 3 partitions in sync on 2 brokers"
    wrong = sample(Info(0, None, [ONE], [], 1), Info(1, ONE, [ONE, TWO], [ONE], 1))
    assert health(wrong) == "1 partition without a leader; 1 partition under-replicated"


def test_a_name_cannot_drive_the_terminal() -> None:
    pytest.importorskip("textual")
    from barnabas.console.top_cells import cell

    assert str(cell("[red]\x1b[31m\u202e")) == "[red]\\x1b[31m\\u202e"
    assert (str(cell(1234567)), str(cell(None)), str(cell(True))) == ("1,234,567", "-", "yes")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("latest", {"to": "latest", "topics": []}),
        (" -5m orders  payments ", {"to": "-5m", "topics": ["orders", "payments"]}),
        ("+10", {"shiftBy": 10, "topics": []}),
        ("-10 t", {"shiftBy": -10, "topics": ["t"]}),
        ("120", {"to": "120", "topics": []}),
    ],
)
def test_where_offsets_go_is_a_place_or_a_distance_and_topics(text: str, fields: dict[str, object]) -> None:
    pytest.importorskip("textual")
    from barnabas.console.top_offsets import wanted

    assert wanted(text) == fields
    with pytest.raises(IllegalArgumentError, match="write earliest"):
        wanted(" ")


def test_the_screen_of_keys_names_every_key() -> None:
    pytest.importorskip("textual")
    from barnabas.console.top_app import Top
    from barnabas.console.top_keys import KEYS

    signs = {"slash": "/", "question_mark": "?"}
    bound = {signs.get(binding[0], binding[0]) for binding in Top.BINDINGS if isinstance(binding, tuple)}

    assert bound <= {key for keys in KEYS for key in keys.split()}
    assert TABLES.keys() == COMMANDS.keys()
