"""What held from which offset on, where the log loses its beginning and its end."""

from __future__ import annotations

from barnabas.broker.raft.log_history import Entry, LogHistory


def history(*offsets: int) -> LogHistory[str]:
    found: LogHistory[str] = LogHistory()
    for offset in offsets:
        found.add(offset, f"from {offset}")
    return found


def test_what_held_before_the_beginning_stays_known() -> None:
    found = history(3, 7, 12)
    found.truncate_old(10)
    assert (found.value_at(10), found.value_at(6)) == ("from 7", None)


def test_it_stays_known_when_what_follows_at_once_is_cut() -> None:
    found = history(3, 7, 10)
    found.truncate_old(10)
    found.truncate_new(10)
    assert found.last == Entry(7, "from 7")
