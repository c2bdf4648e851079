"""A share group as a streaming source: what becomes of a micro-batch's records, on a queue that a test plays."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas import ConsumerRecord
from barnabas.errors import KafkaError, KafkaTimeoutError
from barnabas.spark import share_group_reader
from barnabas.spark.errors import OptionError
from barnabas.spark.options import SourceOptions
from barnabas.spark.share_group_reader import ShareGroupStreamReader

ALL = ReadAllAvailable()
GIVEN = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t", "shareGroup": "g"}


def record(offset: int) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("t", 0, offset, key=b"k", value=b"%d" % offset, timestamp=1)


class PlayedQueue:
    """In the place of a `ShareConsumer`: gives each of `polls`, and notes what is said."""

    def __init__(self, *polls: Sequence[int], lock: float = 30.0) -> None:
        self.polls = [[record(offset) for offset in offsets] for offsets in polls]
        self.lock = lock
        self.said: list[tuple[int, str]] = []
        self.refuses: KafkaError | None = None
        self.is_closed = False
        self._renewed: list[ConsumerRecord[bytes, bytes]] = []

    def poll(self, timeout: float) -> list[ConsumerRecord[bytes, bytes]]:
        renewed, self._renewed = self._renewed, []
        if renewed:
            return renewed
        if not self.polls:
            time.sleep(0.001)
        return self.polls.pop(0) if self.polls else []

    def acknowledge(self, one: ConsumerRecord[bytes, bytes], kind: str) -> None:
        self.said.append((one.offset, kind))
        if kind == "renew":
            self._renewed.append(one)

    def commit_sync(self, timeout: float) -> dict[Any, KafkaError | None]:
        if self.refuses is not None:
            raise self.refuses
        return {"t-0": None}

    def acquisition_lock_timeout(self) -> float:
        return self.lock

    def close(self) -> None:
        self.is_closed = True


def reader(queue: PlayedQueue, **options: str) -> ShareGroupStreamReader:
    return ShareGroupStreamReader(SourceOptions({**GIVEN, **options}, streaming=True), lambda _: queue)  # type: ignore[arg-type, return-value]


def offsets_of(found: ShareGroupStreamReader, start: Any, end: Any) -> list[list[int]]:
    """The offsets of each task, read as in an executor."""
    copy, tasks = pickle.loads(pickle.dumps((found, found.partitions(start, end))))
    return [[n for batch in copy.read(task) for n in batch.column("offset").to_pylist()] for task in tasks]


def test_a_micro_batch_is_accepted_when_the_sink_has_committed_it() -> None:
    queue = PlayedQueue([0, 1, 2])
    found = reader(queue)
    start = found.initialOffset()
    end = found.latestOffset(start, ALL)
    assert offsets_of(found, start, end) == [[0, 1, 2]]
    assert found.latestOffset(start, ALL) == end, "it is asked again and again"
    assert queue.said == []
    found.commit(end)
    assert queue.said == [(0, "accept"), (1, "accept"), (2, "accept")]
    found.stop()
    assert queue.is_closed


def test_a_micro_batch_that_fails_is_released() -> None:
    queue = PlayedQueue([0, 1])
    found = reader(queue)
    found.latestOffset(found.initialOffset(), ALL)
    found.stop()
    assert queue.said == [(0, "release"), (1, "release")]


def test_nothing_new_is_read_before_the_micro_batch_is_over() -> None:
    queue = PlayedQueue([0], [1])
    found = reader(queue)
    start = found.initialOffset()
    first = found.latestOffset(start, ALL)
    found.commit(first)
    second = found.latestOffset(first, ALL)
    assert (second["batch"], offsets_of(found, first, second)) == (2, [[1]])
    found.commit(first)
    assert queue.said == [(0, "accept")], "what was committed before says nothing of the next one"
    found.stop()


def test_a_micro_batch_of_a_driver_that_has_ended_is_empty_and_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    before = reader(PlayedQueue([0]))
    start = before.initialOffset()
    planned = before.latestOffset(start, ALL)
    before.stop()
    queue = PlayedQueue([0])
    after = reader(queue)
    assert offsets_of(after, start, planned) == [[]]
    assert "delivered again" in caplog.text
    after.commit(planned)
    assert queue.said == []
    again = after.latestOffset(planned, ALL)
    assert offsets_of(after, planned, again) == [[0]]
    after.stop()


def test_locks_are_renewed_while_the_micro_batch_runs() -> None:
    queue = PlayedQueue([0, 1], lock=0.05)
    found = reader(queue)
    end = found.latestOffset(found.initialOffset(), ALL)
    deadline = time.monotonic() + 10
    while queue.said.count((0, "renew")) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    found.commit(end)
    kinds = [kind for _, kind in queue.said]
    assert kinds[:4] == ["renew"] * 4
    assert kinds[-2:] == ["accept"] * 2
    count = len(kinds)
    time.sleep(0.1)
    assert len(queue.said) == count, "what is over is not renewed"
    found.stop()


def test_locks_are_renewed_again_after_any_error(caplog: pytest.LogCaptureFixture) -> None:
    queue = PlayedQueue([0], lock=0.05)
    commit, failures = queue.commit_sync, [ArithmeticError("not foreseen")]

    def fail_once(timeout: float) -> dict[Any, KafkaError | None]:
        if failures:
            raise failures.pop()
        return commit(timeout)

    queue.commit_sync = fail_once  # type: ignore[method-assign]
    found = reader(queue)
    end = found.latestOffset(found.initialOffset(), ALL)
    deadline = time.monotonic() + 10
    while queue.said.count((0, "renew")) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    found.commit(end)
    assert queue.said.count((0, "renew")) >= 3
    assert "Locks could not be renewed; records may be delivered twice: ArithmeticError" in caplog.text
    found.stop()


def test_a_query_of_what_there_is_now_ends_with_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_group_reader, "_IS_EMPTY_AFTER", 0.01)
    found = reader(PlayedQueue([0], [], lock=30))
    found.prepareForTriggerAvailableNow()
    first = found.latestOffset(found.initialOffset(), ALL)
    found.commit(first)
    assert found.latestOffset(first, ALL) == first
    found._consumer.polls.append([record(1)])  # type: ignore[union-attr]
    assert found.latestOffset(first, ALL) == first, "what comes later is the next query's"
    found.stop()


def test_records_become_the_tasks_that_are_asked_for() -> None:
    found = reader(PlayedQueue(range(10)), minPartitions="3")
    start = found.initialOffset()
    assert [len(one) for one in offsets_of(found, start, found.latestOffset(start, ALL))] == [4, 4, 2]
    found.stop()


def test_a_micro_batch_is_accepted_when_spark_asks_what_follows_it() -> None:
    """Spark tells of the end of a micro-batch when it plans the next one, which an empty queue never brings."""
    queue = PlayedQueue([0])
    found = reader(queue)
    end = found.latestOffset(found.initialOffset(), ALL)
    assert found.latestOffset(end, ALL) == end
    assert queue.said == [(0, "accept")]
    found.stop()
    assert queue.said == [(0, "accept")]


def test_what_cannot_be_accepted_is_said_and_the_query_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    queue = PlayedQueue([0])
    queue.refuses = KafkaTimeoutError("too late")
    found = reader(queue)
    found.commit(found.latestOffset(found.initialOffset(), ALL))
    assert "delivered again: too late" in caplog.text
    found.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shareGroup": " "}, "shareGroup is empty"),
        ({"startingOffsets": "earliest"}, "startingoffsets cannot be combined with shareGroup"),
        ({"kafka.group.id": "other"}, "kafka.group.id cannot be combined"),
        ({"kafka.isolation.level": "read_committed"}, "kafka.isolation.level is not a setting of share consumers"),
        ({"failOnDataLoss": "false"}, "failondataloss cannot be combined"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_a_queue_does_not_have_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions({**GIVEN, **options}, streaming=True)


def test_a_queue_is_read_by_name_and_by_streaming_queries() -> None:
    with pytest.raises(OptionError, match="shareGroup needs subscribe"):
        SourceOptions(
            {"kafka.bootstrap.servers": "h:9092", "subscribePattern": "t.*", "shareGroup": "g"}, streaming=True
        )
    with pytest.raises(OptionError, match="shareGroup is for streaming queries"):
        SourceOptions(GIVEN, streaming=False)
