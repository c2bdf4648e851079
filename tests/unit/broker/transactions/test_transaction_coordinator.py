"""The life of transactional ids, as the requests of producers see it."""

from __future__ import annotations

import pytest

from barnabas import errors
from tests.unit.broker.transactions.harness import ID, T0, T1, TV_0, TV_2, Harness, Marker

LAST_EPOCH = 32766


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_new_id_gets_a_new_producer_id_and_epoch_0(harness: Harness) -> None:
    assert harness.init() == (1000, 0)
    assert harness.init(id="other") == (1001, 0)
    assert harness.state() == "Empty"


def test_another_producer_with_the_same_id_gets_the_next_epoch_and_shuts_the_first_out(harness: Harness) -> None:
    first = harness.init()
    second = harness.init()
    assert second == (1000, 1)
    with pytest.raises(errors.ProducerFencedError):
        harness.add(first, T0)
    harness.add(second, T0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_the_first_protocol_keeps_its_epoch(harness: Harness, commit: bool) -> None:
    producer = harness.init()
    harness.add(producer, T0, version=TV_0)
    harness.add(producer, T1, version=TV_0)
    assert harness.state() == "Ongoing"

    assert harness.end(producer, commit=commit, version=TV_0) == producer

    assert harness.markers.written == [Marker(T0, 1000, 0, commit), Marker(T1, 1000, 0, commit)]
    assert harness.state() == ("CompleteCommit" if commit else "CompleteAbort")


@pytest.mark.parametrize("commit", [True, False])
def test_every_transaction_of_the_second_protocol_has_an_epoch_of_its_own(harness: Harness, commit: bool) -> None:
    producer = harness.init()
    harness.add(producer, T0)
    following = harness.end(producer, commit=commit)
    assert following == (1000, 1)
    assert harness.markers.written == [Marker(T0, 1000, 1, commit)]
    # A delayed request of the transaction that is over has no effect on the next one.
    harness.add(following, T0)
    with pytest.raises(errors.ProducerFencedError):
        harness.add(producer, T1)
    with pytest.raises(errors.ProducerFencedError):
        harness.end(producer, commit=not commit)
    assert harness.end(following, commit=commit) == (1000, 2)


def test_every_transition_is_in_the_log_before_it_is_seen(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0)
    harness.end(producer, commit=True)
    assert harness.storage.states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]

    harness.storage.failure = errors.KafkaStorageError("full")
    before = harness.metadata()
    for attempt in (
        lambda: harness.init(),
        lambda: harness.add((1000, 1), T0),
        lambda: harness.end((1000, 1), commit=False),
        lambda: harness.init(id="other"),
    ):
        with pytest.raises(errors.NotCoordinatorError):
            attempt()
    assert harness.metadata() is before
    with pytest.raises(errors.TransactionalIdNotFoundError):
        harness.metadata("other")


def test_partitions_that_are_in_the_transaction_cost_no_record(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0, T1)
    records = len(harness.storage.states)
    harness.add(producer, T1)
    assert len(harness.storage.states) == records


@pytest.mark.parametrize("version", [TV_0, TV_2])
def test_a_repeated_end_is_answered_as_the_first(harness: Harness, version: int) -> None:
    producer = harness.init()
    harness.add(producer, T0, version=version)
    following = harness.end(producer, commit=True, version=version)
    assert harness.end(producer, commit=True, version=version) == following
    with pytest.raises(errors.InvalidTxnStateError):
        harness.end(producer, commit=False, version=version)
    assert len(harness.markers.written) == 1


#: State × what is asked for → the outcome for a client that presents the current epoch; "next": a new epoch.
ENDS = {
    ("Empty", True, TV_0): errors.InvalidTxnStateError,
    ("Empty", False, TV_0): errors.InvalidTxnStateError,
    ("CompleteCommit", True, TV_0): "same",
    ("CompleteCommit", False, TV_0): errors.InvalidTxnStateError,
    ("CompleteAbort", True, TV_0): errors.InvalidTxnStateError,
    ("CompleteAbort", False, TV_0): "same",
    ("Empty", True, TV_2): errors.InvalidTxnStateError,
    ("Empty", False, TV_2): "next",
    ("CompleteCommit", True, TV_2): errors.InvalidTxnStateError,
    ("CompleteCommit", False, TV_2): "next",
    ("CompleteAbort", True, TV_2): errors.InvalidTxnStateError,
    ("CompleteAbort", False, TV_2): "next",
}


