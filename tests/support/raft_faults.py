"""Faults that are planted into the quorum's state machine, to see that the histories and the explorer find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.truncation import done_beside
from barnabas.broker.raft import epoch_states, fetch_server
from barnabas.broker.raft import follower_fetcher as log_fetcher
from barnabas.broker.raft.control_record_state_machine import PartitionState
from barnabas.broker.raft.disk_work import DiskWork
from barnabas.broker.raft.epoch_states import EpochElection, UnattachedState
from barnabas.broker.raft.follower_fetcher import LogFetcher
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.quorum_state import QuorumState
from barnabas.broker.raft.replica import Replica
from barnabas.broker.raft.replicated_log import Divergence
from barnabas.broker.raft.request_manager import RequestManager
from barnabas.broker.raft.voter_changes import VoterChanges
from barnabas.broker.raft.voter_set import VoterSet
from tests.support.raft_log import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    import pytest


def _vote_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UnattachedState, "can_grant_vote", lambda _self, _candidate, up_to_date, pre_vote: up_to_date)


def _forget_the_vote(patch: pytest.MonkeyPatch) -> None:
    durably = QuorumState._durably

    def forget(self: QuorumState, state: object) -> None:
        if isinstance(state, UnattachedState) and state.voted_key is not None:
            self.state = state
        else:
            durably(self, state)  # type: ignore[arg-type]

    patch.setattr(QuorumState, "_durably", forget)


def _forget_the_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumState, "_durably", lambda self, state: setattr(self, "state", state))


def _commit_by_a_minority(patch: pytest.MonkeyPatch) -> None:
    def advance(self: LeaderState) -> bool:
        ends = sorted(-1 if state.end_offset is None else state.end_offset for state in self.voters.values())
        committed = ends[(len(ends) - 1) // 2 + 1] if len(ends) > 1 else ends[0]
        if committed <= self.epoch_start_offset or committed <= (self.high_watermark or 0):
            return False
        self.high_watermark = committed
        return True

    patch.setattr(LeaderState, "_advance", advance)


def _commit_an_earlier_epoch(patch: pytest.MonkeyPatch) -> None:
    def advance(self: LeaderState) -> bool:
        ends = sorted(-1 if state.end_offset is None else state.end_offset for state in self.voters.values())
        committed = ends[(len(ends) - 1) // 2]
        if committed <= (self.high_watermark or 0):
            return False
        self.high_watermark = committed
        return True

    patch.setattr(LeaderState, "_advance", advance)


def _acknowledge_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    def flush(self: Replica) -> None:
        if not self.disk.is_flushing and self.log.flushed_offset < self.log.end_offset:
            self.disk.flush(self.log.flush(), self._flushed)

    patch.setattr(Replica, "flush", flush)
    patch.setattr(Replica, "is_log_on_disk", property(lambda _self: True))


def _leader_counts_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    update = LeaderState.update_local
    patch.setattr(LeaderState, "update_local", lambda self, end, _flushed, voters: update(self, end, end, voters))


def _forget_what_was_not_flushed_before_the_restart(patch: pytest.MonkeyPatch) -> None:
    reopen = MemoryLog.reopen

    def all_is_flushed(self: MemoryLog, random: Random | None = None) -> None:
        reopen(self, random)
        self.flushed_offset = self.end_offset

    patch.setattr(MemoryLog, "reopen", all_is_flushed)


def _send_before_the_disk_has_it(patch: pytest.MonkeyPatch) -> None:
    def take(self: Replica) -> list[object]:
        outbound, self._outbound = self._outbound, []
        return list(outbound)

    patch.setattr(Replica, "take_outbound", take)


def _go_on_while_the_disk_is_busy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DiskWork, "do_first", lambda self, steps: done_beside(steps, self.storage, lambda _: None))


def _vote_for_a_shorter_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda _self, _other: True)


def _vote_by_length_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetAndEpoch, "is_at_least", lambda self, other: self.offset >= other.offset)


def _believe_an_earlier_epoch(patch: pytest.MonkeyPatch) -> None:
    common = Replica.handle_common

    def believe(self: Replica, error: int, leader_id: int, epoch: int, endpoints: object, now: float) -> bool | None:
        return (
            None
            if 0 < epoch < self.quorum.epoch and not error
            else common(
                self,
                error,
                leader_id,
                epoch,
                endpoints,
                now,  # type: ignore[arg-type]
            )
        )

    patch.setattr(Replica, "handle_common", believe)
    patch.setattr(RequestManager, "is_expected", lambda _self, _node, _correlation: True)


def _never_diverge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        fetch_server,
        "validate_offset_and_epoch",
        lambda _log, offset, epoch: Divergence(OffsetAndEpoch(offset, epoch), is_valid=True),
    )


def _truncate_too_little(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_fetcher, "truncation_offset", lambda log, _diverging: log.end_offset)


def _truncate_below_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def truncate(self: LogFetcher, _diverging: OffsetAndEpoch) -> None:
        log = self._replica.log
        log.high_watermark = log.start_offset  # type: ignore[misc]
        log.truncate_to(log.start_offset)
        self._replica.partition_state.truncate_new(log.start_offset)

    patch.setattr(LogFetcher, "_truncate", truncate)
    patch.setattr(QuorumState, "initialize", QuorumState.initialize)


def _win_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochElection, "_majority", property(lambda self: len(self.votes) // 2))


def _change_two_voters_at_once(patch: pytest.MonkeyPatch) -> None:
    check = VoterChanges._check

    def unchecked(self: VoterChanges, *arguments: object, **keywords: object) -> tuple[int, str]:
        self._pending = None
        error, text = check(self, *arguments, **keywords)  # type: ignore[arg-type]
        return (0, "") if text.startswith("the change of the voters before") else (error, text)

    patch.setattr(VoterChanges, "_check", unchecked)
    patch.setattr(VoterSet, "has_overlapping_majority", VoterSet.has_overlapping_majority)


def _keep_the_voters_that_were_cut(patch: pytest.MonkeyPatch) -> None:
    def keep(self: PartitionState, end_offset: int) -> None:
        self._next_offset = min(self._next_offset, end_offset)

    patch.setattr(PartitionState, "truncate_new", keep)


def _count_a_fetch_that_waited(patch: pytest.MonkeyPatch) -> None:
    """Take the end of the log at the answer for what the follower has."""
    update = LeaderState.update_replica

    def ahead(self: LeaderState, key: object, _offset: int, now: object) -> bool:
        return update(self, key, self.state_of(self.local).end_offset or 0, now)  # type: ignore[arg-type]

    patch.setattr(LeaderState, "update_replica", ahead)


def _high_watermark_beyond_the_log(patch: pytest.MonkeyPatch) -> None:
    def advance(self: LogFetcher, state: object, high_watermark: int) -> None:
        state.high_watermark = max(state.high_watermark or 0, high_watermark)  # type: ignore[attr-defined]
        self._replica.log.update_high_watermark(high_watermark)

    patch.setattr(LogFetcher, "_advance", advance)


def _lead_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Vote in an epoch that this node has led."""
    initialize = QuorumState.initialize

    def forget(self: QuorumState, log_end: OffsetAndEpoch, now: float) -> None:
        initialize(self, log_end, now)
        self.state = UnattachedState(max(0, self.epoch - 1), election_deadline=now)

    patch.setattr(QuorumState, "initialize", forget)


