"""After a crash clients are answered at once; logs are recovered when they are asked for, and else step by step."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.log_opener import OPEN_BYTES
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
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

RECOVERING = errors.NotLeaderOrFollowerError.code
LARGE = 700_000


def fill(broker: CoreBroker, topic: str, megabytes: int) -> None:
    client = broker.connect()
    client.request(create(topic), 7)
    for _ in range(megabytes * 1_000_000 // LARGE + 1):
        client.request(produce(topic, batch(bytes(LARGE))), 12)


def end_offset(client: CoreClient, topic: str) -> tuple[int, int]:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    found = client.request(ListOffsetsRequest(replica_id=-1, topics=[asked]), 5).topics[0].partitions[0]
    return found.error_code, found.offset


def commit(client: CoreClient, group: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="small", partitions=[partition])
    answer = client.request(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def committed(client: CoreClient, group: str) -> tuple[int, int]:
    asked = OffsetFetchRequestTopic(name="small", partition_indexes=[0])
    answer = client.request(OffsetFetchRequest(group_id=group, topics=[asked]), 5)
    return answer.error_code, answer.topics[0].partitions[0].committed_offset if answer.topics else -1


def batch_of_unknown_records() -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(0, b"\x7f\xff", bytes(LARGE))
    return bytes(builder.close())


@pytest.fixture
def crashed() -> CoreBroker:
    """A broker after a crash: one small topic, and one that takes several steps to recover."""
    broker = CoreBroker()
    fill(broker, "large", 5 * OPEN_BYTES // 1_000_000)
    fill(broker, "small", 0)
    return broker.crashed()


def test_a_small_log_is_served_at_once_while_a_large_one_waits(crashed: CoreBroker) -> None:
    client = crashed.connect()

    assert client.request(produce("large", batch(b"too early")), 12).responses[0].partition_responses[0].error_code == (
        RECOVERING
    )
    assert client.request(fetch("large"), 12).responses[0].partitions[0].error_code == RECOVERING
    assert client.request(produce("small", batch(b"new")), 12).responses[0].partition_responses[0].base_offset == 1


def test_whoever_asks_again_brings_the_recovery_forward(crashed: CoreBroker) -> None:
    client = crashed.connect()

    answers = [end_offset(client, "large") for _ in range(8)]

    expected = 5 * OPEN_BYTES // 1_000_000 * 1_000_000 // LARGE + 1
    assert [code for code, _ in answers] == [RECOVERING] * 5 + [0] * 3
    assert {offset for code, offset in answers if not code} == {expected}


def test_what_nobody_asks_for_is_opened_by_and_by(crashed: CoreBroker) -> None:
    assert not crashed.node.logs.logs
    crashed.advance(1)
    assert {name.topic for name in crashed.node.logs.logs} == {"large", "small"}
    assert not crashed.node.logs.unopened


def test_a_second_crash_in_mid_recovery_loses_nothing(crashed: CoreBroker) -> None:
    assert end_offset(crashed.connect(), "large")[0] == RECOVERING
    again = crashed.crashed()
    again.advance(1)
    found = again.connect().request(fetch("large", max_bytes=1 << 30, partition_max_bytes=1 << 30), 12)
    records = [record for one in read_batches(found.responses[0].partitions[0].records) for record in one]
    assert len(records) == end_offset(again.connect(), "large")[1]


def test_a_shutdown_in_mid_recovery_counts_as_no_clean_one(crashed: CoreBroker) -> None:
    assert end_offset(crashed.connect(), "large")[0] == RECOVERING
    crashed.stop()
    again = CoreBroker(crashed.settings, crashed.filesystem, crashed.store)
    assert not again.node.logs.had_clean_shutdown
    again.advance(1)
    assert end_offset(again.connect(), "large")[1] > 0


def test_a_shutdown_before_a_closed_log_was_opened_leaves_it_closed() -> None:
    broker = CoreBroker()
    fill(broker, "small", 0)
    broker.stop()
    unused = CoreBroker(broker.settings, broker.filesystem, broker.store)
    unused.stop()
    again = CoreBroker(broker.settings, broker.filesystem, broker.store)
    assert again.node.logs.had_clean_shutdown
    assert end_offset(again.connect(), "small") == (0, 1)


def test_a_topic_can_be_deleted_while_its_log_recovers(crashed: CoreBroker) -> None:
    assert end_offset(crashed.connect(), "large")[0] == RECOVERING
    crashed.state.metadata.delete_topics(["large"])
    crashed.advance(120)
    assert not crashed.filesystem.exists("/data/large-0")
    assert not [entry for entry in crashed.filesystem.list_directory("/data") if entry.name.startswith("large")]
    crashed.connect().request(create("large"), 7)
    assert end_offset(crashed.connect(), "large") == (0, 0)


def test_groups_say_that_they_are_loading_while_their_log_recovers() -> None:
    broker = CoreBroker({"offsets.topic.num.partitions": "1"})
    fill(broker, "small", 0)
    client = broker.connect()
    assert commit(client, "g", 7) == 0
    name = next(name for name in broker.node.logs.logs if name.topic == "__consumer_offsets")
    for _ in range(3 * OPEN_BYTES // LARGE):
        # Records that are of no consequence, but have to be read.
        partition = broker.state.replica_manager.partition(*name)
        broker.state.replica_manager.append(partition, batch_of_unknown_records(), broker.now_ms, COORDINATOR)

    after = broker.crashed()
    client = after.connect()

    answers = [committed(client, "g") for _ in range(2)]
    assert {code for code, _ in answers} == {errors.CoordinatorLoadInProgressError.code}
    after.advance(2)
    assert committed(client, "g") == (0, 7)


def test_a_log_that_cannot_be_opened_costs_only_its_own_clients(
    crashed: CoreBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class_ = type(crashed.filesystem)
    list_directory = class_.list_directory

    def refuse(self: Any, path: str) -> Any:
        if path.endswith("large-0"):
            raise PermissionError(13, "Permission denied", path)
        return list_directory(self, path)

    monkeypatch.setattr(class_, "list_directory", refuse)
    with caplog.at_level(logging.ERROR):
        crashed.advance(1)
    client = crashed.connect()

    assert "large-0 cannot be opened and is not served" in caplog.text
    assert end_offset(client, "large")[0] == errors.KafkaStorageError.code
    assert end_offset(client, "small") == (0, 1)
    crashed.stop()

    monkeypatch.undo()
    mended = CoreBroker(crashed.settings, crashed.filesystem, crashed.store)
    mended.advance(1)
    assert end_offset(mended.connect(), "large")[0] == 0
    assert end_offset(mended.connect(), "large")[1] > 0
