"""Markers may be answered at once, later, never, twice, or with an error (leaders on other brokers)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.transactions.marker import Marker, MarkerAnswer
from tests.unit.broker.transactions.harness import ID, T0, T1, Harness

FAILURE = errors.NotLeaderOrFollowerError("moving")


class LateMarkers:
    """Keeps every marker until the test answers it."""

    def __init__(self) -> None:
        self.sent: list[Marker] = []
        self.waiting: dict[tuple[str, int], MarkerAnswer] = {}

    def write(self, marker: Marker, at: Instant, answer: MarkerAnswer) -> None:
        self.sent.append(marker)
        self.waiting[marker.partition] = answer

    def answer(self, partition: tuple[str, int], error: errors.KafkaError | None = None) -> None:
        self.waiting.pop(partition)(error)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [marker.partition for marker in self.sent]


class LateHarness(Harness):
    def start(self) -> None:
        self.late = LateMarkers()
        self.markers = self.late  # type: ignore[assignment]
        super().start()

    def committed(self, *partitions: tuple[str, int], id: str = ID) -> tuple[int, int]:
        """A transaction whose markers are on their way."""
        producer = self.init(id=id)
        self.add(producer, *partitions, id=id)
        return self.end(producer, commit=True, id=id)


@pytest.fixture
def harness() -> LateHarness:
    return LateHarness()


def test_a_transaction_is_complete_when_the_last_partition_has_answered(harness: LateHarness) -> None:
    producer = harness.committed(T0, T1)
    assert harness.state() == "PrepareCommit"

    harness.late.answer(T1)
    harness.advance(0)
    assert (harness.state(), harness.metadata().partitions) == ("PrepareCommit", {T0})
    with pytest.raises(errors.ConcurrentTransactionsError):
        harness.add(producer, T0)

    harness.late.answer(T0)
    harness.advance(0)
    assert harness.state() == "CompleteCommit"
    harness.add(producer, T0)


def test_an_answer_asks_for_a_turn_of_the_loop(harness: LateHarness) -> None:
    harness.committed(T0)
    assert harness.coordinator.next_deadline() > harness.now

    harness.late.answer(T0)

    assert harness.coordinator.next_deadline() <= harness.now


def test_each_marker_is_sent_once_however_many_turns_pass(harness: LateHarness) -> None:
    harness.committed(T0, T1)
    harness.advance(100)

    assert harness.late.partitions == [T0, T1]


def test_a_partition_that_never_answers_holds_up_no_other_transaction(harness: LateHarness) -> None:
    harness.committed(T0)
    harness.committed(T1, id="other")

    harness.late.answer(T1)
    harness.advance(60)

    assert (harness.state(), harness.state("other")) == ("PrepareCommit", "CompleteCommit")


def test_a_partition_that_fails_holds_up_no_other_transaction(harness: LateHarness) -> None:
    """Until now all transactions waited for the backoff of the one that failed."""
    harness.committed(T0)
    harness.late.answer(T0, FAILURE)
    harness.advance(0)

    harness.committed(T1, id="other")
    harness.late.answer(T1)
    harness.coordinator.tick(harness.at)

    assert harness.state("other") == "CompleteCommit"


def test_a_marker_that_failed_is_sent_again_after_a_backoff_that_grows(harness: LateHarness) -> None:
    harness.committed(T0, T1)
    harness.late.answer(T1)
    attempts = [harness.now]
    while len(attempts) < 9:
        harness.late.answer(T0, FAILURE)
        harness.advance(0)
        while T0 not in harness.late.waiting:
            harness.now = harness.coordinator.next_deadline()
            harness.coordinator.tick(harness.at)
        attempts.append(harness.now)

    waits = [round(later - earlier, 3) for earlier, later in pairwise(attempts)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert harness.late.partitions == [T0, T1] + 8 * [T0], "what was answered well is not sent again"
    assert "cannot be completed yet" in harness.warnings[0]

    harness.late.answer(T0)
    harness.advance(0)
    assert harness.state() == "CompleteCommit"


def test_of_many_partitions_that_fail_together_one_line_is_said(harness: LateHarness) -> None:
    partitions = [("t", index) for index in range(250)]
    harness.committed(*partitions)
    harness.advance(0)
    for partition in partitions:
        harness.late.answer(partition, FAILURE)
    harness.advance(0)

    assert len(harness.warnings) == 1


def test_markers_leave_in_pieces(harness: LateHarness) -> None:
    harness.committed(*[("t", index) for index in range(250)])
    assert len(harness.late.sent) == 100

    harness.coordinator.tick(harness.at)
    assert len(harness.late.sent) == 200


def test_a_second_answer_is_void(harness: LateHarness) -> None:
    harness.committed(T0, T1)
    answer = harness.late.waiting[T0]
    answer(None)
    answer(FAILURE)
    harness.late.answer(T1)
    harness.advance(0)
    assert (harness.state(), harness.warnings) == ("CompleteCommit", [])

    answer(None)
    harness.advance(10)
    assert harness.late.partitions == [T0, T1]


@pytest.mark.parametrize("error", [errors.UnknownTopicOrPartitionError(), errors.InvalidProducerEpochError()])
def test_a_partition_that_needs_no_marker_any_more_counts_as_answered(
    harness: LateHarness, error: errors.KafkaError
) -> None:
    harness.committed(T0)
    harness.late.answer(T0, error)
    harness.advance(0)

    assert harness.state() == "CompleteCommit"


def test_a_completion_that_cannot_be_written_is_written_later_without_another_marker(harness: LateHarness) -> None:
    harness.committed(T0)
    harness.storage.failure = errors.KafkaStorageError("full")
    harness.late.answer(T0)
    harness.advance(1)
    assert harness.state() == "PrepareCommit"

    harness.storage.failure = None
    harness.advance(5)
    assert (harness.state(), harness.late.partitions) == ("CompleteCommit", [T0])


# --- elections


def partition(harness: Harness, id: str = ID) -> int:
    return harness.coordinator.partition_for(id)


def test_after_a_resignation_the_id_is_another_brokers_and_late_answers_are_void(harness: LateHarness) -> None:
    harness.committed(T0)
    answer = harness.late.waiting[T0]
    written = list(harness.storage.states)

    harness.coordinator.on_resigned(partition(harness), 1)
    answer(None)
    harness.advance(60)

    assert harness.storage.states == written, "a transaction that belongs to another coordinator is not completed"
    with pytest.raises(errors.NotCoordinatorError):
        harness.state()


def test_a_coordinator_that_is_elected_again_sends_the_markers_in_its_new_epoch(harness: LateHarness) -> None:
    harness.committed(T0)
    harness.coordinator.on_resigned(partition(harness), 1)
    stale = harness.late.waiting.pop(T0)

    harness.coordinator.on_elected(partition(harness), 2)
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        harness.state()
    harness.advance(0)
    assert [(marker.partition, marker.coordinator_epoch) for marker in harness.late.sent] == [(T0, 0), (T0, 2)]

    stale(None)
    harness.advance(0)
    assert harness.state() == "PrepareCommit", "the answer to the marker of the earlier epoch says nothing"
    harness.late.answer(T0)
    harness.advance(0)
    assert harness.state() == "CompleteCommit"


def test_a_newer_epoch_without_a_resignation_keeps_the_state_and_sends_the_markers_again(harness: LateHarness) -> None:
    harness.committed(T0)
    harness.coordinator.on_elected(partition(harness), 3)
    assert harness.state() == "PrepareCommit", "nothing has to be loaded"
    harness.advance(0)

    assert [marker.coordinator_epoch for marker in harness.late.sent] == [0, 3]


def test_elections_of_the_past_change_nothing(harness: LateHarness) -> None:
    harness.committed(T0)
    harness.coordinator.on_elected(partition(harness), 5)
    harness.advance(0)
    harness.coordinator.on_elected(partition(harness), 4)
    harness.coordinator.on_resigned(partition(harness), 5)
    harness.coordinator.on_resigned(partition(harness), 3)

    assert harness.state() == "PrepareCommit"
    assert [marker.coordinator_epoch for marker in harness.late.sent] == [0, 5]


def test_a_fenced_coordinator_sends_no_more(harness: LateHarness) -> None:
    harness.committed(T0, T1)
    harness.late.answer(T0, errors.TransactionCoordinatorFencedError())
    harness.late.answer(T1)
    harness.advance(60)

    assert harness.state() == "PrepareCommit"
    assert harness.late.partitions == [T0, T1]


def test_what_timed_out_in_a_partition_of_another_broker_is_not_aborted_here(harness: LateHarness) -> None:
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    harness.coordinator.on_resigned(partition(harness), 1)
    written = list(harness.storage.states)

    harness.advance(600)

    assert harness.storage.states == written


def test_an_open_transaction_is_aborted_in_time_by_the_broker_that_loads_it(harness: LateHarness) -> None:
    producer = harness.init(timeout_ms=1000)
    harness.add(producer, T0)
    harness.coordinator.on_resigned(partition(harness), 1)
    harness.coordinator.on_elected(partition(harness), 2)

    harness.advance(60)

    assert harness.state() == "PrepareAbort"


def test_other_partitions_answer_while_one_is_loaded(harness: LateHarness) -> None:
    for id in ("a", "b"):
        harness.init(id=id)
    assert partition(harness, "a") != partition(harness, "b")
    harness.coordinator.on_resigned(partition(harness, "a"), 1)
    harness.coordinator.on_elected(partition(harness, "a"), 2)

    assert harness.state("b") == "Empty"
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        harness.init(id="a")


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_the_next_transaction_waits_for_the_markers_of_this_one(harness: LateHarness, commit: bool) -> None:
    following = harness.committed(T0)
    with pytest.raises(errors.ConcurrentTransactionsError):
        harness.end(following, commit=commit)
    with pytest.raises(errors.ProducerFencedError):
        harness.end((following[0], following[1] + 1), commit=commit)
    harness.late.answer(T0)
    harness.advance(0)
    harness.end(following, commit=False)
    assert harness.state() == "CompleteAbort"
