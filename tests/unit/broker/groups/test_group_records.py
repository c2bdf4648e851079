"""`__consumer_offsets`: what is written, where, and that a coordinator comes back from it as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import errors
from barnabas.broker.coordinator.partition_storage import BatchStorage, StoredRecord
from barnabas.broker.groups import coordinator_records as records
from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.protocol.coordinator_partition import java_hash_code, partition_for
from tests.unit.broker.groups.harness import GROUP, Harness, MemoryStorage, code

LOADING = code(errors.CoordinatorLoadInProgressError)

#: From Apache Kafka 4.3.1: Utils.abs(group.hashCode()) % 50.
PARTITIONS = [
    ("", 0),
    ("a", 47),
    ("my-group", 12),
    ("주문-서비스", 19),
    ("connect-cluster-1", 25),
    (
        "x" * 200,
        40,
    ),
]


@pytest.mark.parametrize(("group_id", "partition"), PARTITIONS)
def test_a_group_is_in_the_partition_that_kafka_puts_it_in(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


def test_javas_smallest_hash_code_does_not_give_a_negative_partition() -> None:
    # "polygenelubricants".hashCode() is Integer.MIN_VALUE, which Math.abs leaves negative.
    assert java_hash_code("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0


def test_the_bytes_of_an_offset_commit_are_kafkas() -> None:
    offset = OffsetAndMetadata(300, 7, "m", 1_700_000_000_000)

    key, value = records.offset_commit_record("grp", "top", 2, offset)

    assert key.hex() == "0001" + "0003" + b"grp".hex() + "0003" + b"top".hex() + "00000002"
    # Version 4 is flexible: compact string, tagged fields; no topic id, so no tag.
    assert value.hex() == "0004" + f"{300:016x}" + "00000007" + "02" + b"m".hex() + f"{1_700_000_000_000:016x}" + "00"


def test_an_offset_commit_with_a_topic_id_carries_it_as_tag_0() -> None:
    offset = OffsetAndMetadata(0, -1, "", 0, topic_id=b"0123456789abcdef")

    _, value = records.offset_commit_record("g", "t", 0, offset)

    assert value.endswith(b"\x01\x00\x10" + b"0123456789abcdef")
    assert records.decode_offset_commit_value(value, -1) == offset


def test_an_offset_commit_with_its_own_expiry_is_written_in_version_1() -> None:
    offset = OffsetAndMetadata(300, -1, "m", 1000, expire_timestamp_ms=2000)

    _, value = records.offset_commit_record("g", "t", 0, offset)

    assert value.hex() == "0001" + f"{300:016x}" + "0001" + b"m".hex() + f"{1000:016x}" + f"{2000:016x}"
    assert records.decode_offset_commit_value(value, -1) == offset


def test_the_bytes_of_a_group_are_kafkas() -> None:
    harness = Harness()
    member = harness.stable(None)[0]

    key, value = [(record.key, record.value) for record in harness.storage.records][-1]

    def string(text: str | bytes) -> str:
        data = text.encode() if isinstance(text, str) else text
        return f"{len(data):04x}{data.hex()}"

    def data(content: bytes) -> str:
        return f"{len(content):08x}{content.hex()}"

    assert key.hex() == "0002" + string(GROUP)
    assert value.hex() == (
        "0003" + string("consumer") + "00000001" + string("range") + string(member.id) + f"{harness.now_ms:016x}"
        "00000001"
        + string(member.id)
        + "ffff"
        + string("client")
        + string("/127.0.0.1")
        + f"{60_000:08x}"
        + f"{10_000:08x}"
        + data(b"meta")
        + data(member.id.encode())
    )


def written(harness: Harness) -> list[tuple[str, int, list[str]]]:
    """What the log says about the group: state as a record shows it, generation, members."""
    said = []
    for record in harness.storage.records:
        if records.record_type(record.key) == records.GROUP_METADATA:
            if record.value is None:
                said.append(("tombstone", 0, []))
            else:
                group = records.decode_group_metadata_value(GROUP, record.value)
                said.append((group.state, group.generation_id, list(group.members)))
    return said


def test_a_group_is_written_when_it_is_made_stabilised_and_emptied_and_not_in_between() -> None:
    harness = Harness()
    first = harness.join_dynamic().response.member_id
    harness.heartbeat(first, 1)
    harness.sync(first, 1)
    second = harness.join_dynamic()
    harness.join(first)
    harness.sync(second.response.member_id, 2)
    harness.sync(first, 2)
    harness.leave(first, second.response.member_id)
    harness.coordinator.delete_group(GROUP, harness.at)

    assert written(harness) == [
        ("Empty", 0, []),
        ("Stable", 1, [first]),
        ("Stable", 2, [first, second.response.member_id]),
        ("Empty", 3, []),
        ("tombstone", 0, []),
    ]


def test_nobody_is_told_an_assignment_that_could_not_be_written() -> None:
    harness = Harness(group_initial_rebalance_delay_ms=3000)
    joins = [harness.join(version=3) for _ in range(2)]
    harness.advance(6.0)
    leader, follower = [join.response.member_id for join in joins]
    parked = harness.sync(follower, 1)
    harness.storage.failure = errors.NotEnoughReplicasError()

    refused = harness.sync(leader, 1, {leader: b"x"})

    assert refused.error == parked.error == code(errors.CoordinatorNotAvailableError)
    assert harness.state() == "PreparingRebalance"


def test_a_group_that_could_not_be_written_does_not_exist() -> None:
    harness = Harness()
    harness.storage.failure = errors.KafkaStorageError()

    assert harness.join().error == code(errors.NotCoordinatorError)
    assert harness.state() == "Dead"


def test_a_group_that_is_empty_now_is_so_even_if_that_could_not_be_written() -> None:
    harness = Harness()
    member = harness.stable(None)[0]
    harness.storage.failure = errors.KafkaStorageError("disk full")

    harness.leave(member.id)

    assert harness.state() == "Empty"
    assert "disk full" in harness.warnings[0]


# --- loading


def test_after_a_restart_members_go_on_as_if_nothing_had_happened() -> None:
    harness = Harness()
    leader, follower = harness.stable(None, None)
    harness.commit({("t", 0): 5}, follower.id, follower.generation)

    harness.restart()

    assert harness.state() == "Stable"
    assert harness.heartbeat(follower.id, follower.generation) == 0
    assert harness.sync(follower.id, follower.generation).response.assignment == follower.id.encode()
    assert harness.fetch() == {("t", 0): 5}
    assert harness.join(follower.id).response.leader == leader.id


def test_after_a_restart_members_that_stay_silent_are_dropped() -> None:
    harness = Harness()
    harness.stable(None, None)
    harness.restart()

    harness.advance(10.0)

    assert harness.state() == "Empty"


def test_until_its_partition_is_loaded_a_group_answers_that_it_is_loading() -> None:
    harness = Harness()
    member = harness.stable(None)[0]
    harness.restart(wait_until_loaded=False)

    assert harness.join().error == LOADING
    assert harness.sync(member.id, 1).error == LOADING
    assert harness.heartbeat(member.id, 1) == 0, "the member is taken at its word"
    assert harness.commit({("t", 0): 1}, member.id, 1) == LOADING
    assert harness.coordinator.loading
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        harness.leave(member.id)
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        harness.coordinator.list_groups([], [])
    assert harness.commit({("t", 0): 1}, group="a") == {("t", 0): 0}, "its partition has nothing to load"


def test_loading_goes_in_pieces_between_which_requests_are_answered() -> None:
    harness = Harness()
    for number in range(5000):
        harness.commit({("t", 0): number})
    harness.restart(wait_until_loaded=False)

    steps = 0
    while harness.coordinator.loading:
        assert harness.coordinator.next_deadline() <= harness.now
        harness.coordinator.tick(harness.at)
        steps += 1

    assert steps >= 2
    assert harness.fetch() == {("t", 0): 4999}


def test_a_compacted_log_says_the_same_as_the_whole() -> None:
    harness = Harness()
    members = harness.stable("a", "b")
    for number in range(20):
        harness.commit({("t", number % 3): number}, members[0].id, members[0].generation, instance="a")
    harness.commit({("t", 0): 1}, group="gone")
    harness.coordinator.delete_group("gone", harness.at)
    harness.restart()
    before = (harness.fetch(), harness.member_ids(), harness.state(), harness.state("gone"))

    harness.storage.compact()
    harness.restart()

    assert (harness.fetch(), harness.member_ids(), harness.state(), harness.state("gone")) == before
    assert len(harness.storage.records) < 10


def test_a_group_deleted_and_made_again_has_no_offsets_of_its_former_life() -> None:
    harness = Harness()
    harness.commit({("t", 0): 1, ("t", 1): 2})
    harness.coordinator.delete_group(GROUP, harness.at)
    harness.commit({("t", 1): 9})
    harness.restart()

    assert harness.fetch() == {("t", 1): 9}


def test_records_of_unknown_types_are_left_alone_and_said_once() -> None:
    harness = Harness()
    harness.commit({("t", 0): 1})
    partition = harness.coordinator.partition_for(GROUP)
    for _ in range(3):
        harness.storage.append_stored(partition, b"\x00\x63key", b"value")

    harness.restart()

    assert harness.fetch() == {("t", 0): 1}
    assert len(harness.warnings) == 1
    assert "type 99" in harness.warnings[0]


@pytest.mark.parametrize("damage", ["key", "value", "read"])
def test_a_partition_that_cannot_be_read_is_said_and_not_served_in_part(damage: str) -> None:
    harness = Harness()
    harness.commit({("t", 0): 1})
    harness.commit({("t", 0): 1}, group="a")
    partition = harness.coordinator.partition_for(GROUP)
    key, value = records.offset_commit_record(GROUP, "t", 1, OffsetAndMetadata(1, -1, "", 0))
    harness.storage.append_stored(partition, key[:5] if damage == "key" else key, value[:4])
    if damage == "read":
        harness.storage = Unreadable(harness.storage, partition)

    harness.restart()

    assert harness.join().error == code(errors.NotCoordinatorError)
    assert harness.coordinator.fetch_offsets.__self__ is harness.coordinator
    assert f"__consumer_offsets-{partition} failed" in harness.warnings[0]
    assert harness.fetch(group="a") == {("t", 0): 1}
    assert [group.group_id for group in harness.coordinator.list_groups([], [])] == ["a"]


class Unreadable:
    """Storage of which one partition cannot be read."""

    def __init__(self, storage: MemoryStorage, partition: int) -> None:
        self._storage = storage
        self._partition = partition

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        if partition == self._partition:
            raise errors.CorruptRecordError("the checksum is wrong")
        return self._storage.read(partition, offset)


def test_members_of_old_records_without_a_rebalance_timeout_wait_their_session_timeout() -> None:
    # GroupMetadataValue version 0, as Kafka 0.9 wrote it.
    def string(text: str) -> bytes:
        return len(text).to_bytes(2, "big") + text.encode()

    member = string("m") + string("c") + string("/h") + (30_000).to_bytes(4, "big") + b"\0\0\0\1s\0\0\0\1a"
    value = b"\0\0" + string("consumer") + b"\0\0\0\5" + string("range") + string("m") + b"\0\0\0\1" + member

    group = records.decode_group_metadata_value(GROUP, value)

    assert (group.generation_id, group.leader_id, group.state_timestamp_ms) == (5, "m", -1)
    assert group.members["m"].rebalance_timeout_ms == 30_000


# --- batches


class Batches:
    """The topic as the broker has it: whole batches per partition."""

    name = "__consumer_offsets"
    partition_count = 50

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, bytes]]] = {}
        self.ensured = 0

    def ensure(self, now_ms: int) -> None:
        self.ensured += 1

    def append_batch(self, partition: int, batch: bytes | bytearray, now_ms: int) -> int:
        base = self.end_offset(partition)
        self.batches.setdefault(partition, []).append((base, base.to_bytes(8, "big") + bytes(batch)[8:]))
        return base

    def read_batches(self, partition: int, offset: int, max_bytes: int = 1 << 20) -> bytes:
        found = [batch for base, batch in self.batches.get(partition, []) if base + _count(batch) > offset]
        return found[0] if found else b""

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        return False

    def end_offset(self, partition: int) -> int:
        last = self.batches.get(partition, [])[-1:]
        return sum(base + _count(batch) for base, batch in last)

    def may_hold_records(self, partition: int) -> bool:
        return bool(self.batches.get(partition))


def _count(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_records_come_back_from_batches_as_they_were_written(codec: int) -> None:
    topic = Batches()
    storage = BatchStorage(topic, codec)
    harness = Harness(storage)
    members = harness.stable("a", None)
    harness.commit({("t", 0): 1, ("t", 1): 2}, members[0].id, members[0].generation)
    harness.commit({("t", 1): 3}, members[0].id, members[0].generation)

    harness.restart()

    assert harness.fetch() == {("t", 0): 1, ("t", 1): 3}
    assert harness.member_ids() == [members[1].id, members[0].id] or harness.member_ids() == [m.id for m in members]
    assert topic.ensured >= 1
    (log,) = topic.batches.values()
    assert _count(log[-2][1]) == 2, "one request, one batch"


def test_a_request_that_does_not_fit_into_a_batch_is_refused_whole() -> None:
    topic = Batches()
    harness = Harness(BatchStorage(topic), offset_metadata_max_bytes=1 << 20)
    offsets = {("t", number): number for number in range(50)}

    assert harness.commit(offsets, metadata="x" * 30_000) == code(errors.RecordTooLargeError)
    assert topic.batches == {}
    assert harness.fetch() == {}


def test_transaction_markers_are_told_from_records() -> None:
    from barnabas.records import RecordBatchBuilder

    topic = Batches()
    storage = BatchStorage(topic)
    key, value = records.offset_commit_record(GROUP, "t", 0, OffsetAndMetadata(4, -1, "", 0))
    builder = RecordBatchBuilder(1 << 16)
    builder.try_append(0, key, value, ())
    builder.set_producer_state(9, 0, 0, transactional=True)
    topic.append_batch(3, builder.close(), 0)

    (record,) = storage.read(3, 0)[0]

    assert (record.offset, record.key, record.value, record.producer_id) == (0, key, value, 9)
    assert record.ends_transaction is None
