"""Numbered znodes that announce changes: read once, in order, and deleted when many others follow."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.zookeeper import announcements
from barnabas.broker.zookeeper.announcements import NONE, Announcements
from barnabas.broker.zookeeper.operations import Children, Create, Delete, Operation, Program
from barnabas.broker.zookeeper.znodes import MalformedZnodeError
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper


def _decode(path: str, data: bytes | None) -> str:
    if data == b"?":
        raise MalformedZnodeError(path)
    return (data or b"").decode()


FOLDER = Announcements("/changes", "change_", _decode)


class Folder:
    """The folder in a model of ZooKeeper."""

    def __init__(self, *changes: bytes) -> None:
        self.zookeeper = ModelZooKeeper()
        self.ask(Create("/changes"))
        self.reports: list[str] = []
        self.run(FOLDER.announce(changes))

    def ask(self, operation: Operation) -> Any:
        return self.zookeeper.carry_out(0, operation)

    def run(self, program: Program[Any]) -> Any:
        results: Any = None
        while True:
            try:
                operations = program.send(results)
            except StopIteration as end:
                return end.value
            results = [self.ask(one) for one in operations]

    def read(self, after: int) -> tuple[list[str], int]:
        found: tuple[list[str], int] = self.run(FOLDER.read(after, lambda problem: self.reports.append(str(problem))))
        return found

    def names(self) -> list[str]:
        return sorted(self.ask(Children("/changes")))


def test_each_change_is_read_once_in_the_order_of_its_numbers() -> None:
    folder = Folder(b"b", b"a", b"b", b"c")
    assert folder.run(FOLDER.watch()) == 3
    assert folder.read(NONE) == (["b", "a", "c"], 3)
    assert folder.read(2) == (["c"], 3)
    assert folder.read(3) == ([], 3)


def test_what_announces_nothing_is_told_and_left_out() -> None:
    folder = Folder(b"a", b"?", b"c")
    folder.ask(Create("/changes/other", b"x"))
    assert folder.read(NONE) == (["a", "c"], 2)
    assert folder.reports == ["/changes/change_0000000001"]


def test_one_that_another_broker_deletes_meanwhile_is_passed_over() -> None:
    folder = Folder(b"a", b"b")
    program = FOLDER.read(NONE, lambda problem: None)
    gets = program.send([folder.ask(next(program)[0])])
    folder.ask(Delete("/changes/change_0000000000"))
    program.send([folder.ask(one) for one in gets])
    with pytest.raises(StopIteration) as end:
        program.send([])
    assert end.value.value == (["b"], 1)


def test_the_last_number_stays_where_all_are_gone() -> None:
    assert Folder().read(7) == ([], 7)


def test_only_what_was_read_before_is_deleted_and_the_last_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "KEPT", 2)
    folder = Folder(*(b"%d" % number for number in range(6)))
    assert folder.read(NONE)[1] == 5
    assert len(folder.names()) == 6, "a reading that comes to nothing must find them again"
    folder.read(1)
    assert folder.names() == [f"change_{number:010}" for number in (2, 3, 4, 5)]
    folder.read(5)
    assert folder.names() == [f"change_{number:010}" for number in (4, 5)]
