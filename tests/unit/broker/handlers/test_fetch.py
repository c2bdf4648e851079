from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.records import read_batches
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, create, fetch, produce


@pytest.fixture
def client(broker: CoreBroker) -> CoreClient:
    client = broker.connect()
    client.request(create("t", 3), 7)
    return client


def append(client: CoreClient, *values: bytes, partition: int = 0) -> None:
    response = client.broker.connect().request(produce("t", batch(*values), partition), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


def only(response: Any) -> Any:
    """The one partition of a Fetch response."""
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def values(partition: Any) -> list[bytes | None]:
    return [record.value for found in read_batches(partition.records) for record in found]


class TestReading:
    def test_it_begins_with_the_batch_that_holds_the_offset(self, client: CoreClient) -> None:
        append(client, b"a", b"b")
        append(client, b"c")
        assert values(only(client.request(fetch("t", 1), 12))) == [b"a", b"b", b"c"]
        assert values(only(client.request(fetch("t", 2), 12))) == [b"c"]

    @pytest.mark.parametrize("offset", [-1, 2, 1000])
    def test_an_offset_outside_the_log_is_out_of_range(self, client: CoreClient, offset: int) -> None:
        append(client, b"a")
        partition = only(client.request(fetch("t", offset), 12))
        assert partition.error_code == errors.OffsetOutOfRangeError.code

    def test_the_first_batch_comes_whole_however_small_the_limits(self, client: CoreClient) -> None:
        append(client, b"a" * 5000)
        append(client, b"b" * 5000)
        request = fetch("t", 0, partition_max_bytes=10, max_bytes=10)
        assert values(only(client.request(request, 12))) == [b"a" * 5000]

    def test_a_batch_that_is_cut_by_the_limit_is_not_sent_but_counts_for_the_least_that_is_wanted(
        self, client: CoreClient
    ) -> None:
        for value in (b"a", b"b"):
            append(client, value * 600)
        limits = {"partition_max_bytes": 1000, "max_wait_ms": 10_000}
        partition = only(client.request(fetch("t", min_bytes=900, **limits), 12))
        assert values(partition) == [b"a" * 600]
        assert len(partition.records) < 900
        assert client.request(fetch("t", min_bytes=1001, **limits), 12) is None

    def test_after_the_first_partition_with_records_the_limits_hold(self, client: CoreClient) -> None:
        for partition in range(3):
            append(client, b"x" * 1000, partition=partition)
        request = fetch("t", max_bytes=1500)
        request.topics[0].partitions = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(3)
        ]
        found = client.request(request, 12).responses[0].partitions
        assert values(found[0]) == [b"x" * 1000]
        assert sum(len(partition.records) for partition in found[1:]) <= 500

    def test_a_leader_epoch_that_is_not_current_is_refused(self, client: CoreClient) -> None:
        request = fetch("t")
        request.topics[0].partitions[0].current_leader_epoch = 5
        assert only(client.request(request, 12)).error_code == errors.UnknownLeaderEpochError.code
        request.topics[0].partitions[0].current_leader_epoch = 0
        assert only(client.request(request, 12)).error_code == 0

    def test_a_reader_whose_history_is_not_ours_is_told_where_it_diverges(self, client: CoreClient) -> None:
        append(client, b"a")
        request = fetch("t", 1)
        request.topics[0].partitions[0].last_fetched_epoch = 0
        assert only(client.request(request, 12)).diverging_epoch.end_offset == -1
        request.topics[0].partitions[0].fetch_offset = 5
        diverging = only(client.request(request, 12)).diverging_epoch
        assert (diverging.epoch, diverging.end_offset) == (0, 1)

    def test_unknown_topics_and_ids_have_their_own_errors(self, client: CoreClient) -> None:
        assert only(client.request(fetch("missing"), 12)).error_code == errors.UnknownTopicOrPartitionError.code
        by_id = fetch("", topic_id=b"x" * 16)
        assert only(client.request(by_id, 13)).error_code == errors.UnknownTopicIdError.code


