"""A follower's fetcher: what it asks, where it truncates, what it tries again (AbstractFetcherThreadTest, retold)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.partition import Partition
from barnabas.broker.replication.replica_fetcher import EARLIEST, LATEST, FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.messages.list_offsets_request import ListOffsetsRequest
from barnabas.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from barnabas.records.batch_header import assign_offsets

NAME, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
ID = bytes(range(16))
NOW = 1_700_000_000_000
EPOCH = 5
BACKOFF = 1.0


def record(offset: int, epoch: int = EPOCH) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(NOW, None, b"%d" % offset, [])
    data = bytearray(builder.close())
    assign_offsets(data, 0, offset, epoch)
    return bytes(data)


class Bench:
    """A follower with one log for each partition, and what its leader answers."""

    def __init__(self, *epochs: int, names: Iterable[TopicPartition] = (NAME,)) -> None:
        self.manager = LogManager("/data", MemoryFileSystem(Random(0)))
        self.manager.checkpoints.is_replicated = lambda _name: True
        self.manager.start(now_ms=NOW)
        self.partitions = {
            name: Partition(name, ID, self.manager.create_log(name, ID), self.manager.storage, lambda _key: None)
            for name in names
        }
        self.log = self.partitions[NAME].log
        for offset, epoch in enumerate(epochs):
            self.log.append_as_follower(record(offset, epoch), now_ms=NOW, leader_epoch=epoch)
        logs = ReplicaLogs(self.manager, self.partitions.__getitem__)
        self.fetcher = ReplicaFetcher(1, logs, lambda: 77, FetcherSettings(backoff=BACKOFF))
        self.now = 10.0
        self.session = 0
        for name in names:
            self.fetcher.add_partition(name, ID, EPOCH, NOW)

    def request(self) -> Any:
        return self.fetcher.next_request(self.now)

    def receive(self, response: Any) -> None:
        self.fetcher.receive(response, Instant(self.now, NOW))

    def fetched(self, name: TopicPartition = NAME, **fields: Any) -> None:
        """The leader answers the Fetch in flight."""
        self.session = 9
        data = PartitionData(partition_index=name.partition, **fields)
        topic = FetchableTopicResponse(topic_id=ID, partitions=[data])
        self.receive(FetchResponse(session_id=9, responses=[topic]))

    def listed(self, offset: int, error_code: int = 0) -> None:
        found = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=error_code)
        self.receive(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])]))


def asked(request: FetchRequest) -> Mapping[int, tuple[int, int]]:
    """Partition → offset and last epoch, as the request has them."""
    return {
        found.partition: (found.fetch_offset, found.last_fetched_epoch)
        for topic in request.topics
        for found in topic.partitions
    }


# -- fetching ----------------------------------------------------------------------------------------------------------


def test_a_fetch_tells_where_the_log_is_and_who_asks() -> None:
    bench = Bench(3, 3, 4)
    bench.log.update_high_watermark(2)
    request = bench.request()

    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 77)
    (found,) = request.topics[0].partitions
    assert (found.fetch_offset, found.last_fetched_epoch, found.current_leader_epoch) == (3, 4, EPOCH)
    assert (found.log_start_offset, found.high_watermark) == (0, 2)
    assert bench.request() is None


def test_records_and_high_watermark_are_taken_over_and_the_next_fetch_goes_on() -> None:
    bench = Bench()
    bench.request()
    bench.fetched(records=record(0) + record(1), high_watermark=1, log_start_offset=0)

    assert (bench.log.log_end_offset, bench.log.high_watermark) == (2, 1)
    assert asked(bench.request()) == {0: (2, EPOCH)}


def test_the_high_watermark_never_goes_beyond_the_log() -> None:
    bench = Bench()
    bench.request()
    bench.fetched(records=record(0), high_watermark=100, log_start_offset=0)

    assert bench.log.high_watermark == 1


def test_the_log_start_follows_the_leaders() -> None:
    bench = Bench(5, 5, 5)
    bench.request()
    bench.fetched(records=b"", high_watermark=3, log_start_offset=2)

    assert bench.log.log_start_offset == 2


def test_a_log_start_that_was_taken_over_outlives_the_broker_with_the_next_step() -> None:
    """The leader tells who asks for the deletion that it is done here, too."""
    bench = Bench(3, 3)
    bench.request()
    bench.fetched(high_watermark=2, log_start_offset=1)

    bench.manager.step(100, NOW)

    again = LogManager("/data", bench.manager.filesystem)
    bench.manager.log_directory.release()
    again.start(now_ms=NOW)
    assert again.checkpoints.log_start_offsets[NAME] == 1


def test_an_answer_without_records_leaves_the_last_epoch_as_it_was() -> None:
    """KAFKA-15510: the leader would not see that the follower diverges."""
    bench = Bench(3, 3)
    bench.request()
    bench.fetched(records=b"", high_watermark=2, log_start_offset=0)

    assert asked(bench.request()) == {0: (2, 3)}


def test_a_session_tells_only_what_has_changed_and_forgets_what_is_gone() -> None:
    bench = Bench(names=(NAME, OTHER))
    assert asked(bench.request()) == {0: (0, -1), 1: (0, -1)}
    bench.fetched(records=record(0), high_watermark=0, log_start_offset=0)
    second = bench.request()
    assert (asked(second), second.session_id, second.session_epoch) == ({0: (1, EPOCH)}, 9, 1)
    bench.fetched(records=b"", high_watermark=0, log_start_offset=0)
    bench.fetcher.remove_partition(OTHER)
    third = bench.request()

    assert (asked(third), third.session_epoch) == ({}, 2)
    assert [(gone.topic_id, gone.partitions) for gone in third.forgotten_topics_data] == [(ID, [1])]


def test_a_lost_session_begins_anew_with_everything() -> None:
    bench = Bench()
    bench.request()
    bench.fetched(records=record(0), high_watermark=0, log_start_offset=0)
    bench.request()
    bench.receive(FetchResponse(error_code=errors.FetchSessionIdNotFoundError.code))
    assert bench.request() is None
    bench.now += BACKOFF

    again = bench.request()
    assert (asked(again), again.session_epoch) == ({0: (1, EPOCH)}, 0)


# -- truncating --------------------------------------------------------------------------------------------------------

DIVERGING = {
    "the leader's epoch ends earlier": ((3, 3, 3, 4, 4), (3, 2), 2, (2, 3)),
    "the follower's epoch ends earlier": ((3, 3, 4, 4), (3, 9), 2, (2, 3)),
    "the follower lacks the leader's epoch": ((2, 2, 4, 4), (3, 4), 2, (2, 2)),
    "the leader's epoch is older than all here": ((3, 3), (1, 0), 0, (0, -1)),
}


@pytest.mark.parametrize("what", DIVERGING)
def test_a_follower_truncates_to_where_the_histories_part(what: str) -> None:
    epochs, (epoch, end), truncated, following = DIVERGING[what]
    bench = Bench(*epochs)
    bench.request()
    bench.fetched(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end), high_watermark=9, log_start_offset=0)

    assert bench.log.log_end_offset == truncated
    # What came with it is not taken over before the log is the leader's.
    assert bench.log.high_watermark == 0
    assert asked(bench.request()) == {0: following}


@pytest.mark.parametrize(
    "error",
    [
        errors.NotLeaderOrFollowerError,
        errors.UnknownLeaderEpochError,
        errors.UnknownTopicIdError,
        errors.UnknownTopicOrPartitionError,
        errors.KafkaStorageError,
    ],
)
def test_errors_that_pass_by_are_tried_again_and_truncate_nothing(error: type[errors.KafkaError]) -> None:
    bench = Bench(3, 3)
    bench.request()
    bench.fetched(error_code=error.code)

    assert (bench.log.log_end_offset, bench.request().topics) == (2, [])
    bench.receive(FetchResponse())
    bench.now += BACKOFF
    assert asked(bench.request()) == {0: (2, 3)}


def test_a_fenced_follower_waits_for_the_metadata() -> None:
    bench = Bench(3)
    bench.request()
    bench.fetched(error_code=errors.FencedLeaderEpochError.code)

    assert NAME not in bench.fetcher
    assert NAME in bench.fetcher.failed
    bench.fetcher.add_partition(NAME, ID, EPOCH + 1, NOW)
    assert NAME in bench.fetcher
    assert bench.fetcher.failed == {}


def test_an_answer_to_what_was_asked_in_another_epoch_or_for_another_offset_is_dropped() -> None:
    bench = Bench(3)
    bench.request()
    bench.fetcher.remove_partition(NAME)
    bench.fetcher.add_partition(NAME, ID, EPOCH + 1, NOW)
    bench.fetched(records=record(1), high_watermark=2, log_start_offset=0)

    assert bench.log.log_end_offset == 1


def test_a_damaged_batch_is_fetched_again() -> None:
    bench = Bench()
    bench.request()
    bench.fetched(records=record(0)[:-1] + b"\x7f", high_watermark=1, log_start_offset=0)
    assert bench.log.log_end_offset == 0
    bench.now += BACKOFF
    bench.request()
    bench.receive(FetchResponse())
    bench.request()

    assert NAME in bench.fetcher


# -- out of range ------------------------------------------------------------------------------------------------------


def out_of_range(bench: Bench) -> ListOffsetsRequest:
    bench.request()
    bench.fetched(error_code=errors.OffsetOutOfRangeError.code)
    request = bench.request()
    assert isinstance(request, ListOffsetsRequest)
    return request


def test_behind_the_leaders_end_the_log_is_cut_there() -> None:
    bench = Bench(3, 3, 3)
    request = out_of_range(bench)
    assert (request.replica_id, request.topics[0].partitions[0].timestamp) == (1, LATEST)
    bench.listed(2)

    assert bench.log.log_end_offset == 2
    assert asked(bench.request()) == {0: (2, 3)}


def test_before_the_leaders_start_the_log_begins_anew_there() -> None:
    bench = Bench(3, 3)
    out_of_range(bench)
    bench.listed(50)
    assert bench.request().topics[0].partitions[0].timestamp == EARLIEST
    bench.listed(20)

    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.high_watermark) == (20, 20, 20)
    assert asked(bench.request()) == {0: (20, -1)}


def test_within_the_leaders_log_nothing_is_cut() -> None:
    bench = Bench(3, 3)
    out_of_range(bench)
    bench.listed(50)
    bench.request()
    bench.listed(0)

    # The leader has it in the session as it is.
    assert (bench.log.log_end_offset, bench.fetcher.fetch_offset(NAME)) == (2, 2)
    assert isinstance(bench.request(), FetchRequest)


def test_a_leader_that_does_not_answer_for_it_is_asked_again() -> None:
    bench = Bench(3, 3)
    out_of_range(bench)
    bench.listed(-1, errors.NotLeaderOrFollowerError.code)
    assert not isinstance(bench.request(), ListOffsetsRequest)
    bench.receive(FetchResponse())
    bench.now += BACKOFF

    assert isinstance(bench.request(), ListOffsetsRequest)
    assert bench.log.log_end_offset == 2


def test_an_empty_follower_takes_a_batch_in_which_the_leaders_log_begins() -> None:
    bench = Bench()
    bench.manager.truncation().truncate_fully_and_start_at(NAME, 7, NOW)
    bench.fetcher.remove_partition(NAME)
    bench.fetcher.add_partition(NAME, ID, EPOCH, NOW)
    bench.request()
    builder = RecordBatchBuilder(1 << 20)
    for at in range(5, 10):
        builder.try_append(NOW, None, b"%d" % at, [])
    data = bytearray(builder.close())
    assign_offsets(data, 0, 5, EPOCH)
    bench.fetched(records=bytes(data), high_watermark=10, log_start_offset=7)

    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.high_watermark) == (7, 10, 10)


# -- what fails --------------------------------------------------------------------------------------------------------


def test_a_lost_connection_delays_what_was_asked_and_begins_a_new_session() -> None:
    bench = Bench(3)
    bench.request()
    bench.fetcher.disconnected(bench.now)
    assert bench.request() is None
    assert bench.fetcher.next_deadline() == bench.now + BACKOFF
    bench.now += BACKOFF

    assert bench.request().session_epoch == 0


def test_a_failing_disk_is_tried_again_and_stops_no_other_partition() -> None:
    bench = Bench(names=(NAME, OTHER))
    disk = bench.manager.filesystem
    assert isinstance(disk, MemoryFileSystem)
    bench.request()
    disk.fail = lambda operation, path: OSError("broken") if operation == "write" and "t-0" in path else None
    bench.fetched(records=record(0), high_watermark=1, log_start_offset=0)
    disk.fail = None

    assert asked(bench.request()) == {}
    bench.fetched(OTHER, records=record(0), high_watermark=1, log_start_offset=0)
    assert bench.partitions[OTHER].log.log_end_offset == 1
    bench.now += BACKOFF
    assert 0 in asked(bench.request())
    bench.fetched(records=record(0), high_watermark=1, log_start_offset=0)
    assert bench.log.log_end_offset == 1


def test_a_truncation_that_the_disk_refuses_is_tried_again() -> None:
    bench = Bench(3, 3)
    disk = bench.manager.filesystem
    assert isinstance(disk, MemoryFileSystem)
    bench.log.flush()
    bench.manager._write_checkpoints(sync=True)
    bench.request()
    disk.fail = lambda operation, path: OSError("broken") if "recovery-point" in path else None
    bench.fetched(diverging_epoch=EpochEndOffset(epoch=3, end_offset=1), high_watermark=1, log_start_offset=0)
    disk.fail = None
    assert bench.log.log_end_offset == 2
    bench.now += BACKOFF
    bench.request()
    bench.fetched(diverging_epoch=EpochEndOffset(epoch=3, end_offset=1), high_watermark=1, log_start_offset=0)

    assert bench.log.log_end_offset == 1


def test_a_fault_in_one_partition_is_reported_and_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(names=(NAME, OTHER))
    told: list[tuple[str, str]] = []
    bench.fetcher.on_fault = lambda what, problem: told.append((what, str(problem)))
    bench.request()

    def fail(partition: Partition, size: int) -> None:
        if partition is bench.partitions[NAME]:
            raise RuntimeError("planted")

    monkeypatch.setattr(Partition, "followed", fail)

    bench.receive(
        FetchResponse(
            session_id=9,
            responses=[
                FetchableTopicResponse(
                    topic_id=ID,
                    partitions=[
                        PartitionData(partition_index=index, records=record(0), high_watermark=1) for index in (0, 1)
                    ],
                )
            ],
        )
    )

    assert told == [("copying t-0", "planted")]
    assert bench.log.is_offline
    assert bench.partitions[OTHER].log.log_end_offset == 1
    assert asked(bench.request()) == {1: (1, EPOCH)}
