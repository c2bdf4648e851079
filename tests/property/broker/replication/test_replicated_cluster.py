"""Replicated brokers keep what they acknowledge, whatever happens to them; and faults planted in them are found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker import delayed_fetch, delayed_produce
from barnabas.broker.instant import Instant
from barnabas.broker.log.unified_log import LOG_END, UnifiedLog
from barnabas.broker.partition import Partition
from barnabas.broker.replication.in_sync_replicas import InSyncReplicas
from barnabas.broker.replication.partition_state import PendingExpandIsr, PendingShrinkIsr
from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
from tests.support.replicated_cluster import ReplicatedCluster

Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def _without_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_acknowledged_survives(seed: int) -> None:
    ReplicatedCluster(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_what_is_acknowledged_survives_many_histories(seed: int) -> None:
    ReplicatedCluster(seed, brokers=3 + seed % 3).run()


# -- planted faults ----------------------------------------------------------------------------------------------------


def truncate_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-101."""
    original = ReplicaFetcher.add_partition

    def add(self: Any, name: Any, topic_id: bytes, leader_epoch: int, now_ms: int) -> None:
        original(self, name, topic_id, leader_epoch, now_ms)
        self._truncate({name: self._logs.high_watermark(name)}, Instant(0.0, now_ms))

    patch.setattr(ReplicaFetcher, "add_partition", add)


def never_truncate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delayed_fetch, "_divergence", lambda _partition, _target: None)


def truncate_to_what_the_leader_says_alone(patch: pytest.MonkeyPatch) -> None:
    """Before KIP-279: one round, whether the follower has the leader's epoch or not."""
    patch.setattr(
        ReplicaFetcher,
        "_truncation_offset",
        lambda self, name, _epoch, end: min(end, self._logs.log_end_offset(name)),
    )


def expand_the_isr_too_early(patch: pytest.MonkeyPatch) -> None:
    original = InSyncReplicas.expand

    def expand(self: Any, replica: Any, _high_watermark: int) -> Any:
        end, replica.log_end_offset = replica.log_end_offset, 1 << 60
        try:
            return original(self, replica, 0)
        finally:
            replica.log_end_offset = end

    patch.setattr(InSyncReplicas, "expand", expand)
    patch.setattr(PendingExpandIsr, "maximal_isr", property(lambda self: self.last_committed.isr))


def take_a_shrink_for_granted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingShrinkIsr, "maximal_isr", property(lambda self: self.last_committed.isr - self.out_of_sync))


def commit_without_the_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncReplicas, "high_watermark", lambda _self, end, _least, _now: end)


def acknowledge_in_another_leadership(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delayed_produce, "_problem", lambda _waiting: None)


def read_past_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    original = UnifiedLog._end_for
    patch.setattr(UnifiedLog, "_end_for", lambda self, isolation: original(self, LOG_END))


def apply_answers_to_another_question(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaFetcher, "_asked_state", lambda self, name, _asked: self._states.get(name))


def believe_the_leaders_high_watermark_beyond_the_log(patch: pytest.MonkeyPatch) -> None:
    """At the start a replicated log counts as committed up to its end."""
    original = Partition.await_registration

    def begin(self: Partition) -> None:
        original(self)
        self.log.update_high_watermark(self.log.log_end_offset)

    patch.setattr(Partition, "await_registration", begin)


def tell_an_end_before_it_is_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "lags_behind_its_epoch", property(lambda _self: False))


def append_to_an_isr_too_small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncReplicas, "effective_min_isr", lambda _self, _least: 1)


def keep_the_epochs_of_what_is_cut(patch: pytest.MonkeyPatch) -> None:
    from barnabas.broker.log.leader_epoch_file_cache import LeaderEpochFileCache

    patch.setattr(LeaderEpochFileCache, "drop_beyond", lambda _self, _end: False)


def begin_no_epoch(patch: pytest.MonkeyPatch) -> None:
    """The leader's epochs are those of its records only, and its own goes on where others have written."""
    patch.setattr(Partition, "end_offset_for_epoch", lambda self, epoch: (epoch, self.log.log_end_offset))


def is_found(plant: Patch, seeds: range) -> int | None:
    """Return the first seed whose history shows the fault."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            try:
                ReplicatedCluster(seed).run()
            except AssertionError:
                return seed
    return None


#: Every fault, and how many histories are tried at most until it shows.
PLANTED: tuple[Patch, ...] = (
    truncate_to_the_high_watermark,
    never_truncate,
    truncate_to_what_the_leader_says_alone,
    expand_the_isr_too_early,
    take_a_shrink_for_granted,
    commit_without_the_isr,
    acknowledge_in_another_leadership,
    read_past_the_high_watermark,
    apply_answers_to_another_question,
    believe_the_leaders_high_watermark_beyond_the_log,
    tell_an_end_before_it_is_known,
    append_to_an_isr_too_small,
    keep_the_epochs_of_what_is_cut,
    begin_no_epoch,
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Patch) -> None:
    assert is_found(plant, range(300)) is not None
