"""A follower on a slow disk: it fetches on when the disk has what was cut or flushed, and the loop does not wait.

See rule 5 of `barnabas.broker`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from barnabas import errors
from barnabas.broker.log import file_records
from barnabas.broker.log.checkpoint_files import OffsetCheckpointFile, encode_checkpoint
from barnabas.broker.log.log_cleaner_manager import CLEANER_OFFSET_CHECKPOINT
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.partition import Partition
from barnabas.broker.replication.replica_fetcher import FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.protocol.messages.fetch_response import EpochEndOffset
from barnabas.protocol.topic_partition import TopicPartition
from tests.unit.broker.log.test_following import batch, marker
from tests.unit.broker.replication.test_replica_fetcher import (
    BACKOFF,
    EPOCH,
    ID,
    NAME,
    NOW,
    Bench,
    asked,
    out_of_range,
    record,
)
from tests.unit.broker.replication.test_replicated_partition import Bench as ManagerBench
from tests.unit.broker.test_loop_and_disk import QUICK, OneDisk


class SlowBench(Bench):
    """A follower of one partition, whose storage works when the test says so; the files are not in the cache."""

    def __init__(self, *epochs: int, flush_messages: int = 1 << 60, was_killed: bool = False) -> None:
        self.disk = disk = OneDisk()
        config = {"flush.messages": flush_messages, "segment.bytes": 400, "index.interval.bytes": 0}
        self.manager = LogManager("/data", disk.filesystem, config, storage=disk)
        self.manager.checkpoints.is_replicated = lambda _name: True
        self.manager.start(now_ms=NOW)
        log = self.manager.create_log(NAME, ID)
        self.partitions = {NAME: Partition(NAME, ID, log, disk, lambda _key: None)}
        for offset, epoch in enumerate(epochs):
            log.append_as_follower(record(offset, epoch), now_ms=NOW, leader_epoch=epoch)
        log.update_high_watermark(len(epochs))
        if not was_killed:
            log.flush()
        self.manager.checkpoint_soon()
        self.manager.step(20, NOW)
        self.log, self.now, self.session = log, 10.0, 0
        logs = ReplicaLogs(self.manager, self.partitions.__getitem__)
        self.fetcher = ReplicaFetcher(1, logs, lambda: 77, FetcherSettings(backoff=BACKOFF))
        self.ready = 0
        self.fetcher.on_ready = self.note_ready
        self.fetcher.add_partition(NAME, ID, EPOCH, NOW)
        disk.filesystem.cold = set(disk.filesystem._names)
        disk.on_loop.clear()

    def note_ready(self) -> None:
        self.ready += 1

    def diverge(self, epoch: int, end: int) -> None:
        assert self.request() is not None
        self.fetched(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end), high_watermark=9, log_start_offset=0)

    def asks(self) -> dict[int, tuple[int, int]]:
        found = self.request()
        return {} if found is None else dict(asked(found))


def diverge(bench: SlowBench) -> None:
    bench.diverge(3, 2)


def be_too_long(bench: SlowBench) -> None:
    out_of_range(bench)
    bench.listed(1)


def be_too_old(bench: SlowBench) -> None:
    out_of_range(bench)
    bench.listed(100)
    bench.request()
    bench.listed(50)


CUTS: dict[str, tuple[Callable[[SlowBench], None], tuple[int, int]]] = {
    "the histories part": (diverge, (2, 3)),
    "the leader's log is shorter": (be_too_long, (1, 3)),
    "the leader's log begins later": (be_too_old, (50, -1)),
}


@pytest.mark.parametrize("why", sorted(CUTS))
def test_a_truncation_is_brought_to_the_disk_beside_the_loop(why: str) -> None:
    bench = SlowBench(3, 3, 3, 4, 4)
    cut, following = CUTS[why]
    cut(bench)
    assert bench.asks() == {}, "nothing is fetched before the disk has the cut"
    assert bench.log.is_truncating
    bench.disk.drain()
    assert (bench.log.is_truncating, bench.ready > 0) == (False, True)
    if bench.fetcher._request is not None:
        bench.fetched(high_watermark=0, log_start_offset=0)
    assert bench.asks() == {0: following}
    assert not set(bench.disk.on_loop) - QUICK - {"create"}


def test_what_flush_messages_asks_for_is_on_the_disk_before_more_is_fetched() -> None:
    bench = SlowBench(flush_messages=1)
    bench.request()
    bench.fetched(records=record(0), high_watermark=0, log_start_offset=0)
    assert (bench.asks(), bench.log.recovery_point) == ({}, 0)
    bench.disk.drain()
    assert (bench.log.recovery_point, bench.ready) == (1, 1)
    if bench.fetcher._request is not None:
        bench.fetched(high_watermark=0, log_start_offset=0)
    assert bench.asks() == {0: (1, EPOCH)}
    assert not set(bench.disk.on_loop) - QUICK


def test_what_is_flushed_while_other_partitions_are_fetched_is_soon_acknowledged() -> None:
    """The Fetch that leaves it out does not wait at the leader for as long as it may."""
    bench = SlowBench(flush_messages=1)
    other = TopicPartition(NAME.topic, 1)
    bench.partitions[other] = Partition(other, ID, bench.manager.create_log(other, ID), bench.disk, lambda _key: None)
    bench.fetcher.add_partition(other, ID, EPOCH, NOW)
    assert bench.request().max_wait_ms == 500
    bench.fetched(records=record(0), high_watermark=0, log_start_offset=0)
    beside = bench.request()
    assert (beside.max_wait_ms, beside.forgotten_topics_data[0].partitions) == (10, [0])
    bench.disk.drain()
    bench.fetched(other, high_watermark=0, log_start_offset=0)
    following = bench.request()
    assert (following.max_wait_ms, asked(following)[0]) == (500, (1, EPOCH))


def test_what_a_killed_follower_had_not_flushed_is_on_the_disk_before_it_says_that_it_has_it() -> None:
    bench = SlowBench(EPOCH, EPOCH, flush_messages=1, was_killed=True)
    assert (bench.asks(), bench.log.recovery_point) == ({}, 0)
    bench.disk.drain()
    assert (bench.log.recovery_point, bench.asks()) == (2, {0: (2, EPOCH)})


def test_a_log_that_is_followed_no_more_is_not_cut() -> None:
    bench = SlowBench(3, 3, 3, 4, 4)
    bench.diverge(3, 2)
    bench.fetcher.remove_partition(NAME)
    bench.disk.drain()
    assert (bench.log.log_end_offset, bench.log.is_truncating) == (5, False)


@pytest.mark.parametrize("operation", ["sync", "truncate", "write"])
def test_a_cut_that_the_disk_refuses_is_tried_again(operation: str) -> None:
    bench = SlowBench(3, 3, 3, 4, 4)
    note = bench.disk.filesystem.fail

    def fail(found: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "broken") if found == operation else None

    bench.disk.filesystem.fail = fail
    bench.diverge(3, 2)
    bench.disk.drain()
    bench.disk.filesystem.fail = note
    assert not bench.log.is_truncating
    assert bench.asks() == {}
    if bench.fetcher._request is not None:
        bench.fetched(high_watermark=0, log_start_offset=0)
    bench.now += BACKOFF
    assert bench.log.is_offline or bench.asks() == {0: (5, 4)}


def test_a_role_is_not_taken_before_the_disk_has_what_was_cut() -> None:
    bench = ManagerBench()
    bench.partition.log.is_truncating = True
    changed = bench.registration._replace(partition_epoch=bench.registration.partition_epoch + 1)
    failed = bench.manager.apply_delta({NAME: (ID, changed)}, (), NOW)
    assert isinstance(failed[NAME], errors.NotLeaderOrFollowerError)
    bench.partition.log.is_truncating = False
    bench.apply()


def test_where_a_compacted_log_is_clean_is_on_the_disk_before_it_is_cut_and_the_loop_does_not_wait() -> None:
    bench = SlowBench(3, 3, 3, 4, 4)
    cleaner, path = bench.manager.cleaner.manager, f"/data/{CLEANER_OFFSET_CHECKPOINT}"
    bench.disk.filesystem.replace(path, encode_checkpoint(["t 0 4"]), sync=True)
    bench.disk.on_loop.clear()
    bench.diverge(3, 2)
    while bench.log.log_end_offset == 5:
        assert bench.disk.waiting, "the loop waits for nothing"
        before = OffsetCheckpointFile(bench.disk.filesystem, path).read()
        work, done = bench.disk.waiting.pop(0)
        bench.disk._is_beside = True
        work()
        bench.disk._is_beside = False
        done()
    assert before == {NAME: 2} == cleaner.clean_offsets
    bench.disk.drain()
    assert not set(bench.disk.on_loop) - QUICK - {"create"}


def test_producers_are_replayed_in_pieces_and_meanwhile_no_transaction_counts_as_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_records, "SCAN_CHUNK", 300)
    bench = SlowBench()
    log = bench.log
    bench.manager.update_topic_config(NAME.topic, {"segment.bytes": 1 << 20})
    for offset in range(40):
        data = {2: batch(2, producer=7, sequence=0), 35: marker(35, 7)}.get(offset, record(offset))
        log.append_as_follower(data, now_ms=NOW, leader_epoch=EPOCH)
    log.update_high_watermark(40)
    assert log.last_stable_offset == 40
    steps = bench.manager.truncation().steps({NAME: 30}, NOW)
    pieces = 0
    for work in steps:
        work()
        if log.log_end_offset == 30:
            pieces += 1
            assert log.last_stable_offset <= 2
    assert pieces >= 8
    assert (log.last_stable_offset, log.producer_state.ongoing_txns) == (2, {2: 7})