@pytest.mark.parametrize(("state", "commit", "version"), ENDS)
def test_ending_where_nothing_is_open(harness: Harness, state: str, commit: bool, version: int) -> None:
    producer = harness.init()
    if state != "Empty":
        harness.add(producer, T0, version=version)
        producer = harness.end(producer, commit=state == "CompleteCommit", version=version)
    outcome = ENDS[state, commit, version]
    if isinstance(outcome, str):
        epoch = producer.epoch + (outcome == "next")
        assert harness.end(producer, commit=commit, version=version) == (1000, epoch)
    else:
        with pytest.raises(outcome):
            harness.end(producer, commit=commit, version=version)


def test_an_unknown_id_and_another_producer_id_are_told(harness: Harness) -> None:
    with pytest.raises(errors.InvalidPidMappingError):
        harness.add((1000, 0), T0)
    harness.init()
    for attempt in (lambda: harness.add((7, 0), T0), lambda: harness.end((7, 0), commit=True)):
        with pytest.raises(errors.InvalidPidMappingError):
            attempt()
    with pytest.raises(errors.InvalidRequestError):
        harness.init(id="")


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_that_the_broker_does_not_allow_is_refused(harness: Harness, timeout_ms: int) -> None:
    with pytest.raises(errors.InvalidTxnTimeoutError, match=r"transaction\.max\.timeout\.ms"):
        harness.init(timeout_ms=timeout_ms)


# --- InitProducerId while something is open


def test_the_next_producer_aborts_what_the_one_before_left_open(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0)
    with pytest.raises(errors.ConcurrentTransactionsError):
        harness.init()
    assert harness.state() == "CompleteAbort"
    [marker] = harness.markers.written
    assert not marker.commit
    # The fence itself has an epoch that no client ever gets.
    assert producer.epoch < marker.epoch < harness.init().epoch


def test_nothing_begins_before_the_markers_are_written(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0, T1)
    harness.markers.failures[T1] = errors.KafkaStorageError("broken")
    following = harness.end(producer, commit=True)
    assert harness.state() == "PrepareCommit"
    for attempt in (
        lambda: harness.init(),
        lambda: harness.add(following, T0),
        lambda: harness.end(producer, commit=True),
    ):
        with pytest.raises(errors.ConcurrentTransactionsError):
            attempt()
    with pytest.raises(errors.InvalidTxnStateError):
        harness.end(producer, commit=False)

    harness.markers.failures.clear()
    harness.advance(1)

    assert harness.markers.written == [Marker(T0, 1000, 1, True), Marker(T1, 1000, 1, True)]
    harness.add(following, T0)


def test_a_failing_partition_holds_up_no_other_transaction(harness: Harness) -> None:
    stuck, other = harness.init(), harness.init(id="other")
    harness.add(stuck, T0)
    harness.add(other, T1, id="other")
    harness.markers.failures[T0] = errors.KafkaStorageError("broken")
    harness.end(stuck, commit=True)
    harness.end(other, commit=True, id="other")
    harness.advance(10)
    assert harness.state() == "PrepareCommit"
    assert harness.state("other") == "CompleteCommit"


def test_deleted_partitions_need_no_marker(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0, T1)
    harness.markers.failures[T0] = errors.UnknownTopicOrPartitionError("gone")
    harness.end(producer, commit=True)
    assert harness.state() == "CompleteCommit"


def test_a_large_transaction_is_completed_a_piece_at_a_time(harness: Harness) -> None:
    producer = harness.init()
    partitions = [("large", index) for index in range(250)]
    harness.add(producer, *partitions)
    harness.end(producer, commit=True)
    assert 0 < len(harness.markers.written) < 250
    harness.advance(0)
    assert [marker.partition for marker in harness.markers.written] == partitions
    assert harness.state() == "CompleteCommit"


# --- producers that say who they were (KIP-360)


def test_a_producer_that_recovers_gets_the_next_epoch(harness: Harness) -> None:
    producer = harness.init()
    assert harness.init(producer) == (1000, 1)
    # Its answer was lost: the same again.
    assert harness.init(producer) == (1000, 1)


