"""A quorum keeps Raft's promises whatever happens to its nodes and its network; and faults planted in it are found."""

from __future__ import annotations

import pytest

from tests.support.raft_cluster import BrokenPromiseError
from tests.support.raft_faults import FAULTS
from tests.support.raft_history import play, play_power_loss

#: Found within a few histories; the others take the long form, or the explorer.
_SOON = (
    "elected without a majority",
    "the epoch is not on the disk",
    "vote twice in an epoch",
)


@pytest.mark.parametrize("seed", range(6))
def test_a_quorum_keeps_its_promises(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_quorum_keeps_its_promises_on_kafkas_files(seed: int) -> None:
    play(seed, on_files=True)


@pytest.mark.parametrize("on_files", [False, True])
def test_what_is_committed_survives_disks_that_stand_still_and_lose_the_power(on_files: bool) -> None:
    for seed in range(15):
        play_power_loss(seed, on_files=on_files)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 6000, 500))
def test_what_is_committed_survives_thousands_of_power_losses(first: int) -> None:
    for seed in range(first, first + 500):
        play_power_loss(seed, on_files=seed % 2 == 0)


@pytest.mark.parametrize("name", ["acknowledged before the flush", "the leader counts what is not flushed"])
def test_a_flush_that_is_not_waited_for_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    with pytest.raises(BrokenPromiseError, match="was committed"):
        _lose_the_power_often()


def _lose_the_power_often() -> None:
    for seed in range(30):
        play_power_loss(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5000, 6000, 100))
def test_a_quorum_keeps_its_promises_on_kafkas_files_in_many_histories(first: int) -> None:
    for seed in range(first, first + 100):
        play(seed, on_files=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_a_quorum_keeps_its_promises_in_thousands_of_histories(first: int) -> None:
    for seed in range(first, first + 100):
        play(seed)


def _is_found(name: str, patch: pytest.MonkeyPatch, histories: int) -> bool:
    FAULTS[name](patch)
    for seed in range(histories):
        try:
            play(seed)
        except BrokenPromiseError:
            return True
    return False


@pytest.mark.parametrize("name", _SOON)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _is_found(name, monkeypatch, 3)


#: Not found within 350 histories: unit tests hold these (test_kafka_raft_client.py, test_leader_state.py,
#: test_disk_work.py).
_RARE = {
    "a message goes out before the disk has what it says",
    "a record of an earlier epoch is committed by itself",
    "a restart forgets what was not flushed",
    "the high watermark is beyond the log",
    "the vote is not on the disk",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FAULTS) - _RARE))
def test_every_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _is_found(name, monkeypatch, 1500)
