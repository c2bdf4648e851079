"""Three voters, step by step: every order of what can happen within small bounds, and drawn ones within larger."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from barnabas.broker.raft.epoch_states import FollowerState
from barnabas.broker.raft.follower_fetcher import LogFetcher
from barnabas.errors import IllegalStateError
from tests.support.raft_cluster import BrokenPromiseError
from tests.support.raft_explorer import Bounds, explore, walk
from tests.support.raft_faults import FAULTS

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.protocol.messages.fetch_response import FetchResponse

_WIDE = Bounds(epochs=6, crashes=3, appends=4, doubles=3, letters=10)
_FOUND_SOON = (
    "a vote for a longer log of an earlier epoch",
    "a vote for a shorter log",
    "acknowledged before the flush",
    "committed by a minority",
    "diverging logs are not found",
    "messages are treated while the log is cut",
    "the epoch is not on the disk",
)


def test_every_order_of_the_first_steps_keeps_the_promises() -> None:
    assert explore(Bounds(), 150) >= 150


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_order_of_many_steps_keeps_the_promises() -> None:
    assert explore(Bounds(), 100_000) >= 100_000


def test_drawn_orders_keep_the_promises() -> None:
    for seed in range(20):
        walk(seed, _WIDE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 11_000, 1000))
def test_thousands_of_drawn_orders_keep_the_promises(first: int) -> None:
    for seed in range(first, first + 1000):
        walk(seed, _WIDE)


@pytest.mark.parametrize("name", _FOUND_SOON)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    with pytest.raises((BrokenPromiseError, IllegalStateError)):
        _walk_many()


def test_a_follower_that_looks_at_no_clock_any_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = LogFetcher.handle_fetch_response

    def answered_last(self: LogFetcher, response: FetchResponse, now: Instant) -> bool:
        found = answered(self, response, now)
        state = self._replica.quorum.state
        if isinstance(state, FollowerState):
            state.fetch_deadline = state.update_voter_deadline = inf
        return found

    monkeypatch.setattr(LogFetcher, "handle_fetch_response", answered_last)
    with pytest.raises(BrokenPromiseError, match="looks again only in"):
        _walk_many()


def _walk_many() -> None:
    for seed in range(300):
        walk(seed, _WIDE)