def test_a_producer_that_was_replaced_cannot_come_back(harness: Harness) -> None:
    first = harness.init()
    second = harness.init()
    for identity in (first, (5, 0), (second.producer_id, 7)):
        with pytest.raises(errors.ProducerFencedError):
            harness.init(identity)


# --- the last epoch


def at_last_epoch(harness: Harness) -> tuple[int, int]:
    # Two thirds of the way at once, as the log of an old cluster would have it.
    producer = harness.init()
    metadata = harness.metadata()
    metadata.producer_epoch = LAST_EPOCH
    harness.coordinator._store.write(metadata, harness.at)
    return producer.producer_id, LAST_EPOCH


def test_after_the_last_epoch_comes_a_new_producer_id(harness: Harness) -> None:
    producer = at_last_epoch(harness)
    assert harness.init() == (1001, 0)
    with pytest.raises(errors.ProducerFencedError):
        harness.init((producer[0], 3))


def test_ending_a_transaction_of_the_last_epoch_gives_a_new_producer_id(harness: Harness) -> None:
    producer = at_last_epoch(harness)
    harness.add(producer, T0)
    assert harness.end(producer, commit=True) == (1001, 0)
    assert harness.markers.written == [Marker(T0, 1000, LAST_EPOCH + 1, True)]
    # Repeated, because the answer was lost.
    assert harness.end(producer, commit=True) == (1001, 0)
    harness.add((1001, 0), T0)


def test_a_producer_in_its_last_epoch_can_be_fenced(harness: Harness) -> None:
    producer = at_last_epoch(harness)
    harness.add(producer, T0)
    with pytest.raises(errors.ConcurrentTransactionsError):
        harness.init()
    assert harness.markers.written == [Marker(T0, 1000, LAST_EPOCH + 1, False)]
    assert harness.init() == (1001, 0)


def test_the_new_producer_id_survives_a_crash_between_decision_and_markers(harness: Harness) -> None:
    producer = at_last_epoch(harness)
    harness.add(producer, T0)
    harness.markers.failures[T0] = errors.KafkaStorageError("broken")
    following = harness.end(producer, commit=True)
    harness.markers.failures.clear()
    harness.restart()
    assert following == (1001, 0)
    assert harness.markers.written == [Marker(T0, 1000, LAST_EPOCH + 1, True)]
    assert harness.end(producer, commit=True) == following


# --- time-outs


@pytest.mark.parametrize("version", [TV_0, TV_2])
def test_a_transaction_that_is_open_too_long_is_aborted(harness: Harness, version: int) -> None:
    producer = harness.init(timeout_ms=30_000)
    harness.add(producer, T0, version=version)
    harness.advance(29)
    harness.add(producer, T1, version=version)
    assert harness.state() == "Ongoing"

    harness.advance(15)

    assert harness.state() == "CompleteAbort"
    assert {(marker.partition, marker.commit) for marker in harness.markers.written} == {(T0, False), (T1, False)}
    assert min(marker.epoch for marker in harness.markers.written) > producer.epoch
    with pytest.raises(errors.ProducerFencedError):
        harness.end(producer, commit=True, version=version)
    with pytest.raises(errors.ProducerFencedError):
        harness.add(producer, T0, version=version)


def test_time_between_transactions_does_not_count(harness: Harness) -> None:
    producer = harness.init(timeout_ms=30_000)
    for _ in range(3):
        harness.advance(60)
        harness.add(producer, T0)
        harness.advance(29)
        producer = harness.end(producer, commit=True)
    assert harness.state() == "CompleteCommit"


def test_an_abort_that_cannot_be_written_is_tried_again(harness: Harness) -> None:
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    harness.storage.failure = errors.KafkaStorageError("full")
    harness.advance(30)
    assert harness.state() == "Ongoing"
    assert "has timed out and cannot be aborted yet" in harness.warnings[0]
    harness.storage.failure = None
    harness.advance(10)
    assert harness.state() == "CompleteAbort"


