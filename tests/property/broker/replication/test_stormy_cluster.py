"""Replication with torn writes and full disks, and with elections of replicas that are not in sync; faults planted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.broker.replication.in_sync_replicas import InSyncReplicas
from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
from tests.support.stormy_cluster import StormyCluster, UncleanCluster


@pytest.fixture(autouse=True)
def _without_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(2))
def test_torn_writes_and_full_disks_lose_nothing_that_was_promised(seed: int) -> None:
    StormyCluster(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_torn_writes_and_full_disks_lose_nothing_that_was_promised_many_times(seed: int) -> None:
    StormyCluster(seed, brokers=4 + seed % 2).run()


@pytest.mark.parametrize("seed", range(3))
def test_replicas_are_the_same_after_unclean_elections(seed: int) -> None:
    UncleanCluster(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_replicas_are_the_same_after_unclean_elections_many_times(seed: int) -> None:
    UncleanCluster(seed, brokers=3 + seed % 3).run(20)


# -- planted faults ----------------------------------------------------------------------------------------------------


def _finds(kind: type[UncleanCluster], seeds: int) -> bool:
    for seed in range(seeds):
        try:
            kind(seed).run(20)
        except AssertionError:
            return True
    return False


@pytest.mark.slow
def test_a_leader_that_does_not_tell_that_it_has_recovered_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InSyncReplicas, "recover", lambda self: None)
    monkeypatch.setattr(InSyncReplicas, "expand", lambda self, replica, high_watermark: None)
    assert _finds(UncleanCluster, 10)


@pytest.mark.slow
def test_a_follower_that_does_not_truncate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an unclean election the divergence may lie below the follower's high watermark."""
    real = ReplicaFetcher._truncation_offset

    def not_below_the_high_watermark(self: ReplicaFetcher, name: object, epoch: int, end: int) -> int:
        return max(real(self, name, epoch, end), self._logs.high_watermark(name))  # type: ignore[arg-type]

    monkeypatch.setattr(ReplicaFetcher, "_truncation_offset", not_below_the_high_watermark)
    assert _finds(UncleanCluster, 30)
