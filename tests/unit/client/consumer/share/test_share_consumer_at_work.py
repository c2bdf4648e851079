"""A share consumer on a scripted broker: sessions, retries, errors, what comes in between."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from barnabas import ShareConsumer, TopicIdPartition, TopicPartition
from barnabas.client.consumer.share.share_consume_request_manager import ShareConsumeRequestManager
from barnabas.errors import (
    ConfigError,
    CorruptRecordError,
    DisconnectError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderOrFollowerError,
    RecordDeserializationError,
    TopicAuthorizationError,
    UnsupportedVersionError,
    WakeupError,
)
from barnabas.protocol.api import ApiKey
from tests.support.scripted_queue import ACCEPTED, ACQUIRED, ARCHIVED, AVAILABLE, ScriptedQueue

EXPLICIT = {"share_acknowledgement_mode": "explicit"}


@pytest.fixture
def cluster() -> ScriptedQueue:
    made = ScriptedQueue()
    made.append("t", 0, *[b"%d" % number for number in range(6)])
    return made


def consumer_of(cluster: ScriptedQueue, **settings: Any) -> ShareConsumer:
    return cluster.share_consumer("t", group_id="g", **settings)


def poll(consumer: ShareConsumer, timeout: float = 5) -> list[bytes]:
    return [record.value for record in consumer.poll(timeout)]


def fetches(cluster: ScriptedQueue) -> list[Any]:
    return cluster.asked(ApiKey.SHARE_FETCH)


def test_acknowledgements_go_with_the_next_fetch_of_the_session(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    assert len(poll(consumer)) == 6

    assert poll(consumer, 1) == []

    assert [request.share_session_epoch for request in fetches(cluster)][:2] == [0, 1]
    assert cluster.asked(ApiKey.SHARE_ACKNOWLEDGE) == []
    (topic,) = fetches(cluster)[1].topics
    batches = [
        (b.first_offset, b.last_offset, b.acknowledge_types) for b in topic.partitions[0].acknowledgement_batches
    ]
    assert batches == [(0, 5, [1])]
    assert cluster.states() == {ACCEPTED: 6}


def read_on(cluster: ScriptedQueue, consumer: ShareConsumer, seconds: float) -> int:
    """Poll twice, with so much time between; returns how many records the application has got."""
    got = len(poll(consumer))
    cluster.now += seconds
    return got + len(poll(consumer))


@pytest.mark.parametrize(("seconds", "is_ahead"), [(0.4, True), (0.6, False)])
def test_who_comes_back_soon_finds_the_next_records_already_there(
    cluster: ScriptedQueue, seconds: float, is_ahead: bool
) -> None:
    consumer = consumer_of(cluster, max_poll_records=2)
    assert read_on(cluster, consumer, seconds) == 4
    assert len(fetches(cluster)) == (3 if is_ahead else 2)
    assert fetches(cluster)[-1].max_wait_ms == (0 if is_ahead else 500), "what is ahead holds nothing up"
    assert len(poll(consumer)) == 2
    assert cluster.asked(ApiKey.SHARE_ACKNOWLEDGE) == [], "acknowledgements go with the fetches"
    assert poll(consumer, 1) == []
    assert cluster.states() == {ACCEPTED: 6}


def test_nothing_is_fetched_ahead_of_few_records_or_under_a_limit(cluster: ScriptedQueue) -> None:
    assert read_on(cluster, consumer_of(cluster, max_poll_records=100), 0.1) == 6
    assert all(request.max_wait_ms for request in fetches(cluster))
    other = ScriptedQueue()
    other.append("t", 0, b"0", b"1", b"2", b"3")
    assert read_on(other, consumer_of(other, max_poll_records=1, share_acquire_mode="record_limit"), 0.1) == 2
    assert all(request.max_wait_ms for request in fetches(other))


def test_what_was_fetched_ahead_is_released_by_close(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster, max_poll_records=2)
    assert read_on(cluster, consumer, 0.1) == 4
    consumer.close()
    assert cluster.states() == {ACCEPTED: 2, AVAILABLE: 4}


@pytest.fixture
def long_queue() -> ScriptedQueue:
    """A hundred records in as many batches."""
    made = ScriptedQueue()
    for number in range(100):
        made.append("t", 0, b"%d" % number)
    return made


def read_ahead(cluster: ScriptedQueue, polls: int, **settings: Any) -> tuple[ShareConsumer, list[bytes]]:
    """A consumer that has polled at once so often, two records each time, and the values."""
    consumer, found = consumer_of(cluster, max_poll_records=2, **settings), []
    for _ in range(polls):
        values = poll(consumer)
        assert len(values) == 2
        found += values
    return consumer, found


def test_one_fetch_brings_the_records_of_several_polls(long_queue: ScriptedQueue) -> None:
    consumer, found = read_ahead(long_queue, 50)

    assert found == [b"%d" % number for number in range(100)]
    assert poll(consumer, 1) == []
    assert long_queue.states() == {ACCEPTED: 100}
    assert [request.max_records for request in fetches(long_queue)][:6] == [2, 2, 2, 4, 8, 16]
    assert {request.batch_size for request in fetches(long_queue)} == {2}, "it is acknowledged poll by poll"
    requests = len(fetches(long_queue)) + len(long_queue.asked(ApiKey.SHARE_ACKNOWLEDGE))
    assert requests < 20, "fifty polls, with their acknowledgements"


def test_acknowledgements_go_by_themselves_where_the_next_fetch_is_far(long_queue: ScriptedQueue) -> None:
    consumer, _ = read_ahead(long_queue, 6)
    long_queue.now += 0.01
    said = len(long_queue.asked(ApiKey.SHARE_ACKNOWLEDGE))
    accepted = long_queue.states()[ACCEPTED]
    assert len(poll(consumer)) == 2
    assert long_queue.states()[ACCEPTED] > accepted
    assert len(long_queue.asked(ApiKey.SHARE_ACKNOWLEDGE)) == said + 1


def test_what_waits_for_several_polls_is_released_by_close_and_by_unsubscribe(long_queue: ScriptedQueue) -> None:
    consumer, found = read_ahead(long_queue, 6)
    assert long_queue.states()[ACQUIRED] > 12
    consumer.unsubscribe()
    states = long_queue.states()
    assert states[ACQUIRED] == 2, "those that the application has"
    consumer.close()
    assert states[ACCEPTED] == len(found) - 2
    assert long_queue.states() == {ACCEPTED: 10, AVAILABLE: 90}


def test_what_waits_of_a_revoked_partition_is_released(long_queue: ScriptedQueue) -> None:
    consumer, found = read_ahead(long_queue, 6)
    long_queue.wanted = set()
    long_queue.sleep(6)

    assert poll(consumer, 1) == []

    assert long_queue.states() == {ACCEPTED: len(found), AVAILABLE: 100 - len(found)}
    assert long_queue.session is not None
    assert long_queue.session.partitions == set(), "acknowledgements bring no partition back into the session"


def test_what_was_fetched_for_an_application_that_became_slow_is_given_back(long_queue: ScriptedQueue) -> None:
    consumer, found = read_ahead(long_queue, 6)
    long_queue.sleep(16)

    records = list(consumer.poll(5))

    assert [record.value for record in records] == [b"12", b"13"]
    assert [record.delivery_count for record in records] == [2, 2], "their locks are new"
    assert long_queue.states() == {ACCEPTED: len(found), ACQUIRED: 2, AVAILABLE: 100 - len(found) - 2}


def test_who_stops_polling_loses_nothing_that_was_said_and_holds_nothing_that_waits(long_queue: ScriptedQueue) -> None:
    consumer, found = read_ahead(long_queue, 6)
    states = long_queue.states()
    assert states[ACCEPTED] < len(found) - 2
    assert states[ACQUIRED] > 2

    long_queue.sleep(3)
    assert long_queue.states()[ACCEPTED] == len(found) - 2
    long_queue.sleep(15)

    states = long_queue.states()
    assert (states[ACCEPTED], states[ACQUIRED]) == (len(found) - 2, 2)
    assert poll(consumer) == [b"12", b"13"]


def test_a_fault_between_two_calls_begins_the_next_one_anew(
    long_queue: ScriptedQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, found = read_ahead(long_queue, 6)

    def fails(*_: object, **__: object) -> None:
        raise ValueError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(ShareConsumeRequestManager, "tick", fails)
        long_queue.sleep(3)

    assert "between two calls" in caplog.text
    values = poll(consumer)
    assert set(values).isdisjoint(found[:4])
    assert len(values) == 2


def test_the_callback_hears_nothing_of_what_the_consumer_gave_back_by_itself(long_queue: ScriptedQueue) -> None:
    """A record may be back by the time that the answer is told: it would pass for the answer to what is said now."""
    consumer, found = read_ahead(long_queue, 6)
    told: list[int] = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.extend(*offsets.values()))
    long_queue.sleep(16)
    found += poll(consumer)
    found += poll(consumer)
    consumer.close()

    assert sorted(told) == list(range(8, 14)), "one answer for each record of which something was said since then"


def test_who_waits_for_a_renewal_with_records_here_waits_without_turning(long_queue: ScriptedQueue) -> None:
    consumer = consumer_of(long_queue, max_poll_records=2, **EXPLICIT)
    for _ in range(6):
        records = list(consumer.poll(5))
        for record in records:
            consumer.acknowledge(record)
    consumer.commit_sync()
    for record in (renewed := list(consumer.poll(5))):
        consumer.acknowledge(record, "renew")
    long_queue.hold.add(ApiKey.SHARE_ACKNOWLEDGE)
    selector = long_queue.app_selector
    assert selector is not None
    polled: list[float] = []
    poll_of = selector.poll
    selector.poll = lambda timeout, now: polled.append(timeout) or poll_of(timeout, now)  # type: ignore[method-assign,func-returns-value]

    assert poll(consumer, 2) == [], "the renewal is not answered"

    assert len(polled) < 20
    long_queue.hold.clear()
    assert len(renewed) == 2


def test_what_the_broker_released_is_not_handed_out(long_queue: ScriptedQueue) -> None:
    consumer, found = read_ahead(long_queue, 6)
    selector = long_queue.app_selector
    assert selector is not None
    selector.break_connection(0)
    long_queue.connection_ended()
    long_queue.now += 0.01

    for _ in range(4):
        records = list(consumer.poll(5))
        assert [record.delivery_count for record in records] == [2, 2], "first the session begins anew"
        assert {long_queue.state(0, record.offset) for record in records} == {ACQUIRED}
        assert {record.value for record in records}.isdisjoint(found[:-6])


def end_connection(cluster: ScriptedQueue) -> None:
    assert cluster.app_selector is not None
    cluster.app_selector.break_connection(0)
    cluster.connection_ended()


def is_held(cluster: ScriptedQueue, consumer: ShareConsumer) -> bool:
    records = list(consumer.poll(5))
    assert records
    return {cluster.state(0, record.offset) for record in records} == {ACQUIRED}


def test_the_first_answer_and_the_end_of_its_connection_may_come_together() -> None:
    cluster = ScriptedQueue()
    consumer = consumer_of(cluster)
    assert poll(consumer, 0.1) == [], "the fetch that begins the session waits at the broker"
    cluster.append("t", 0, b"0", b"1")
    cluster.sleep(0.1)
    end_connection(cluster)

    assert is_held(cluster, consumer)


def wake_behind_an_answer(cluster: ScriptedQueue, consumer: ShareConsumer) -> None:
    """End a poll when it has read the answer to its fetch, before it takes it."""
    cluster.at(0.2, lambda: (cluster.append("t", 0, b"0", b"1"), consumer.wakeup()))
    with pytest.raises(WakeupError):
        consumer.poll(5)
    assert cluster.states() == {ACQUIRED: 2}


@pytest.mark.parametrize("wakes_again", [False, True])
def test_an_answer_that_was_read_before_is_taken_with_a_look_at_its_connection(wakes_again: bool) -> None:
    cluster = ScriptedQueue()
    consumer = consumer_of(cluster)
    assert poll(consumer, 0.7) == [], "the session goes on"
    wake_behind_an_answer(cluster, consumer)
    end_connection(cluster)
    cluster.now += 0.4
    if wakes_again:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(5)

    assert is_held(cluster, consumer)


def test_an_answer_that_was_read_before_belongs_to_the_connection_of_then() -> None:
    cluster = ScriptedQueue()
    consumer = consumer_of(cluster)
    wake_behind_an_answer(cluster, consumer)
    end_connection(cluster)
    for _ in range(20):
        cluster.now += 0.4
        consumer.commit_async()
    assert cluster.app_selector is not None
    assert len(cluster.app_selector.connects) > 2, "there is a new connection"

    assert is_held(cluster, consumer)


def test_a_poll_that_is_refused_is_no_look_at_the_connection(long_queue: ScriptedQueue) -> None:
    consumer = consumer_of(long_queue, max_poll_records=2, **EXPLICIT)
    records: list[Any] = []
    for _ in range(6):
        for record in records:
            consumer.acknowledge(record)
        records = list(consumer.poll(5))
    end_connection(long_queue)
    long_queue.now += 0.4
    with pytest.raises(IllegalStateError, match="are not acknowledged"):
        consumer.poll(5)
    for record in records:
        consumer.acknowledge(record)

    assert is_held(long_queue, consumer)


def test_close_says_what_was_acknowledged_and_releases_the_rest(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster, **EXPLICIT)
    for record in consumer.poll(5):
        if record.offset < 2:
            consumer.acknowledge(record, "reject" if record.offset else "accept")

    consumer.close()

    assert cluster.states() == {ACCEPTED: 1, ARCHIVED: 1, AVAILABLE: 4}
    assert cluster.asked(ApiKey.SHARE_ACKNOWLEDGE)[-1].share_session_epoch == -1
    assert cluster.asked(ApiKey.SHARE_GROUP_HEARTBEAT)[-1].member_epoch == -1


def test_a_session_that_the_broker_forgot_begins_anew_and_its_acknowledgements_fail(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    told: list[tuple[dict[TopicIdPartition, set[int]], KafkaError | None]] = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
    assert len(poll(consumer)) == 6
    cluster.connection_ended()

    ((_, error),) = consumer.commit_sync().items()

    assert isinstance(error, NotLeaderOrFollowerError)
    assert [(sorted(*offsets.values()), type(error)) for offsets, error in told] == [
        ([0, 1, 2, 3, 4, 5], NotLeaderOrFollowerError)
    ]
    records = consumer.poll(5)
    assert [record.delivery_count for record in records] == [2] * 6
    assert list(consumer.commit_sync().values()) == [None]


def test_a_commit_is_tried_again_while_the_error_may_pass(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    poll(consumer)
    cluster.errors[ApiKey.SHARE_ACKNOWLEDGE] = deque([15])
    cluster.acknowledge_errors = [7]

    assert list(consumer.commit_sync().values()) == [None]

    assert len(cluster.asked(ApiKey.SHARE_ACKNOWLEDGE)) == 3
    assert cluster.states() == {ACCEPTED: 6}


def test_a_commit_that_is_not_answered_says_so_by_partition(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    poll(consumer)
    cluster.hold.add(ApiKey.SHARE_ACKNOWLEDGE)

    ((partition, error),) = consumer.commit_sync(timeout=3).items()

    assert str(partition) == "t-0"
    assert isinstance(error, KafkaTimeoutError)


def test_a_broken_connection_fails_what_was_in_flight_and_records_come_again(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    poll(consumer)
    cluster.hold.add(ApiKey.SHARE_ACKNOWLEDGE)
    selector = cluster.app_selector
    assert selector is not None
    cluster.at(1, lambda: (selector.break_connection(0), cluster.connection_ended()))

    ((_, error),) = consumer.commit_sync(timeout=10).items()

    cluster.hold.clear()
    assert isinstance(error, DisconnectError)
    assert len(poll(consumer)) == 6


def test_records_that_waited_longer_than_their_lock_are_not_handed_out(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    poll(consumer)
    assert poll(consumer, 0.2) == []
    cluster.append("t", 1, b"late")
    cluster.sleep(40)

    records = consumer.poll(60)

    assert [(record.value, record.delivery_count) for record in records] == [(b"late", 2)]


def test_a_poll_that_is_interrupted_loses_nothing_and_accepts_nothing(
    cluster: ScriptedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(data: bytes) -> bytes:
        if data == b"3" and not seen:
            seen.append(data)
            raise KeyboardInterrupt
        return data

    seen: list[bytes] = []
    consumer = consumer_of(cluster, value_deserializer=interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(5)

    assert len(poll(consumer)) == 6
    consumer.commit_sync()
    assert cluster.states() == {ACCEPTED: 6}


def test_revoked_partitions_leave_the_session_and_can_still_be_acknowledged(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster)
    assert len(poll(consumer)) == 6
    cluster.wanted = set()
    cluster.sleep(6)

    assert poll(consumer, 1) == []

    assert cluster.states() == {ACCEPTED: 6}


def test_a_cluster_without_share_groups_is_said(cluster: ScriptedQueue) -> None:
    cluster.lacks.add(ApiKey.SHARE_GROUP_HEARTBEAT)
    consumer = consumer_of(cluster)

    with pytest.raises(UnsupportedVersionError, match="share groups"):
        consumer.poll(5)


def test_what_may_not_be_read_is_said(cluster: ScriptedQueue) -> None:
    cluster.errors[ApiKey.SHARE_FETCH] = deque([29])
    consumer = consumer_of(cluster)

    with pytest.raises(TopicAuthorizationError):
        consumer.poll(5)

    assert len(poll(consumer)) == 6


def test_records_in_hand_stay_acquired_until_something_is_said(cluster: ScriptedQueue) -> None:
    consumer = consumer_of(cluster, **EXPLICIT)
    consumer.poll(5)

    with pytest.raises(IllegalStateError, match="6 records"):
        consumer.poll(0)

    assert cluster.states() == {ACQUIRED: 6}


def test_settings_of_other_consumers_are_refused() -> None:
    with pytest.raises(InvalidGroupIdError):
        ShareConsumer("t", bootstrap_servers="b:1")
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset .*share\.auto\.offset\.reset"):
        ShareConsumer("t", bootstrap_servers="b:1", group_id="g", auto_offset_reset="earliest")  # type: ignore[call-arg]


def test_a_corrupt_batch_is_rejected_and_what_follows_is_read(cluster: ScriptedQueue) -> None:
    cluster.append("t", 0, b"corrupt", b"too")
    base, end, batch = cluster.logs[TopicPartition("t", 0)][-1]
    cluster.logs[TopicPartition("t", 0)][-1] = (base, end, batch[:-1] + bytes([batch[-1] ^ 1]))
    cluster.append("t", 0, b"good")
    consumer = consumer_of(cluster)

    assert len(poll(consumer)) == 6
    with pytest.raises(CorruptRecordError):
        consumer.poll(5)
    assert poll(consumer) == [b"good"]
    consumer.commit_sync()

    assert cluster.states() == {ACCEPTED: 7, ARCHIVED: 2}


def test_a_record_that_cannot_be_deserialized_is_released(cluster: ScriptedQueue) -> None:
    cluster.limit = 2
    cluster.append("t", 0, b"x")
    consumer = consumer_of(cluster, value_deserializer=int)

    assert len(poll(consumer)) == 6
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="offset 6"):
            consumer.poll(5)
    assert poll(consumer, 1) == []

    assert cluster.states() == {ACCEPTED: 6, ARCHIVED: 1}


@pytest.mark.parametrize("arrow", [False, True])
def test_offsets_without_records_are_acknowledged_as_gaps(cluster: ScriptedQueue, arrow: bool) -> None:
    base, end, batch = cluster.logs[TopicPartition("t", 0)][0]
    # The last two records of what was acquired were compacted away.
    cluster.logs[TopicPartition("t", 0)][0] = (base, end + 2, batch)
    consumer = consumer_of(cluster)

    found = consumer.poll_arrow(5) if arrow else consumer.poll(5)
    assert found is not None
    assert len(found) == 6
    consumer.commit_sync()

    assert cluster.states() == {ACCEPTED: 6, ARCHIVED: 2}