def test_aborts_that_cannot_be_written_are_told_once_until_they_can(harness: Harness) -> None:
    for _ in range(2):
        harness.warnings.clear()
        producer = harness.init(timeout_ms=1000)
        harness.add(producer, T0)
        harness.storage.failure = errors.KafkaStorageError("full")
        harness.advance(600)
        assert len([line for line in harness.warnings if "cannot be aborted yet" in line]) == 1
        harness.storage.failure = None
        harness.advance(20)
        assert harness.state() == "CompleteAbort"


def test_a_coordinator_without_open_transactions_has_nothing_to_do(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0)
    assert harness.coordinator.next_deadline() == harness.now + 10
    harness.end(producer, commit=True)
    harness.advance(20)
    assert harness.coordinator.next_deadline() > harness.now + 3000


# --- restarts


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_that_is_in_the_log_is_carried_out_after_a_crash(harness: Harness, commit: bool) -> None:
    producer = harness.init()
    harness.add(producer, T0, T1)
    harness.markers.failures[T1] = errors.KafkaStorageError("broken")
    following = harness.end(producer, commit=commit)
    harness.markers.failures.clear()

    harness.restart()

    # Those that were written are written again, which does no harm.
    assert {*harness.markers.written} == {Marker(T0, 1000, 1, commit), Marker(T1, 1000, 1, commit)}
    assert harness.state() == ("CompleteCommit" if commit else "CompleteAbort")
    harness.add(following, T0)


def test_an_open_transaction_goes_on_after_a_crash(harness: Harness) -> None:
    producer = harness.init()
    harness.add(producer, T0)
    harness.restart()
    harness.add(producer, T1)
    assert harness.end(producer, commit=True) == (1000, 1)
    assert [marker.partition for marker in harness.markers.written] == [T0, T1]


def test_an_open_transaction_times_out_after_a_crash(harness: Harness) -> None:
    harness.add(harness.init(timeout_ms=20_000), T0)
    harness.restart()
    harness.advance(31)
    assert harness.state() == "CompleteAbort"


def test_requests_wait_until_their_partition_is_loaded(harness: Harness) -> None:
    producer = harness.init()
    harness.restart(wait_until_loaded=False)
    for attempt in (
        lambda: harness.init(),
        lambda: harness.add(producer, T0),
        lambda: harness.end(producer, commit=True),
        lambda: harness.coordinator.all(),
        lambda: harness.metadata(),
    ):
        with pytest.raises(errors.CoordinatorLoadInProgressError):
            attempt()
    assert harness.init(id="in another partition") == (1001, 0)


def test_a_partition_that_cannot_be_read_answers_for_none_of_its_ids(harness: Harness) -> None:
    harness.init()
    partition = harness.coordinator.partition_for(ID)
    harness.storage.append(partition, [(b"\0\0", b"no record of ours")], harness.now_ms)
    harness.restart()
    with pytest.raises(errors.NotCoordinatorError, match=f"__transaction_state-{partition}"):
        harness.init()
    assert "failed at offset 0" in harness.warnings[0]


def test_a_closed_coordinator_sends_everybody_away(harness: Harness) -> None:
    harness.coordinator.close()
    with pytest.raises(errors.NotCoordinatorError):
        harness.init()
    with pytest.raises(errors.CoordinatorNotAvailableError):
        harness.coordinator.all()


# --- expiry


def test_ids_that_nobody_uses_are_forgotten(harness: Harness) -> None:
    harness = Harness(transactional_id_expiration_ms=3_600_000)
    used, producer = harness.init(id="used"), harness.init()
    producer = harness.init(producer)
    harness.advance(3000)
    harness.add(used, T0, id="used")
    harness.end(used, commit=True, id="used")
    harness.advance(1000)
    with pytest.raises(errors.TransactionalIdNotFoundError):
        harness.metadata()
    assert harness.state("used") == "CompleteCommit"
    harness.restart()
    assert [metadata.transactional_id for metadata in harness.coordinator.all()] == ["used"]
    assert harness.init() == (1002, 0)


def test_an_id_whose_tombstone_cannot_be_written_stays(harness: Harness) -> None:
    harness = Harness(transactional_id_expiration_ms=1000)
    harness.init()
    harness.storage.failure = errors.KafkaStorageError("full")
    harness.advance(3601)
    assert harness.state() == "Empty"
    harness.storage.failure = None
    harness.advance(3600)
    assert harness.storage.states == ["Empty", "tombstone"]
