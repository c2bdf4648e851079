"""OffsetCommit, OffsetFetch and OffsetDelete, and how long what was committed lasts."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.groups import coordinator_records as records
from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.unit.broker.groups.harness import GROUP, Harness, code

T0 = ("t", 0)
T1 = ("t", 1)
DAY = 86_400.0
OK = 0


def subscription(*topics: str) -> bytes:
    encoded = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\3" + len(topics).to_bytes(4, "big") + encoded + b"\xff\xff\xff\xffwhat later versions add"


# --- commit


@pytest.mark.shows("S3.66", breaks="barnabas.broker.groups.offsets.offset_manager:OffsetManager._write")
def test_what_a_group_committed_is_how_far_it_has_read() -> None:
    harness = Harness()
    member = harness.stable(None)[0]

    harness.commit({T0: 10, T1: 20}, member.id, member.generation)
    harness.commit({T0: 11}, member.id, member.generation)

    assert harness.fetch([T0, T1, ("t", 2), ("other", 0)]) == {T0: 11, T1: 20, ("t", 2): -1, ("other", 0): -1}


@pytest.mark.shows("S3.57", breaks="barnabas.broker.groups.offsets.offset_store:OffsetStore.put")
def test_groups_do_not_see_each_others_offsets() -> None:
    harness = Harness()
    harness.commit({T0: 1}, group="a")
    harness.commit({T0: 2}, group="b")

    assert [harness.fetch(group=group) for group in ("a", "b", "c")] == [{T0: 1}, {T0: 2}, {}]


@pytest.mark.shows("S3.67", breaks="barnabas.broker.groups.group_store:GroupStore.commit")
def test_a_commit_is_a_record_per_group_topic_and_partition_in_the_groups_partition_of_50() -> None:
    harness = Harness()

    harness.commit({T0: 5}, group="my-group")

    assert harness.storage.partition_count == 50
    (record,) = harness.storage.logs[12]
    key = records.decode_offset_commit_key(record.key)
    assert (key.group, key.topic, key.partition) == ("my-group", "t", 0)
    assert records.decode_offset_commit_value(record.value, 0).committed_offset == 5


@pytest.mark.shows("S3.68", breaks="barnabas.broker.groups.offsets.offset_manager:OffsetManager.commit")
def test_a_commit_that_could_not_be_written_is_refused_and_not_seen() -> None:
    harness = Harness()
    harness.commit({T0: 1})
    harness.storage.failure = errors.KafkaStorageError("disk full")

    assert harness.commit({T0: 2}) == code(errors.KafkaStorageError)
    assert harness.fetch() == {T0: 1}
    assert harness.commit({T0: 2}, group="new") != OK
    harness.storage.failure = None
    harness.restart()

    assert harness.fetch() == {T0: 1}
    assert harness.state("new") == "Dead"


@pytest.mark.parametrize(
    ("member", "generation", "instance", "state", "version", "error"),
    [
        # a group that nobody is in
        ("", -1, None, None, 9, OK),
        ("any", -1, None, None, 9, OK),
        ("", 0, None, None, 8, errors.IllegalGenerationError),
        ("", 0, None, None, 9, errors.GroupIdNotFoundError),
        ("", -1, None, "Empty", 9, OK),
        ("made-up", 5, None, "Empty", 9, errors.UnknownMemberIdError),
        # a group with members
        ("", -1, None, "Stable", 9, errors.UnknownMemberIdError),
        ("made-up", -1, None, "Stable", 9, errors.UnknownMemberIdError),
        ("<member>", "<generation>", None, "Stable", 9, OK),
        ("<member>", -1, None, "Stable", 9, errors.IllegalGenerationError),
        ("<member>", 99, None, "Stable", 9, errors.IllegalGenerationError),
        ("<member>", "<generation>", "a", "Stable", 9, OK),
        ("<member>", "<generation>", "nobody", "Stable", 9, errors.UnknownMemberIdError),
        ("other", "<generation>", "a", "Stable", 9, errors.FencedInstanceIdError),
        ("<member>", "<generation>", None, "PreparingRebalance", 9, OK),
        ("<member>", "<next generation>", None, "CompletingRebalance", 9, errors.RebalanceInProgressError),
    ],
)
def test_who_may_commit(
    member: str,
    generation: int | str,
    instance: str | None,
    state: str | None,
    version: int,
    error: type[errors.KafkaError] | int,
) -> None:
    harness = Harness()
    members = harness.stable("a", "b") if state is not None else []
    if state == "Empty":
        harness.leave(("", "a"), ("", "b"))
    if state in ("PreparingRebalance", "CompletingRebalance"):
        harness.join(members[1].id, instance="b", protocols={"range": b"new"})
    if state == "CompletingRebalance":
        harness.join(members[0].id, instance="a")
    assert state is None or harness.state() == state
    names = {"<member>": members[0].id} if members else {}
    numbers = {"<generation>": members[0].generation, "<next generation>": members[0].generation + 1} if members else {}

    answer = harness.commit(
        {T0: 7}, names.get(member, member), numbers.get(generation, generation), instance=instance, version=version
    )

    assert answer == ({T0: OK} if error == OK else error.code)
    assert harness.fetch([T0]) == {T0: 7 if error == OK else -1}


def test_commits_keep_the_session() -> None:
    harness = Harness()
    member = harness.stable(None)[0]
    for _ in range(5):
        harness.advance(9.0)
        harness.commit({T0: 1}, member.id, member.generation)

    assert harness.member_ids() == [member.id]


@pytest.mark.parametrize(("length", "error"), [(4096, OK), (4097, code(errors.OffsetMetadataTooLargeError))])
def test_metadata_may_have_offset_metadata_max_bytes(length: int, error: int) -> None:
    harness = Harness()

    assert harness.commit({T0: 1}, metadata="x" * length) == {T0: error}
    assert harness.fetch([T0]) == {T0: 1 if error == OK else -1}


def test_a_fetch_gives_the_leader_epoch_and_the_metadata_too() -> None:
    harness = Harness()
    harness.commit({T0: 1}, metadata="where I was")
    harness.commit({T1: 1}, metadata=None)
    harness.restart()

    answer = harness.coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id=GROUP, topics=None), False)

    (topic,) = answer.topics
    assert [(part.committed_leader_epoch, part.metadata) for part in topic.partitions] == [(3, "where I was"), (3, "")]


def test_an_offset_of_a_topic_that_was_deleted_and_made_again_is_not_given_for_the_new_one() -> None:
    harness = Harness()
    old, new, unknown = b"o" * 16, b"n" * 16, bytes(16)
    harness.commit({T0: 1}, version=10, topic_id=old)
    harness.restart()

    given = [
        harness.coordinator.fetch_offsets(
            OffsetFetchRequestGroup(group_id=GROUP, topics=[OffsetFetchRequestTopics("t", topic_id, [0])]), False
        )
        .topics[0]
        .partitions[0]
        .committed_offset
        for topic_id in (old, new, unknown)
    ]

    assert given == [1, -1, 1]


# --- transactions (the store's part)


def pending(harness: Harness, producer_id: int, offset: int, partition: tuple[str, int] = T0) -> None:
    record = records.offset_commit_record(GROUP, *partition, OffsetAndMetadata(offset, -1, "", harness.now_ms))
    harness.storage.append_stored(harness.coordinator.partition_for(GROUP), *record, producer_id=producer_id)


def marker(harness: Harness, producer_id: int, commit: bool) -> None:
    partition = harness.coordinator.partition_for(GROUP)
    harness.storage.append_stored(partition, b"", None, producer_id=producer_id, ends_transaction=commit)


@pytest.mark.parametrize(("commit", "offset"), [(True, 9), (False, 1)])
def test_what_a_transaction_commits_counts_when_it_is_committed(commit: bool, offset: int) -> None:
    harness = Harness()
    harness.commit({T0: 1, T1: 1})
    pending(harness, 77, 9)
    harness.restart()
    assert harness.fetch(require_stable=True) == {T0: -code(errors.UnstableOffsetCommitError), T1: 1}
    assert harness.fetch() == {T0: 1, T1: 1}

    marker(harness, 77, commit)
    harness.restart()

    assert harness.fetch(require_stable=True) == {T0: offset, T1: 1}


def test_a_commit_after_that_of_the_transaction_wins_even_if_the_transaction_ends_later() -> None:
    harness = Harness()
    pending(harness, 77, 9)
    pending(harness, 78, 8, T1)
    harness.restart()
    harness.commit({T0: 10})

    marker(harness, 77, True)
    marker(harness, 78, True)
    harness.restart()

    assert harness.fetch() == {T0: 10, T1: 8}


# --- delete


def delete(harness: Harness, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index)]) for topic, index in partitions]
    answer = harness.coordinator.delete_offsets(harness.context(0), OffsetDeleteRequest(GROUP, topics))
    return {(topic.name, part.partition_index): part.error_code for topic in answer.topics for part in topic.partitions}


def test_offsets_of_topics_that_nobody_reads_can_be_deleted() -> None:
    harness = Harness()
    protocols = {"range": subscription("read")}
    member = harness.stable(None, protocols=protocols)[0]
    harness.commit({("read", 0): 1, ("past", 0): 2, ("past", 1): 3}, member.id, member.generation)

    answer = delete(harness, ("read", 0), ("past", 0), ("past", 9))
    harness.restart()

    subscribed = code(errors.GroupSubscribedToTopicError)
    assert answer == {("read", 0): subscribed, ("past", 0): OK, ("past", 9): OK}
    assert harness.fetch() == {("read", 0): 1, ("past", 1): 3}


def test_offsets_of_an_active_group_of_another_type_cannot_be_deleted() -> None:
    harness = Harness()
    harness.join_dynamic(protocol_type="connect")

    with pytest.raises(errors.GroupNotEmptyError):
        delete(harness, T0)


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted() -> None:
    with pytest.raises(errors.GroupIdNotFoundError):
        delete(Harness(), T0)


def test_offsets_go_with_their_topic() -> None:
    harness = Harness()
    harness.commit({T0: 1, ("kept", 0): 2})
    harness.commit({T1: 1}, group="other")

    harness.coordinator.on_topic_deleted("t", harness.at)
    harness.restart()

    assert harness.fetch() == {("kept", 0): 2}
    assert harness.fetch(group="other") == {}


# --- expiry


def test_offsets_of_a_simple_group_last_their_retention_from_their_own_commit() -> None:
    harness = Harness(offsets_retention_minutes=1440)
    harness.commit({T0: 1})
    harness.advance(DAY / 2)
    harness.commit({T1: 2})

    harness.advance(DAY / 2 - 700)
    assert harness.fetch() == {T0: 1, T1: 2}
    harness.advance(1400)
    assert harness.fetch() == {T1: 2}
    harness.advance(DAY / 2)

    assert harness.fetch() == {}
    assert harness.state() == "Dead"
    harness.restart()
    assert harness.state() == "Dead"


def test_offsets_of_a_group_with_members_last_as_long_as_it_and_the_retention_from_then_on() -> None:
    harness = Harness(offsets_retention_minutes=60)
    options = {"session_timeout_ms": 1_800_000, "protocols": {"range": subscription("t")}}
    member = harness.stable(None, **options)[0]
    harness.commit({T0: 1}, member.id, member.generation)
    for _ in range(10):
        harness.advance(1200)
        harness.heartbeat(member.id, member.generation)
    harness.leave(member.id)

    harness.advance(3500)
    assert harness.fetch() == {T0: 1}
    harness.advance(1000)

    assert harness.fetch() == {}
    assert harness.state() == "Dead"


def test_a_stable_group_loses_only_offsets_of_topics_it_left() -> None:
    harness = Harness(offsets_retention_minutes=60)
    options = {"session_timeout_ms": 1_800_000, "protocols": {"range": subscription("t")}}
    member = harness.stable(None, **options)[0]
    harness.commit({T0: 1, ("past", 0): 2}, member.id, member.generation)
    for _ in range(4):
        harness.advance(1200)
        harness.heartbeat(member.id, member.generation)

    assert harness.fetch() == {T0: 1}


@pytest.mark.parametrize(("protocol_type", "metadata"), [("consumer", b"\xff"), ("connect", b"anything")])
def test_a_stable_group_whose_subscription_is_not_understood_loses_nothing(protocol_type: str, metadata: bytes) -> None:
    harness = Harness(offsets_retention_minutes=60)
    answer = harness.join_dynamic(
        protocol_type=protocol_type, protocols={"range": metadata}, session_timeout_ms=1_800_000
    ).response
    harness.sync(answer.member_id, 1, protocol_type=protocol_type)
    assert harness.commit({T0: 1}, answer.member_id, 1) == {T0: OK}
    for _ in range(6):
        harness.advance(1200)
        harness.heartbeat(answer.member_id, 1)

    assert harness.fetch() == {T0: 1}


def test_a_commit_with_a_retention_of_its_own_lasts_that_long() -> None:
    harness = Harness(offsets_retention_minutes=60)
    harness.commit({T0: 1}, version=4, retention_time_ms=7_200_000)
    harness.restart()

    harness.advance(7199.0)
    assert harness.fetch() == {T0: 1}
    harness.advance(601.0)

    assert harness.fetch() == {}


def test_what_could_not_be_expired_is_expired_by_a_later_sweep() -> None:
    harness = Harness(offsets_retention_minutes=60)
    harness.commit({T0: 1})
    harness.storage.failure = errors.KafkaStorageError("disk full")
    harness.advance(4200)
    assert harness.fetch() == {T0: 1}
    assert "disk full" in harness.warnings[0]

    harness.storage.failure = None
    harness.advance(601)

    assert harness.fetch() == {}


def test_a_sweep_over_many_groups_is_done_in_pieces() -> None:
    harness = Harness(offsets_retention_minutes=1)
    for number in range(5000):
        harness.commit({T0: 1}, group=f"g{number}")
    harness.now += 600.0
    harness.coordinator.tick(harness.at)

    left = harness.coordinator.statistics()["groups"]

    assert 0 < left < 5000
    assert harness.coordinator.next_deadline() <= harness.now, "the rest is due at once"
    harness.advance(0.0)
    assert harness.coordinator.statistics()["groups"] == 0


def test_offsets_go_with_a_topic_that_was_deleted_while_their_group_was_being_loaded() -> None:
    harness = Harness()
    harness.commit({T0: 1, ("kept", 0): 2})
    harness.restart(wait_until_loaded=False)

    harness.coordinator.on_topic_deleted("t", harness.at)
    harness.advance(0.0)
    assert harness.fetch() == {("kept", 0): 2}
    harness.commit({T0: 3})
    harness.restart()

    assert harness.fetch() == {T0: 3, ("kept", 0): 2}


def test_a_topic_can_be_deleted_although_its_offsets_cannot() -> None:
    harness = Harness()
    harness.commit({T0: 1})
    harness.storage.failure = errors.KafkaStorageError("disk full")

    harness.coordinator.on_topic_deleted("t", harness.at)

    assert "disk full" in harness.warnings[0]
