"""The records of consumer groups in `__consumer_offsets`, as Apache Kafka writes them, and the way back."""

from __future__ import annotations

from barnabas.protocol import json_view
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import GROUP, MemoryStorage

NAMES = {
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
}


def written(harness: ConsumerHarness, since: int = 0) -> list[tuple[str, dict, dict | None]]:
    """The records as names, keys and values; None is a tombstone."""
    found = []
    for record in harness.storage.records[since:]:
        name = NAMES[int.from_bytes(record.key[:2], "big")]
        key = json_view.from_bytes(f"{name}Key", 0, record.key[2:])
        value = None
        if record.value is not None:
            assert record.value[:2] == b"\0\0"
            value = json_view.from_bytes(f"{name}Value", 0, record.value[2:])
        found.append((name, key, value))
    return found


def test_joining_writes_member_epoch_target_and_current_assignment_in_one_batch() -> None:
    harness = ConsumerHarness()

    Consumer(harness, "a", rack="r", instance="i", assignor="range").join()

    records = written(harness)
    assert [name for name, _, _ in records] == [NAMES[number] for number in (5, 3, 7, 6, 8)]
    assert [key for _, key, _ in records] == [
        {"groupId": GROUP, **({"memberId": "a"} if name not in (NAMES[3], NAMES[6]) else {})} for name, _, _ in records
    ]
    member, epoch, target, target_epoch, current = (value for _, _, value in records)
    assert member is not None
    assert (member["instanceId"], member["rackId"], member["serverAssignor"]) == ("i", "r", "range")
    assert (member["clientId"], member["clientHost"]) == ("client", "/127.0.0.1")
    assert (member["subscribedTopicNames"], member["subscribedTopicRegex"]) == (["t"], "")
    assert member["rebalanceTimeoutMs"] == 60_000
    assert epoch is not None
    assert epoch["epoch"] == 2
    assert target is not None
    assert [topic["partitions"] for topic in target["topicPartitions"]] == [[0, 1, 2, 3]]
    assert target_epoch == {"assignmentEpoch": 2, "assignmentTimestamp": harness.now_ms}
    assert current is not None
    assert (current["memberEpoch"], current["previousMemberEpoch"], current["state"]) == (2, 0, 1)
    (assigned,) = current["assignedPartitions"]
    assert (assigned["partitions"], assigned["assignmentEpochs"]) == ([0, 1, 2, 3], [2, 2, 2, 2])


def test_leaving_writes_tombstones_and_a_new_epoch() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", regex="t")
    a.join()
    since = len(harness.storage.records)

    a.leave()

    assert [(name, value is None) for name, _, value in written(harness, since)] == [
        (NAMES[8], True),
        (NAMES[7], True),
        (NAMES[5], True),
        (NAMES[16], True),
        (NAMES[3], False),
    ]


def test_a_deleted_group_leaves_nothing_in_a_compacted_log() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a", regex="t")
    a.join()
    a.leave()

    harness.coordinator.delete_group(GROUP, harness.at)
    harness.storage.compact()

    assert [record for record in harness.storage.records if record.value is not None] == []
    harness.restart()
    assert harness.coordinator.list_groups([], []) == []


def test_only_what_changes_of_a_target_is_written() -> None:
    harness = ConsumerHarness()
    harness.topic("t", 6)
    members = [Consumer(harness, name) for name in "abc"]
    for member in members:
        member.join()
    harness.settle(*members)
    harness.topic("u", 1)
    since = len(harness.storage.records)

    Consumer(harness, "d", ["u"]).join()

    targets = [key["memberId"] for name, key, _ in written(harness, since) if name == NAMES[7]]
    assert targets == ["d"]


def test_records_of_older_brokers_are_understood() -> None:
    harness = ConsumerHarness(MemoryStorage())
    a = Consumer(harness, "a")
    a.join()
    partition = harness.coordinator.partition_for(GROUP)
    key = b"\0\4" + json_view.to_bytes("ConsumerGroupPartitionMetadataKey", 0, {"groupId": GROUP})
    value = b"\0\0" + json_view.to_bytes("ConsumerGroupPartitionMetadataValue", 0, {"topics": []})
    harness.storage.append_stored(partition, key, value)
    current = next(record for record in harness.storage.records if record.key[:2] == b"\0\x08")
    fields = json_view.from_bytes("ConsumerGroupCurrentMemberAssignmentValue", 0, (current.value or b"")[2:])
    fields["assignedPartitions"][0]["assignmentEpochs"] = None
    old = b"\0\0" + json_view.to_bytes("ConsumerGroupCurrentMemberAssignmentValue", 0, fields)
    harness.storage.append_stored(partition, current.key, old)

    harness.restart()

    assert harness.group().members["a"].assignment_epoch(harness.topic_id("t"), 3) == 2
    harness.topic("t", 5)
    since = len(harness.storage.records)
    a.heartbeat()
    assert (NAMES[4], {"groupId": GROUP}, None) in written(harness, since)


def test_a_member_in_a_state_of_the_future_begins_anew() -> None:
    harness = ConsumerHarness()
    a = Consumer(harness, "a")
    a.join()
    current = next(record for record in harness.storage.records if record.key[:2] == b"\0\x08")
    fields = json_view.from_bytes("ConsumerGroupCurrentMemberAssignmentValue", 0, (current.value or b"")[2:])
    fields["state"] = 127
    value = b"\0\0" + json_view.to_bytes("ConsumerGroupCurrentMemberAssignmentValue", 0, fields)
    harness.storage.append_stored(harness.coordinator.partition_for(GROUP), current.key, value)
    harness.restart()

    assert a.error() is not None
    a.join()

    assert (a.epoch, a.owned) == (2, {"t": {0, 1, 2, 3}})