class TestWaiting:
    def test_it_waits_for_max_wait_ms_when_there_is_nothing(self, client: CoreClient) -> None:
        assert client.request(fetch("t", max_wait_ms=500), 12) is None
        client.broker.advance(0.499)
        assert len(client.responses) == 1
        client.broker.advance(0.001)
        assert values(only(client.responses[1])) == []

    def test_records_end_the_wait(self, client: CoreClient) -> None:
        assert client.request(fetch("t", max_wait_ms=500), 12) is None
        append(client, b"a")
        assert values(only(client.responses[1])) == [b"a"]
        assert client.broker.state.purgatory.parked == 0

    def test_it_waits_until_min_bytes_have_come(self, client: CoreClient) -> None:
        size = len(batch(b"a" * 100))
        assert client.request(fetch("t", max_wait_ms=500, min_bytes=3 * size), 12) is None
        append(client, b"a" * 100)
        append(client, b"a" * 100)
        assert len(client.responses) == 1
        append(client, b"a" * 100)
        assert len(values(only(client.responses[1]))) == 3

    def test_what_was_there_before_counts_for_min_bytes(self, client: CoreClient) -> None:
        size = len(batch(b"a" * 100))
        append(client, b"a" * 100)
        assert client.request(fetch("t", max_wait_ms=500, min_bytes=2 * size), 12) is None
        append(client, b"a" * 100)
        assert len(values(only(client.responses[1]))) == 2

    def test_min_bytes_above_max_bytes_means_max_bytes(self, client: CoreClient) -> None:
        append(client, b"a" * 1000)
        assert client.request(fetch("t", max_wait_ms=500, min_bytes=1 << 20, max_bytes=1000), 12) is not None

    def test_an_error_is_answered_at_once(self, client: CoreClient) -> None:
        assert client.request(fetch("missing", max_wait_ms=500), 12) is not None

    def test_records_of_other_partitions_do_not_end_the_wait(self, client: CoreClient) -> None:
        client.request(fetch("t", max_wait_ms=500), 12)
        append(client, b"a", partition=1)
        assert len(client.responses) == 1

    def test_a_deleted_topic_ends_the_wait(self, client: CoreClient) -> None:
        client.request(fetch("t", max_wait_ms=500), 12)
        client.broker.connect().request(DeleteTopicsRequest(topic_names=["t"]), 5)
        assert only(client.responses[1]).error_code == errors.UnknownTopicOrPartitionError.code

    def test_the_next_request_of_the_connection_waits_too(self, client: CoreClient) -> None:
        client.send(fetch("t", max_wait_ms=500), 12)
        client.send(fetch("t", partition=1), 12)
        assert len(client.responses) == 1
        client.broker.advance(0.5)
        assert [only(response).partition_index for response in client.responses[1:]] == [0, 1]

    def test_a_lost_connection_is_forgotten(self, client: CoreClient) -> None:
        client.request(fetch("t", max_wait_ms=500_000), 12)
        client.lose()
        assert client.broker.state.purgatory.parked == 0
        append(client, b"a")
        assert len(client.responses) == 1

    def test_a_wait_is_not_woken_by_every_small_append(
        self, client: CoreClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.request(fetch("t", max_wait_ms=500, min_bytes=1 << 20), 12)
        reads = []
        monkeypatch.setattr("barnabas.broker.delayed_fetch._read", lambda *args, **kwargs: reads.append(args))
        for _ in range(100):
            append(client, b"a")
        assert reads == []


class TestSessions:
    """KIP-227."""

    def start(self, client: CoreClient, partitions: int = 3) -> Any:
        request = fetch("t", session_epoch=0)
        request.topics[0].partitions = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
            for number in range(partitions)
        ]
        return client.request(request, 12)

    def go_on(self, client: CoreClient, session_id: int, epoch: int, **fields: Any) -> Any:
        return client.request(FetchRequest(session_id=session_id, session_epoch=epoch, **fields), 12)

    def asked(self, partition: int, offset: int) -> list[FetchTopic]:
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        return [FetchTopic(topic="t", partitions=[part])]

    def test_the_first_answer_has_every_partition_and_the_next_only_what_changed(self, client: CoreClient) -> None:
        first = self.start(client)
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 3
        append(client, b"a", partition=1)
        second = self.go_on(client, first.session_id, 1)
        assert only(second).partition_index == 1
        third = self.go_on(client, first.session_id, 2, topics=self.asked(1, 1))
        assert third.responses == []

    def test_a_moved_watermark_is_told_even_without_records(self, client: CoreClient) -> None:
        first = self.start(client, 1)
        append(client, b"a")
        moved = self.go_on(client, first.session_id, 1, topics=self.asked(0, 1))
        assert (only(moved).high_watermark, len(only(moved).records)) == (1, 0)

    def test_a_partition_can_be_added_and_forgotten(self, client: CoreClient) -> None:
        first = self.start(client, 1)
        added = self.go_on(client, first.session_id, 1, topics=self.asked(2, 0))
        assert only(added).partition_index == 2
        append(client, b"a", partition=0)
        forgotten = [ForgottenTopic(topic="t", partitions=[0])]
        assert self.go_on(client, first.session_id, 2, forgotten_topics_data=forgotten).responses == []

    def test_a_wrong_epoch_and_an_unknown_session_are_errors(self, client: CoreClient) -> None:
        first = self.start(client)
        wrong = self.go_on(client, first.session_id, 5)
        assert wrong.error_code == errors.InvalidFetchSessionEpochError.code
        unknown = self.go_on(client, first.session_id ^ 1, 1)
        assert unknown.error_code == errors.FetchSessionIdNotFoundError.code

    def test_a_session_cannot_go_over_to_topic_ids(self, client: CoreClient) -> None:
        first = self.start(client)
        response = client.request(FetchRequest(session_id=first.session_id, session_epoch=1), 13)
        assert response.error_code == errors.FetchSessionTopicIdError.code

    def test_epoch_minus_1_ends_the_session(self, client: CoreClient) -> None:
        first = self.start(client)
        last = self.go_on(client, first.session_id, -1, topics=self.asked(0, 0))
        assert last.session_id == 0
        again = self.go_on(client, first.session_id, 1)
        assert again.error_code == errors.FetchSessionIdNotFoundError.code

    def test_a_full_request_replaces_its_old_session(self, client: CoreClient) -> None:
        first = self.start(client)
        request = fetch("t", session_epoch=0, session_id=first.session_id)
        second = client.request(request, 12)
        assert second.session_id not in (0, first.session_id)
        assert len(client.broker.state.fetch_sessions) == 1

    def test_an_error_is_told_in_every_answer(self, client: CoreClient) -> None:
        first = self.start(client, 1)
        self.go_on(client, first.session_id, 1, topics=self.asked(0, 77))
        again = self.go_on(client, first.session_id, 2)
        assert only(again).error_code == errors.OffsetOutOfRangeError.code

    def test_partitions_take_turns_when_the_answer_is_too_small_for_all(self, client: CoreClient) -> None:
        first = self.start(client)
        for partition in range(3):
            append(client, b"x" * 1000, partition=partition)
        seen = []
        for epoch in range(1, 4):
            answer = self.go_on(client, first.session_id, epoch, max_bytes=100)
            seen += [p.partition_index for t in answer.responses for p in t.partitions if len(p.records)]
        assert sorted(seen) == [0, 1, 2]

    def test_a_full_cache_gives_no_session_until_one_is_old(self) -> None:
        client = CoreBroker({"max.incremental.fetch.session.cache.slots": 2}).connect()
        client.request(create("t", 3), 7)
        sessions = [self.start(client).session_id for _ in range(3)]
        assert sessions[0]
        assert sessions[1]
        assert sessions[2] == 0
        client.broker.advance(121)
        assert self.go_on(client, sessions[1], 1).error_code == 0
        assert self.start(client).session_id > 0
        assert self.go_on(client, sessions[1], 2).error_code == 0
        assert self.go_on(client, sessions[0], 1).error_code == errors.FetchSessionIdNotFoundError.code


