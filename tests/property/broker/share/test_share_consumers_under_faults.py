"""Share consumers vanish, stall, release and reject: no record is lost, none comes twice; planted faults are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.share import default_state_persister, share_partition, share_partition_manager
from barnabas.broker.share.coordinator import share_group_offset
from barnabas.broker.share.in_flight_records import RecordState
from barnabas.broker.share.share_partition import SharePartition
from tests.property.broker.share.share_world import ShareWorld, Violation

SEEDS, STEPS = 6, 120


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_record_comes_to_one_end(seed: int) -> None:
    ShareWorld(seed).run(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_every_record_comes_to_one_end_for_long(seed: int) -> None:
    ShareWorld(seed).run(3 * STEPS)


Patch = Callable[[pytest.MonkeyPatch], None]


def _locks_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "expire_locks", lambda self, limits, now: self._locks.clear())


def _accepting_releases(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(share_partition._STATES, 1, RecordState.AVAILABLE)


def _rejecting_releases(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(share_partition._STATES, 3, RecordState.AVAILABLE)


def _releasing_archives(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(share_partition._STATES, 2, RecordState.ARCHIVED)


def _nothing_is_stored(patch: pytest.MonkeyPatch) -> None:
    def write(self: Any, key: Any, update: Any, at: Any, tell: Any) -> None:
        tell(None)

    patch.setattr(default_state_persister.DefaultStatePersister, "write", write)


def _the_limit_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    let_go = SharePartition._let_go
    patch.setattr(
        SharePartition,
        "_let_go",
        lambda self, batch, limits: let_go(self, batch, limits._replace(max_deliveries=1 << 30)),
    )
    begin = SharePartition._begin
    patch.setattr(
        SharePartition,
        "_begin",
        lambda self, transition, first, last, state, limits: begin(
            self, transition, first, last, state, limits._replace(max_deliveries=1 << 30)
        ),
    )


def _deliveries_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    change = share_partition._Acquisition._change

    def uncounted(self: Any, first: int, last: int, delivery_count: int, *, begins: bool) -> None:
        change(self, first, last, min(delivery_count, 1), begins=begins)

    patch.setattr(share_partition._Acquisition, "_change", uncounted)


def _a_lost_connection_keeps_its_records_accepted(patch: pytest.MonkeyPatch) -> None:
    begin = SharePartition._begin

    def release(self: Any, member_id: str, limits: Any) -> Any:
        transition = share_partition.Transition()
        mine = [(one.first, one.last) for one in self.records if one.member_id == member_id and not one.transition]
        for first, last in mine:
            begin(self, transition, first, last, RecordState.ACKNOWLEDGED, limits)
        return transition if mine else None

    patch.setattr(SharePartition, "release", release)


def _updates_are_lost_when_loading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_group_offset.ShareGroupOffset, "updated", lambda self, update: self)


def _gaps_are_lost_when_loading(patch: pytest.MonkeyPatch) -> None:
    make = SharePartition.__init__

    def skipping(self: Any, state: Any, start_offset: int, leader_epoch: int) -> None:
        first = min((one.first_offset for one in state.state_batches), default=start_offset)
        make(self, state, max(start_offset, first), leader_epoch)

    patch.setattr(SharePartition, "__init__", skipping)


def _locks_are_not_renewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_renew", lambda self, first, last, deadline: None)


def _members_are_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    """Records that a member has are given to the next one, too."""
    acquire = SharePartition.acquire

    def careless(self: Any, acquirer: Any, fetch_offset: int, *rest: Any) -> Any:
        for batch in self.records:
            if batch.state == RecordState.ACQUIRED and batch.transition is None:
                batch.state = batch.next_state = RecordState.AVAILABLE
                self._available_from = min(self._available_from, batch.first)
        return acquire(self, acquirer, min(fetch_offset, self.next_fetch_offset()), *rest)

    patch.setattr(SharePartition, "acquire", careless)


def _sessions_outlive_their_connections(patch: pytest.MonkeyPatch) -> None:
    """No violation of the promises: locks end anyway."""
    patch.setattr(share_partition_manager.SharePartitionManager, "connection_lost", lambda self, id, at: None)


FAULTS: list[Patch] = [
    _locks_never_end,
    _accepting_releases,
    _rejecting_releases,
    _releasing_archives,
    _nothing_is_stored,
    _the_limit_is_forgotten,
    _deliveries_are_not_counted,
    _a_lost_connection_keeps_its_records_accepted,
    _updates_are_lost_when_loading,
    _gaps_are_lost_when_loading,
    _locks_are_not_renewed,
    _members_are_not_asked_for,
]


def run_seeds(count: int) -> None:
    for seed in range(count):
        ShareWorld(seed).run(STEPS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_planted_faults_are_found(fault: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation):
        run_seeds(40)


def test_what_breaks_no_promise_is_not_called_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    _sessions_outlive_their_connections(monkeypatch)
    ShareWorld(1).run(STEPS)
