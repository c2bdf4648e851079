"""`barnabas up --add-scram`: the first users are made once, as Kafka's storage tool makes them when it formats."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.security.scram_arguments import first_users, parse_scram
from barnabas.broker.security.scram_users import ScramUsers

ALICE, BOB = ("SCRAM-SHA-256=[name=alice,password=old]", "SCRAM-SHA-512=[name=bob,password=his]")


class Starts:
    """One data directory, started again and again with the same or other arguments."""

    def __init__(self) -> None:
        self.users = ScramUsers(ClusterMetadata(MemoryStore()))
        self.said: list[str] = []

    def start(self, *arguments: str) -> None:
        added = first_users(dict(map(parse_scram, arguments)), self.users, self.said.append)
        if added:
            self.users.alter(added)

    def credential(self, name: str, mechanism: str = "SCRAM-SHA-256") -> object:
        found = self.users.finder(mechanism)(name, False)
        return None if found is None else found.credential


@pytest.fixture
def starts() -> Starts:
    starts = Starts()
    starts.start(ALICE, BOB)
    assert starts.users.names() == ["alice", "bob"]
    assert not starts.said
    return starts


def test_a_password_that_was_changed_stays_changed(starts: Starts) -> None:
    starts.users.alter(dict([parse_scram("SCRAM-SHA-256=[name=alice,password=new]")]))
    changed = starts.credential("alice")
    starts.start(ALICE, BOB)
    assert starts.credential("alice") == changed


def test_who_was_deleted_does_not_come_back(starts: Starts) -> None:
    starts.users.alter({("alice", "SCRAM-SHA-256"): None})
    starts.start(ALICE, BOB)
    assert starts.users.names() == ["bob"]


@pytest.mark.parametrize("argument", ["SCRAM-SHA-512=[name=alice,password=x]", "SCRAM-SHA-256=[name=eve,password=x]"])
def test_nobody_is_added_to_a_broker_that_has_users(starts: Starts, argument: str) -> None:
    starts.start(argument)
    assert starts.users.names() == ["alice", "bob"]
    assert list(starts.users.iterations("alice")) == [1]


def test_the_operator_is_told_what_was_left_aside_and_what_to_do(starts: Starts) -> None:
    starts.start(ALICE, "SCRAM-SHA-256=[name=eve,password=hunter2]")
    (line,) = starts.said
    assert "alice, eve" in line
    assert "barnabas user" in line
    assert "hunter2" not in line
    starts.start()
    assert len(starts.said) == 1
