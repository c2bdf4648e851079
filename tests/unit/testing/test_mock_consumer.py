"""`MockConsumer`, as the tests of programs use it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection

import pytest

from barnabas import Consumer, ConsumerRebalanceListener, ConsumerRecord, OffsetAndMetadata, TopicPartition
from barnabas.client.consumer.offsets import OffsetAndTimestamp
from barnabas.errors import IllegalStateError, NoOffsetForPartitionError, OffsetOutOfRangeError, WakeupError
from barnabas.testing.mock_consumer import MockConsumer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def consumer() -> MockConsumer[str, str]:
    made: MockConsumer[str, str] = MockConsumer("earliest")
    made.update_beginning_offsets({T0: 0, T1: 0})
    made.assign([T0, T1])
    return made


def values(records: object) -> list[str]:
    return [record.value for record in records]  # type: ignore[attr-defined]  # ConsumerRecords


def test_it_has_every_method_of_a_consumer_with_the_same_parameters() -> None:
    own = {"poll_arrow", "poll_raw"}  # bytes, which a mock has none of
    for name, method in inspect.getmembers(Consumer, inspect.isfunction):
        if not name.startswith("_") and name not in own:
            mine = inspect.signature(getattr(MockConsumer, name))
            assert list(mine.parameters) == list(inspect.signature(method).parameters), name


def test_records_come_once_in_order_and_positions_follow(consumer: MockConsumer[str, str]) -> None:
    consumer.add("t", 0, "a", "b")
    consumer.add_record(ConsumerRecord("t", 1, 5, key="k", value="c"))

    records = consumer.poll(0.5)

    assert values(records) == ["a", "b", "c"]
    assert records.next_offsets == {T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(6)}
    assert (consumer.position(T0), consumer.position(T1)) == (2, 6)
    assert not consumer.poll()
    assert consumer.last_poll_timeout == 1.0


def test_max_poll_records_bounds_a_poll(consumer: MockConsumer[str, str]) -> None:
    consumer.add("t", 0, "a", "b", "c")
    assert [values(consumer.poll(max_records=2)), values(consumer.poll())] == [["a", "b"], ["c"]]


def test_commits_are_kept_and_a_committed_offset_is_where_reading_begins(consumer: MockConsumer[str, str]) -> None:
    told: list[object] = []
    consumer.add("t", 0, "a")
    consumer.poll()
    consumer.commit()
    consumer.commit_async({T1: 7}, lambda offsets, error: told.append((offsets, error)))

    assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(7)}
    assert told == [({T1: OffsetAndMetadata(7)}, None)]


def test_pause_seek_and_lag(consumer: MockConsumer[str, str]) -> None:
    consumer.add("t", 0, "a", "b", "c")
    consumer.pause(T0)
    assert not consumer.poll()
    assert consumer.paused() == {T0}
    assert consumer.current_lag(T0) == 3
    consumer.resume(T0)
    consumer.seek(T0, 2)
    assert values(consumer.poll()) == ["c"]
    assert consumer.current_lag(T0) == 0


def test_a_rebalance_calls_the_listener_and_drops_what_was_not_read() -> None:
    events: list[tuple[str, Collection[TopicPartition]]] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            events.append(("assigned", partitions))

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            events.append(("revoked", partitions))

    consumer: MockConsumer[str, str] = MockConsumer("latest")
    consumer.update_end_offsets({T0: 0, T1: 0})
    consumer.subscribe("t", Listener())
    with pytest.raises(IllegalStateError, match="not assigned"):
        consumer.add("t", 0, "a")
    consumer.rebalance([T0])
    consumer.add("t", 0, "a")
    consumer.enforce_rebalance()
    assert consumer.should_rebalance
    consumer.rebalance([T1])

    assert events == [("assigned", [T0]), ("revoked", [T0]), ("assigned", [T1])]
    assert not consumer.poll()
    assert not consumer.should_rebalance


def test_tasks_run_inside_poll_and_end_a_loop(consumer: MockConsumer[str, str]) -> None:
    consumer.schedule_poll_task(lambda: consumer.add("t", 0, "a"))
    consumer.schedule_poll_task(lambda: consumer.add("t", 0, "b"))
    consumer.schedule_poll_task(consumer.wakeup)
    records = iter(consumer)

    assert [next(records).value, next(records).value] == ["a", "b"]
    with pytest.raises(WakeupError):
        next(records)
    assert not consumer.poll()


def test_what_a_test_wants_to_fail_fails(consumer: MockConsumer[str, str]) -> None:
    consumer.poll_exception = OSError("no")
    with pytest.raises(OSError, match="no"):
        consumer.poll()
    consumer.poll()
    consumer.offsets_exception = OSError("no")
    with pytest.raises(OSError, match="no"):
        consumer.end_offsets([T0])
    consumer.update_beginning_offsets({T0: 5})
    consumer.add_record(ConsumerRecord("t", 0, 6, value="x"))
    with pytest.raises(OffsetOutOfRangeError):
        consumer.poll()
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


@pytest.mark.parametrize(("reset", "position"), [("earliest", 3), ("latest", 9), ("by_duration:PT1H", 6)])
def test_without_a_committed_offset_the_reset_policy_decides(reset: str, position: int) -> None:
    consumer: MockConsumer[str, str] = MockConsumer(reset)
    consumer.assign([T0])
    with pytest.raises(IllegalStateError, match="call update_"):
        consumer.position(T0)
    consumer.update_beginning_offsets({T0: 3})
    consumer.update_end_offsets({T0: 9})
    consumer.update_duration_offsets({T0: 6})

    assert consumer.position(T0) == position
    consumer.seek_to_end()
    assert consumer.position(T0) == 9
    consumer.seek_to_beginning(T0)
    assert consumer.position(T0) == 3


def test_no_reset_policy_is_an_error() -> None:
    consumer: MockConsumer[str, str] = MockConsumer("none")
    consumer.assign([T0])
    with pytest.raises(NoOffsetForPartitionError):
        consumer.poll()


def test_topics_times_and_patterns(consumer: MockConsumer[str, str]) -> None:
    consumer.add_record(ConsumerRecord("t", 0, 4, 1000, value="x"))
    consumer.update_end_offsets({T0: 5})
    assert consumer.offsets_for_times({T0: 900}) == {T0: OffsetAndTimestamp(4, 1000)}
    assert consumer.offsets_for_times({T0: 1001}) == {T0: None}
    assert consumer.offsets_for_times({T0: -1}) == {T0: OffsetAndTimestamp(5, -1)}
    consumer.unsubscribe()
    consumer.subscribe(re.compile("t.*"))
    consumer.update_partitions("tea", 2)
    consumer.update_partitions("coffee", 1)
    assert consumer.subscription() == {"tea"}
    assert [info.partition for info in consumer.partitions_for("tea")] == [0, 1]
    assert set(consumer.list_topics()) == {"tea", "coffee"}