class TestListOffsets:
    def look_up(self, client: CoreClient, timestamp: int, version: int = 10, **fields: Any) -> Any:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        return client.request(request, version).topics[0].partitions[0]

    def test_a_time_is_found_in_the_first_record_that_is_not_before_it(self, client: CoreClient) -> None:
        for seconds in (10, 20, 30):
            client.request(produce("t", batch(b"v", now_ms=START_MS + seconds)), 12)
        found = self.look_up(client, START_MS + 15)
        assert (found.offset, found.timestamp, found.leader_epoch) == (1, START_MS + 20, 0)
        assert self.look_up(client, START_MS + 31).offset == -1

    def test_special_timestamps(self, client: CoreClient) -> None:
        for seconds in (10, 30, 20):
            client.request(produce("t", batch(b"v", now_ms=START_MS + seconds)), 12)
        assert self.look_up(client, -1).offset == 3
        assert self.look_up(client, -2).offset == 0
        assert (self.look_up(client, -3).offset, self.look_up(client, -3).timestamp) == (1, START_MS + 30)
        assert self.look_up(client, -4).offset == 0
        assert self.look_up(client, -5).offset == -1

    @pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10)])
    def test_a_special_timestamp_that_the_version_lacks_is_refused(
        self, client: CoreClient, timestamp: int, version: int
    ) -> None:
        assert self.look_up(client, timestamp, version).error_code == errors.UnsupportedVersionError.code

    def test_an_empty_partition(self, client: CoreClient) -> None:
        assert self.look_up(client, -1).offset == 0
        assert self.look_up(client, -2).offset == 0
        assert self.look_up(client, -3).offset == -1
        assert self.look_up(client, START_MS).offset == -1

    def test_a_partition_may_stand_in_the_request_once(self, client: CoreClient) -> None:
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked, asked])])
        found = client.request(request, 10).topics[0].partitions
        assert {partition.error_code for partition in found} == {errors.InvalidRequestError.code}


def test_a_fetch_that_waits_at_records_which_are_deleted_is_answered(client: CoreClient) -> None:
    append(client, b"a")
    waiting = client.broker.connect()
    assert waiting.request(fetch("t", 0, max_wait_ms=60_000, min_bytes=10_000), 12) is None

    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    client.request(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])]), 2)

    assert only(waiting.responses[-1]).error_code == errors.OffsetOutOfRangeError.code
