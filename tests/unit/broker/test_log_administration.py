"""What a broker keeps and what it lets go: DeleteRecords, DescribeLogDirs, retention, compaction, settings."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import DATA, CoreBroker, CoreClient, batch, create, fetch, produce

OFFSETS = TopicPartition("__consumer_offsets", 0)


def keyed(now_ms: int, *pairs: tuple[bytes, bytes | None]) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    for key, value in pairs:
        builder.try_append(now_ms, key, value)
    return builder.close()


def send(client: CoreClient, *values: bytes, topic: str = "t") -> Any:
    data = batch(*values, now_ms=client.broker.now_ms)
    # A connection of its own: one that was idle for ten minutes is closed.
    return client.broker.connect().request(produce(topic, data), 12).responses[0].partition_responses[0]


def stored(client: CoreClient, offset: int = 0, topic: str = "t") -> dict[int, tuple[bytes | None, bytes | None]]:
    """What a consumer reads from an offset on: key and value by offset."""
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    start = offset
    while True:
        partition = client.broker.connect().request(fetch(topic, offset), 12).responses[0].partitions[0]
        assert partition.error_code == 0
        batches = list(read_batches(partition.records or b""))
        if not batches:
            return found
        found.update({r.offset: (r.key, r.value) for one in batches for r in one if r.offset >= start})
        offset = batches[-1].next_offset


def delete(client: CoreClient, offset: int, topic: str = "t", partition: int = 0, version: int = 2) -> Any:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1000)
    return client.request(request, version).topics[0].partitions[0]


def earliest(client: CoreClient, topic: str = "t") -> int:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])
    response = client.broker.connect().request(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
    offset: int = response.topics[0].partitions[0].offset
    return offset


def files(broker: CoreBroker, suffix: str, topic: str = "t") -> list[str]:
    return [
        entry.name for entry in broker.filesystem.list_directory(f"{DATA}/{topic}-0") if entry.name.endswith(suffix)
    ]


def configure(broker: CoreBroker, topic: str = "t", **configs: str) -> None:
    """Store other settings of a topic, as AlterConfigs does."""
    old = broker.state.metadata.topic(topic)
    named = {name.replace("_", "."): value for name, value in configs.items()}
    broker.state.metadata.put_topics([TopicMetadata(topic, old.id, old.partitions, named, old.created_ms)])


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])


class TestDeleteRecords:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_a_partition_starts_where_it_is_asked_to(self, client: CoreClient, version: int) -> None:
        client.request(create("t"), 7)
        for number in range(10):
            send(client, b"%d" % number)
        found = delete(client, 4, version=version)
        assert (found.error_code, found.low_watermark) == (0, 4)
        assert earliest(client) == 4
        assert list(stored(client, 4)) == [4, 5, 6, 7, 8, 9]
        before = client.request(fetch("t", 3), 12).responses[0].partitions[0]
        assert before.error_code == errors.OffsetOutOfRangeError.code

    def test_minus_one_means_everything(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, b"a", b"b", b"c")
        assert delete(client, -1).low_watermark == 3
        assert send(client, b"d").base_offset == 3
        assert list(stored(client, 3)) == [3]

    def test_the_start_never_moves_back(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, b"a", b"b", b"c")
        assert delete(client, 2).low_watermark == 2
        assert delete(client, 1).low_watermark == 2

    @pytest.mark.parametrize(
        ("topic", "partition", "offset", "error"),
        [
            ("t", 0, 4, errors.OffsetOutOfRangeError),
            ("t", 0, -2, errors.OffsetOutOfRangeError),
            ("t", 1, 0, errors.UnknownTopicOrPartitionError),
            ("other", 0, 0, errors.UnknownTopicOrPartitionError),
            ("compacted", 0, 0, errors.PolicyViolationError),
        ],
    )
    def test_what_cannot_be_deleted(
        self, client: CoreClient, topic: str, partition: int, offset: int, error: type[errors.ApiError]
    ) -> None:
        client.request(create("t"), 7)
        client.request(create("compacted", cleanup_policy="compact"), 7)
        send(client, b"a", b"b", b"c")
        found = delete(client, offset, topic, partition)
        assert (found.error_code, found.low_watermark) == (error.code, -1)
        assert len(stored(client)) == 3

    def test_internal_topics_are_refused(self, client: CoreClient) -> None:
        client.broker.state.topic_admin.ensure_internal("__consumer_offsets", 0)
        assert delete(client, 0, "__consumer_offsets").error_code == errors.InvalidTopicError.code

    def test_a_topic_of_both_policies_is_not(self, client: CoreClient) -> None:
        client.request(create("both", cleanup_policy="compact,delete"), 7)
        send(client, b"a", topic="both")
        assert delete(client, 1, "both").low_watermark == 1

    def test_the_files_of_deleted_records_go(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t", segment_bytes="1048576"), 7)
        configure(broker, segment_bytes="300")
        for _ in range(20):
            send(client, bytes(100))
        before = len(files(broker, ".log"))
        delete(client, 10)
        broker.advance(400)
        broker.advance(100)
        assert 1 < len(files(broker, ".log")) < before
        assert not files(broker, ".deleted")
        assert earliest(client) == 10

    def test_the_start_is_there_after_a_restart(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, b"a", b"b", b"c")
        delete(client, 2)
        broker = client.broker
        broker.stop()
        again = CoreBroker(broker.settings, broker.filesystem, broker.store)
        assert earliest(again.connect()) == 2

    def test_the_start_is_there_a_second_later_even_after_a_crash(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, b"a", b"b", b"c")
        delete(client, 2)
        client.broker.advance(1.5)
        assert earliest(client.broker.crashed().connect()) == 2

    @pytest.mark.shows("S3.11", breaks="barnabas.broker.handlers.delete_records:handle")
    def test_deletion_is_the_brokers_and_can_only_be_asked_for_by_an_admin(self, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, b"a", b"b")
        for _ in range(3):
            assert list(stored(client)) == [0, 1]
        assert delete(client, 1).low_watermark == 1
        assert list(stored(client, 1)) == [1]


class TestDescribeLogDirs:
    def test_every_partition_has_its_size(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t", 2), 7)
        client.request(create("u"), 7)
        data = batch(b"value")
        client.request(produce("t", data, partition=1), 12)
        (found,) = client.request(DescribeLogDirsRequest(topics=None), 4).results
        assert (found.error_code, found.log_dir) == (0, DATA)
        sizes = {topic.name: [p.partition_size for p in topic.partitions] for topic in found.topics}
        assert sizes == {"t": [0, len(data)], "u": [0]}
        assert all(p.offset_lag == 0 and not p.is_future_key for topic in found.topics for p in topic.partitions)

    def test_only_what_is_asked_for_and_there(self, client: CoreClient) -> None:
        client.request(create("t", 3), 7)
        asked = [
            DescribableLogDirTopic(topic="t", partitions=[2, 7]),
            DescribableLogDirTopic(topic="unknown", partitions=[0]),
        ]
        (found,) = client.request(DescribeLogDirsRequest(topics=asked), 4).results
        assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in found.topics] == [("t", [2])]

    @pytest.mark.parametrize("version", range(1, 6))
    def test_the_room_on_the_disk(self, version: int) -> None:
        from random import Random

        client = CoreBroker(filesystem=MemoryFileSystem(Random(1), capacity=1_000_000)).connect()
        client.request(create("t"), 7)
        send(client, bytes(10_000))
        (found,) = client.request(DescribeLogDirsRequest(topics=None), version).results
        if version < 4:
            assert (found.total_bytes, found.usable_bytes) == (-1, -1)
        else:
            assert found.total_bytes == 1_000_000
            assert 900_000 < found.usable_bytes < 990_000


class TestRetention:
    @pytest.mark.shows("S3.13", breaks="barnabas.broker.log.log_segment:LogSegment.should_roll")
    def test_segments_open_close_and_go_by_the_log_settings(self) -> None:
        broker = CoreBroker(
            {
                "log.segment.bytes": 1_048_576,
                "log.roll.ms": 60_000,
                "log.retention.ms": 600_000,
                "log.retention.check.interval.ms": 10_000,
                "log.segment.delete.delay.ms": 5_000,
            }
        )
        client = broker.connect()
        client.request(create("t"), 7)
        for _ in range(3):
            send(client, bytes(600_000))
        assert len(files(broker, ".log")) == 3  # closed by size
        broker.advance(61)
        send(client, b"later")
        assert len(files(broker, ".log")) == 4  # closed by time
        broker.advance(530)
        assert earliest(client) == 0
        broker.advance(20)
        assert earliest(client) == 3  # the old ones are out of use
        broker.advance(15)
        assert files(broker, ".log") == [f"{3:020d}.log"]  # and gone
        assert not files(broker, ".deleted")
        assert list(stored(client, 3)) == [3]

    def test_a_topic_keeps_no_more_than_its_bytes(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t", retention_bytes="5000000", segment_bytes="1048576"), 7)
        for _ in range(20):
            send(client, bytes(500_000))
        assert earliest(client) == 0
        broker.advance(400)
        size = client.request(DescribeLogDirsRequest(topics=None), 4).results[0].topics[0].partitions[0].partition_size
        assert 5_000_000 <= size < 7_000_000
        assert earliest(client) > 0

    @pytest.mark.shows("S3.30", breaks="barnabas.broker.log.log_retention:deletable_segments")
    def test_records_go_by_time_or_size_and_otherwise_never(self) -> None:
        broker = CoreBroker({"log.retention.check.interval.ms": 1000})
        client = broker.connect()
        client.request(create("by-time", retention_ms="100000", segment_bytes="1048576"), 7)
        client.request(create("by-size", retention_ms="-1", retention_bytes="1000", segment_bytes="1048576"), 7)
        client.request(create("for-ever", retention_ms="-1", segment_bytes="1048576"), 7)
        for topic in ("by-time", "by-size", "for-ever"):
            for _ in range(4):
                send(client, bytes(600_000), topic=topic)
        broker.advance(50)
        assert [earliest(client, topic) for topic in ("by-time", "by-size", "for-ever")] == [0, 3, 0]
        broker.advance(60)
        assert [earliest(client, topic) for topic in ("by-time", "by-size", "for-ever")] == [4, 3, 0]
        broker.advance(5000)
        assert earliest(client, "for-ever") == 0
        assert len(stored(client, topic="for-ever")) == 4


COMPACTED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "segment_ms": "1000",
    "delete_retention_ms": "60000",
}


class TestCompaction:
    def write(self, client: CoreClient, *pairs: tuple[bytes, bytes | None]) -> None:
        data = keyed(client.broker.now_ms, *pairs)
        assert client.request(produce("t", data), 12).responses[0].partition_responses[0].error_code == 0

    def roll(self, client: CoreClient) -> None:
        client.broker.advance(2)
        self.write(client, (b"last", b"%d" % client.broker.now_ms))

    @pytest.mark.shows("S3.14", breaks="barnabas.broker.log.offset_map:SkimpyOffsetMap.filter_records")
    def test_the_latest_value_of_each_key_stays(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t", **COMPACTED), 7)
        for number in range(30):
            self.write(client, (b"%d" % (number % 3), b"%d" % number))
        self.roll(client)
        assert len(stored(client)) == 31
        broker.advance(30)
        assert stored(client) | {30: (b"last", b"")} == {
            27: (b"0", b"27"),
            28: (b"1", b"28"),
            29: (b"2", b"29"),
            30: (b"last", b""),
        }
        assert earliest(client) == 0

    def test_a_tombstone_removes_its_key_and_then_itself(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t", **COMPACTED), 7)
        self.write(client, (b"a", b"1"), (b"b", b"2"), (b"a", None))
        self.roll(client)
        broker.advance(30)
        assert {1: (b"b", b"2"), 2: (b"a", None)}.items() <= stored(client).items()
        assert 0 not in stored(client)
        broker.advance(61)
        self.roll(client)
        broker.advance(30)
        assert [key for key, _ in stored(client).values()] == [b"b", b"last", b"last"]

    def test_the_policy_may_change_while_the_broker_runs(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t", segment_ms="1000"), 7)
        for number in range(10):
            self.write(client, (b"a", b"%d" % number))
        self.roll(client)
        broker.advance(30)
        assert len(stored(client)) == 11
        configure(broker, **COMPACTED)
        broker.advance(30)
        assert list(stored(client)) == [9, 10]

    def test_both_policies_hold_together(self) -> None:
        broker = CoreBroker({"log.retention.check.interval.ms": 10_000})
        client = broker.connect()
        client.request(create("t", **{**COMPACTED, "cleanup_policy": "compact,delete", "retention_ms": "300000"}), 7)
        for number in range(10):
            self.write(client, (b"%d" % (number % 2), b"%d" % number))
        self.roll(client)
        broker.advance(60)
        assert list(stored(client)) == [8, 9, 10]
        broker.advance(300)
        start = earliest(client)
        assert start == 11
        assert stored(client, start) == {}

    def test_nothing_is_cleaned_where_the_cleaner_is_off(self) -> None:
        broker = CoreBroker({"log.cleaner.enable": "false"})
        client = broker.connect()
        client.request(create("t", **COMPACTED), 7)
        for number in range(10):
            self.write(client, (b"a", b"%d" % number))
        self.roll(client)
        broker.advance(100)
        assert len(stored(client)) == 11

    def test_a_log_that_cannot_be_cleaned_is_reported_and_left(
        self, broker: CoreBroker, client: CoreClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        client.request(create("t", **COMPACTED), 7)
        for number in range(10):
            self.write(client, (b"a", b"%d" % number))
        self.roll(client)
        path = f"{DATA}/t-0/{0:020d}.log"
        broker.filesystem.inode(path).data[200] ^= 1
        broker.advance(60)
        (message,) = [record.message for record in caplog.records if "cannot be cleaned" in record.message]
        assert path in message
        assert [str(name) for name in broker.node.logs.cleaner.uncleanable] == ["t-0"]
        assert not files(broker, ".cleaned")

    def test_committed_offsets_are_compacted_and_loaded_again(self) -> None:
        broker = CoreBroker({"offsets.topic.num.partitions": 1, "log.cleaner.min.cleanable.ratio": "0.01"})
        client = broker.connect()
        client.request(create("t"), 7)
        for offset in range(500):
            assert client.request(commit(offset), 8).topics[0].partitions[0].error_code == 0
            if offset == 400:
                broker.node.logs.logs[OFFSETS].roll()
        size = broker.node.logs.logs[OFFSETS].size
        broker.advance(60)
        assert broker.node.logs.logs[OFFSETS].size < size / 2
        again = broker.crashed()
        again.advance(5)
        asked = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        response = again.connect().request(OffsetFetchRequest(groups=[asked]), 8)
        assert response.groups[0].topics[0].partitions[0].committed_offset == 499


class TestSettings:
    def test_a_smaller_limit_holds_for_the_next_batch(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t"), 7)
        assert send(client, bytes(2000)).error_code == 0
        configure(broker, max_message_bytes="1000")
        assert send(client, bytes(2000)).error_code == errors.RecordTooLargeError.code
        configure(broker)
        assert send(client, bytes(2000)).error_code == 0

    def test_retention_holds_for_what_is_there(self) -> None:
        broker = CoreBroker({"log.retention.check.interval.ms": 1000})
        client = broker.connect()
        client.request(create("t"), 7)
        send(client, b"a")
        broker.advance(100)
        assert earliest(client) == 0
        configure(broker, retention_ms="50000")
        broker.advance(2)
        assert earliest(client) == 1

    def test_segments_are_closed_by_the_new_size(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, bytes(5000))
        send(client, bytes(5000))
        assert len(files(broker, ".log")) == 1
        configure(broker, segment_bytes="6000")
        send(client, bytes(5000))
        assert len(files(broker, ".log")) == 2

    def test_a_broker_wide_default_holds_for_topics_without_a_value(
        self, broker: CoreBroker, client: CoreClient
    ) -> None:
        client.request(create("t"), 7)
        client.request(create("own", max_message_bytes="100000"), 7)
        send(client, b"a")
        send(client, b"a", topic="own")
        settings = {topic.name: topic.configs for topic in broker.state.metadata.topics()}
        broker.node.logs.update_defaults({"max.message.bytes": 1000}, settings.__getitem__)
        assert send(client, bytes(2000)).error_code == errors.RecordTooLargeError.code
        assert send(client, bytes(2000), topic="own").error_code == 0

    def test_a_default_that_is_not_allowed_changes_nothing(self, broker: CoreBroker, client: CoreClient) -> None:
        client.request(create("t"), 7)
        send(client, b"a")
        with pytest.raises(errors.ConfigError):
            broker.node.logs.update_defaults({"segment.bytes": 1}, lambda _topic: {})
        assert send(client, bytes(2000)).error_code == 0
        assert len(files(broker, ".log")) == 1
