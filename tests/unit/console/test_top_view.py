"""The tables of `barnabas top`: the busiest first, names that cannot drive a terminal."""

from __future__ import annotations

import pytest

from barnabas.admin import GroupListing, GroupState, GroupType, TopicDescription
from barnabas.admin import TopicPartitionInfo as Info
from barnabas.console.lag_clock import Delay
from barnabas.console.sampler import Disk, GroupSample
from barnabas.console.top_view import TABLES, health, table_rows
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
WELL = Info(0, ONE, [ONE, TWO], [ONE, TWO], 1)
SEEN = sample(
    WELL,
    topics={name: TopicDescription(name, None, name.startswith("__"), [WELL]) for name in ("quiet", "busy", "__own")},
    rates={"busy": 12.34},
    ends={AT: 7, TopicPartition("quiet", 0): 9},
    groups={
        name: GroupSample(LISTING._replace(group_id=name), done, lag, WAITS.get(name)) for name, done, lag in GROUPS
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
    assert [(row["broker"], row["leads"], row["logBytes"]) for row in table_rows("brokers", SEEN)] == [
        (1, 3, 11),
        (2, 0, None),
    ]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_sorts_and_every_row_has_every_column(name: str) -> None:
    for column in TABLES[name].columns:
        rows = table_rows(name, SEEN, column)
        assert len(rows) == len(table_rows(name, SEEN))
        assert all(set(TABLES[name].columns) <= row.keys() for row in rows)


def test_a_text_narrows_the_rows() -> None:
    assert [row["topic"] for row in table_rows("topics", SEEN, text="QUI")] == ["quiet"]


def test_one_sentence_says_what_is_wrong() -> None:
    assert health(SEEN) == "all 3 partitions in sync on 2 brokers"
    wrong = sample(Info(0, None, [ONE], [], 1), Info(1, ONE, [ONE, TWO], [ONE], 1))
    assert health(wrong) == "1 partitions without a leader; 1 partitions under-replicated"


def test_a_name_cannot_drive_the_terminal() -> None:
    pytest.importorskip("textual")
    from barnabas.console.top_app import _cell

    assert str(_cell("[red]\x1b[31m\u202e")) == "[red]\\x1b[31m\\u202e"
    assert (str(_cell(1234567)), str(_cell(None)), str(_cell(True))) == ("1,234,567", "-", "yes")
