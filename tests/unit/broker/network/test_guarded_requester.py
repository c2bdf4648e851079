"""A fault in a requester costs the request at hand: it is told so, rests for a moment, and is asked again."""

from __future__ import annotations

from math import inf

import pytest

from barnabas.broker.guarded_requester import GuardedRequester
from barnabas.broker.instant import Instant
from barnabas.network.node import Node
from barnabas.protocol.message import Message
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.metadata_response import MetadataResponse

THERE = Node(1, "one", 9092)


class Asking:
    """A requester that fails at one thing."""

    def __init__(self, fails_at: str) -> None:
        self.fails_at = fails_at
        self.heard: list[str] = []

    def _do(self, what: str) -> None:
        self.heard.append(what)
        if what == self.fails_at:
            raise RuntimeError("planted")

    def next_request(self, now: float) -> tuple[Node, Message]:
        self._do("next_request")
        return THERE, MetadataRequest()

    def receive(self, response: Message, now: Instant) -> None:
        self._do("receive")

    def disconnected(self, now: float) -> None:
        self._do("disconnected")

    def next_deadline(self) -> float:
        self._do("next_deadline")
        return -inf


@pytest.mark.parametrize(
    ("fails_at", "heard"),
    [
        ("next_request", ["next_request", "disconnected"]),
        ("receive", ["receive", "disconnected"]),
        ("disconnected", ["disconnected"]),
    ],
)
def test_who_fails_is_told_that_no_response_comes_and_is_asked_again(fails_at: str, heard: list[str]) -> None:
    asking, told = Asking(fails_at), list[str]()
    guarded = GuardedRequester(asking, lambda what, problem: told.append(f"{what}: {problem}"))
    if fails_at == "next_request":
        assert guarded.next_request(10.0) is None
    elif fails_at == "receive":
        guarded.receive(MetadataResponse(), Instant(10.0, 0))
    else:
        guarded.disconnected(10.0)
    assert asking.heard == heard
    assert len(told) == 1
    assert told[0].endswith("in Asking: planted")
    asking.fails_at = ""
    assert guarded.next_request(10.0) is None, "it rests"
    assert 10.0 < guarded.next_deadline() <= 11.0
    assert guarded.next_request(guarded.next_deadline()) == (THERE, MetadataRequest())


def test_a_deadline_that_cannot_be_told_has_the_requester_asked() -> None:
    told: list[str] = []
    guarded = GuardedRequester(Asking("next_deadline"), lambda what, problem: told.append(what))
    assert guarded.next_deadline() == -inf
    assert len(told) == 1