def _grants_by_leader_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        epoch_states,
        "_grants",
        lambda leader_id, _voted, _candidate, up_to_date, pre_vote: up_to_date and (pre_vote or leader_id is None),
    )


#: Fault → what plants it.
FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "vote twice in an epoch": _vote_twice,
    "a vote is overwritten": _grants_by_leader_only,
    "the vote is not on the disk": _forget_the_vote,
    "the epoch is not on the disk": _forget_the_epoch,
    "committed by a minority": _commit_by_a_minority,
    "a record of an earlier epoch is committed by itself": _commit_an_earlier_epoch,
    "acknowledged before the flush": _acknowledge_before_the_flush,
    "the leader counts what is not flushed": _leader_counts_what_is_not_flushed,
    "a restart forgets what was not flushed": _forget_what_was_not_flushed_before_the_restart,
    "a message goes out before the disk has what it says": _send_before_the_disk_has_it,
    "messages are treated while the log is cut": _go_on_while_the_disk_is_busy,
    "a vote for a shorter log": _vote_for_a_shorter_log,
    "a vote for a longer log of an earlier epoch": _vote_by_length_alone,
    "a response of an earlier epoch is believed": _believe_an_earlier_epoch,
    "diverging logs are not found": _never_diverge,
    "truncated too little": _truncate_too_little,
    "truncated below the high watermark": _truncate_below_the_high_watermark,
    "elected without a majority": _win_without_a_majority,
    "two changes of voters at once": _change_two_voters_at_once,
    "voters stay whose record was cut": _keep_the_voters_that_were_cut,
    "a follower is counted ahead of its log": _count_a_fetch_that_waited,
    "the high watermark is beyond the log": _high_watermark_beyond_the_log,
    "the epoch goes back with a restart": _lead_on_after_a_restart,
}
