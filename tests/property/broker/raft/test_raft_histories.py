"""A quorum keeps Raft's promises whatever happens to its nodes and its network; and faults planted in it are found."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from barnabas.broker.log.truncation import done_beside
from barnabas.broker.raft.disk_work import DiskWork
from barnabas.broker.raft.epoch_states import FollowerState
from barnabas.broker.raft.follower_fetcher import LogFetcher
from barnabas.broker.raft.kafka_metadata_log import FileSnapshotWriter, KafkaMetadataLog
from barnabas.broker.raft.request_manager import RequestManager
from tests.support.raft_cluster import BrokenPromiseError
from tests.support.raft_faults import FAULTS
from tests.support.raft_history import play, play_power_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.log.filesystem import File
    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
    from barnabas.protocol.messages.fetch_response import FetchResponse

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


def test_voters_are_known_where_the_log_is_cut_to_a_snapshot_and_the_next_record_names_others() -> None:
    play(3987)


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


def _share_the_part(patch: pytest.MonkeyPatch) -> None:
    def same(self: KafkaMetadataLog, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self.snapshot_path(snapshot_id)}.part"

    def end(self: FileSnapshotWriter, file: File) -> None:
        file.sync()
        self._log.filesystem.rename(self._path, self._log.snapshot_path(self.snapshot_id))
        self._log.filesystem.sync_directory(self._log.directory)

    patch.setattr(KafkaMetadataLog, "next_part", same)
    patch.setattr(FileSnapshotWriter, "_end", end)


def _never_say_that_it_is_flushed(patch: pytest.MonkeyPatch) -> None:
    def flush(self: DiskWork, steps: Steps[None], flushed: Callable[[], None]) -> None:
        self.is_flushing = True
        done_beside(steps, self.storage, lambda _: None)

    patch.setattr(DiskWork, "flush", flush)


def _ask_once(patch: pytest.MonkeyPatch) -> None:
    answered = LogFetcher.handle_fetch_response

    def answered_last(self: LogFetcher, response: FetchResponse, now: Instant) -> bool:
        state = self._replica.quorum.state
        found = answered(self, response, now)
        if isinstance(state, FollowerState) and self._replica.quorum.is_voter:
            state.fetch_deadline = state.update_voter_deadline = inf
        return found

    patch.setattr(LogFetcher, "handle_fetch_response", answered_last)
    patch.setattr(RequestManager, "is_ready", lambda self, node_id, now: node_id not in self._connections)
    patch.setattr(RequestManager, "ready_at", lambda self, node_id: inf)


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        (_share_the_part, "the snapshot"),
        (_never_say_that_it_is_flushed, "waits for a disk that has nothing to do"),
        (_ask_once, "looks again only in"),
    ],
)
def test_what_would_wait_for_ever_is_found_when_it_begins(
    plant: Callable[[pytest.MonkeyPatch], None], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when a history is over and nothing has moved for half a minute: that says nothing of why."""
    plant(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=problem):
        _play_on_files()


def _play_on_files() -> None:
    for seed in (5342, 5644, *range(20)):
        play(seed, on_files=True)


@pytest.mark.parametrize("seed", [5342, 5644])
def test_followers_get_whole_snapshots_where_two_were_written_at_once(seed: int) -> None:
    play(seed, on_files=True)


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
