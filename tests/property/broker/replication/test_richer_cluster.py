"""Replication beside transactions, deletion, retention, reassignments and clocks that jump; with faults planted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker import delayed_produce
from barnabas.broker.coordinator import committed_answers
from barnabas.broker.log.local_log import LocalLog
from barnabas.broker.log.producer_state_manager import ProducerStateManager
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.broker.partition import Partition
from barnabas.broker.replication.in_sync_replicas import InSyncReplicas
from barnabas.broker.replication.partition_state import PendingExpandIsr
from barnabas.broker.replication.quiet_partitions import QuietPartitions
from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
from barnabas.protocol.api_keys import ApiKey
from tests.support.richer_cluster import RicherCluster

Patch = Callable[[pytest.MonkeyPatch], None]


class Stranded(RicherCluster):
    """Nothing but followers that are stranded on their way into the ISR."""

    faults = ("strand",)


@pytest.fixture(autouse=True)
def _without_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("seed", "partitions"), [(0, 1), (1, 1), (2, 3), (3, 3)])
def test_what_is_acknowledged_committed_and_deleted_stays_so(seed: int, partitions: int) -> None:
    RicherCluster(seed, brokers=5, partitions=partitions).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_what_is_acknowledged_committed_and_deleted_stays_so_many_times(seed: int) -> None:
    RicherCluster(seed, brokers=4 + seed % 2, partitions=(1, 3)[seed // 2 % 2]).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_followers_that_are_stranded_on_their_way_into_the_isr_have_all(seed: int) -> None:
    Stranded(seed, brokers=3).run(4)


# -- planted faults ----------------------------------------------------------------------------------------------------


def forget_a_pending_expansion(patch: pytest.MonkeyPatch) -> None:
    """The ISR that is proposed does not count before the controller has answered."""
    patch.setattr(PendingExpandIsr, "maximal_isr", property(lambda self: self.last_committed.isr))


def rouse_no_quiet_partition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuietPartitions, "woken_by", lambda _self, _key: None)


def name_nothing_that_has_changed(patch: pytest.MonkeyPatch) -> None:
    original = ReplicaFetcher._names_to_look_at

    def names(self: ReplicaFetcher) -> Any:
        return original(self) if self._session.is_new else ()

    patch.setattr(ReplicaFetcher, "_names_to_look_at", names)


def keep_the_producers_of_what_is_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStateManager, "truncate_and_reload", lambda *_: [])


def tell_of_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalLog, "collect_aborted", lambda *_: [])


def read_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UnifiedLog, "last_stable_offset", property(lambda self: self.high_watermark))


def end_no_transaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStateManager, "complete_txn", lambda *_: None)


def answer_for_a_marker_that_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """The coordinator takes a marker for written that an old leader has appended, and is cut there."""
    patch.delitem(committed_answers._NAMES, ApiKey.WRITE_TXN_MARKERS)


def acknowledge_before_the_followers(patch: pytest.MonkeyPatch) -> None:
    """acks=all as if it was acks=1."""
    patch.setattr(delayed_produce, "_is_settled", lambda _waiting: True)


def take_nobody_into_the_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncReplicas, "expand", lambda *_: None)


def wait_for_a_lost_answer(patch: pytest.MonkeyPatch) -> None:
    """A follower whose leader was restarted asks no more."""
    patch.setattr(ReplicaFetcher, "next_deadline", lambda _self: float("inf"))
    original = ReplicaFetcher.disconnected

    def disconnected(self: ReplicaFetcher, now: float) -> None:
        original(self, now)
        patch.setattr(self, "next_request", lambda _now: None, raising=False)

    patch.setattr(ReplicaFetcher, "disconnected", disconnected)


def begin_an_empty_replica_at_the_end(patch: pytest.MonkeyPatch) -> None:
    original = ReplicaFetcher._start_at

    def start_at(self: Any, name: Any, state: Any, _leader_start: int, now: Any) -> None:
        original(self, name, state, state.leader_end_offset, now)

    patch.setattr(ReplicaFetcher, "_start_at", start_at)


def lead_without_being_the_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "check_leader", lambda _self: None)


def obey_an_answer_of_another_leadership(patch: pytest.MonkeyPatch) -> None:
    """What AlterPartition has changed is taken in, whatever has come meanwhile."""
    original = InSyncReplicas.accepted

    def accepted(self: InSyncReplicas, proposal: Any, registration: Any) -> bool:
        self.state = proposal
        return original(self, proposal, registration)

    patch.setattr(InSyncReplicas, "accepted", accepted)


def is_found(plant: Patch, seeds: range) -> int | None:
    """Return the first seed whose history shows the fault."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            stranded = plant is forget_a_pending_expansion
            try:
                Stranded(seed, brokers=3).run(4) if stranded else RicherCluster(seed, 5, (1, 3)[seed % 2]).run()
            except (AssertionError, LookupError):
                return seed
    return None


PLANTED: tuple[Patch, ...] = (
    forget_a_pending_expansion,
    rouse_no_quiet_partition,
    name_nothing_that_has_changed,
    keep_the_producers_of_what_is_cut,
    tell_of_no_aborted_transactions,
    read_open_transactions,
    end_no_transaction,
    answer_for_a_marker_that_is_not_committed,
    acknowledge_before_the_followers,
    take_nobody_into_the_isr,
    wait_for_a_lost_answer,
    begin_an_empty_replica_at_the_end,
    lead_without_being_the_leader,
    obey_an_answer_of_another_leadership,
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Patch) -> None:
    assert is_found(plant, range(60)) is not None
