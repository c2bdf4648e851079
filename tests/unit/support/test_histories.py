"""The checker of histories finds every anomaly that is planted, and none in histories that could have been."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.support.histories import (
    Append,
    Outcome,
    Poll,
    Read,
    Send,
    Transaction,
    check_list_append,
    check_queue,
    names,
)

FAILED, UNKNOWN = Outcome.FAILED, Outcome.UNKNOWN


def did(process: str, *operations: Any, **more: Any) -> Transaction:
    return Transaction(process, operations, **more)


def sent(*values: str, key: str = "p") -> Transaction:
    return did("producer", *(Send(key, value, offset) for offset, value in enumerate(values)))


def polled(*records: tuple[int, str], key: str = "p", moved: bool = False, process: str = "c") -> Transaction:
    return did(process, Poll(key, records, moved))


QUEUES = {
    "nothing": [sent("a", "b", "c"), polled((0, "a"), (1, "b")), polled((2, "c"))],
    # A marker of a transaction, or what compaction took, leaves a gap that is no skip.
    "nothing where offsets are missing": [did("x", Send("p", "a", 0), Send("p", "b", 5)), polled((0, "a"), (5, "b"))],
    "nothing where a position was set anew": [
        sent("a", "b"),
        polled((0, "a"), (1, "b")),
        polled((0, "a"), moved=True),
    ],
    "nothing where it is not known what became of a send": [
        did("x", Send("p", "a"), outcome=UNKNOWN),
        did("x", Send("p", "b"), outcome=UNKNOWN),
        polled((0, "b")),
    ],
    "nothing where what has failed is not read": [
        did("x", Send("p", "a", 0), outcome=FAILED),
        did("x", Send("p", "b", 1)),
        polled((1, "b")),
    ],
    "lost-write": [sent("a", "b", "c"), polled((0, "a")), polled((2, "c"), moved=True)],
    "unseen": [sent("a", "b"), polled((0, "a"))],
    "inconsistent-offset": [sent("a"), did("x", Send("p", "b", 0)), polled((0, "a")), polled((0, "b"), process="d")],
    "duplicate": [sent("a"), polled((0, "a"), (1, "a"))],
    "garbage-read": [sent("a"), polled((0, "a"), (1, "b"))],
    "aborted-read": [did("x", Send("p", "a"), outcome=FAILED), polled((0, "a"))],
    "precommitted-read": [
        did("x", Send("p", "a"), began_at=1.0, committing_at=3.0, ended_at=4.0),
        did("c", Poll("p", ((0, "a"),)), began_at=1.0, ended_at=2.0),
    ],
    "poll-skip": [sent("a", "b", "c"), polled((0, "a")), polled((2, "c")), polled((1, "b"), process="d")],
    "int-poll-skip": [sent("a", "b", "c"), polled((0, "a"), (2, "c")), polled((1, "b"), process="d")],
    "nonmonotonic-poll": [sent("a", "b"), polled((0, "a"), (1, "b")), polled((0, "a"))],
    "int-nonmonotonic-poll": [sent("a", "b"), polled((1, "b"), (0, "a"))],
    "nonmonotonic-send": [did("x", Send("p", "a", 1)), did("x", Send("p", "b", 0)), polled((0, "b"), (1, "a"))],
    "G0": [
        did("x", Send("p", "a", 0), Send("q", "b", 1)),
        did("y", Send("p", "c", 1), Send("q", "d", 0)),
        polled((0, "a"), (1, "c")),
        polled((0, "d"), (1, "b"), key="q"),
    ],
    "G1c": [
        did("x", Send("p", "a", 0), Poll("q", ((0, "b"),))),
        did("y", Send("q", "b", 0), Poll("p", ((0, "a"),))),
    ],
}


@pytest.mark.parametrize("name", QUEUES)
def test_of_queues(name: str) -> None:
    found = check_queue(QUEUES[name])
    assert names(found) == (set() if name.startswith("nothing") else {name}), list(map(str, found))


def test_what_is_not_committed_may_be_read_where_that_is_allowed() -> None:
    history = [did("x", Send("p", "a", 0), outcome=FAILED), did("x", Send("p", "b", 1)), polled((0, "a"), (1, "b"))]
    assert names(check_queue(history)) == {"aborted-read"}
    assert not check_queue(history, read_committed=False)


LISTS = {
    "nothing": [
        did("x", Append("k", 1), Append("k", 2), Read("k", (1, 2))),
        did("y", Read("k", (1, 2)), Append("l", 1), began_at=1.0),
        did("z", Read("l", ()), Read("k", ())),
    ],
    "incompatible-order": [did("x", Append("k", 1)), did("y", Append("k", 2)), *(
        did("r", Read("k", values)) for values in ((1, 2), (2, 1))
    )],
    "duplicate": [did("x", Append("k", 1)), did("r", Read("k", (1, 1)))],
    "garbage-read": [did("r", Read("k", (7,)))],
    "internal": [did("x", Append("k", 1), Read("k", ())), did("r", Read("k", ()))],
    "G1a": [did("x", Append("k", 1), outcome=FAILED), did("r", Read("k", (1,)))],
    "G1b": [did("x", Append("k", 1), Append("k", 2)), did("r", Read("k", (1,)))],
    "lost-write": [did("x", Append("k", 1), ended_at=1.0), did("r", Read("k", ()), began_at=2.0, ended_at=3.0)],
    "G0": [
        did("x", Append("k", 1), Append("l", 1)),
        did("y", Append("k", 2), Append("l", 2)),
        did("r", Read("k", (1, 2)), Read("l", (2, 1))),
    ],
    "G1c": [did("x", Append("k", 1), Read("l", (1,))), did("y", Append("l", 1), Read("k", (1,)))],
    "G-single": [
        did("x", Append("k", 1), Append("l", 1)),
        did("y", Read("k", (1,)), Read("l", ())),
        did("r", Read("l", (1,))),
    ],
    "G2": [
        did("x", Read("l", ()), Append("k", 1)),
        did("y", Read("k", ()), Append("l", 1)),
        did("r", Read("l", (1,)), Read("k", (1,))),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_of_lists(name: str) -> None:
    found = check_list_append(LISTS[name])
    expected = {"nothing": set(), "internal": {"internal", "G-single"}}.get(name, {name})
    assert names(found) <= expected | {"G-single"}, list(map(str, found))
    assert name == "nothing" or name in names(found)


def serial(random: Random, transactions: int) -> list[Transaction]:
    """Transactions one after the other on three lists."""
    lists: dict[str, list[int]] = {"k": [], "l": [], "m": []}
    history, value = [], 0
    for turn in range(transactions):
        own: list[Any] = []
        for _ in range(random.randint(1, 4)):
            key = random.choice(sorted(lists))
            if random.random() < 0.5:
                value += 1
                lists[key].append(value)
                own.append(Append(key, value))
            else:
                own.append(Read(key, tuple(lists[key])))
        history.append(Transaction(turn % 5, tuple(own), began_at=turn, ended_at=turn + 0.5))
    return history


@pytest.mark.parametrize("seed", range(10))
def test_a_serial_history_has_none_and_one_whose_reads_are_swapped_has(seed: int) -> None:
    random = Random(seed)
    history = serial(random, 150)
    assert not check_list_append(history)
    reads = [
        (index, place, operation)
        for index, transaction in enumerate(history)
        for place, operation in enumerate(transaction.operations)
        if isinstance(operation, Read) and len(operation.values) > 3
    ]
    index, place, read = random.choice(reads)
    own = list(history[index].operations)
    own[place] = Read(read.key, read.values[: len(read.values) // 2])
    history[index] = history[index]._replace(operations=tuple(own))
    assert names(check_list_append(history)) & {"lost-write", "G-single", "G1c", "internal", "G2"}
