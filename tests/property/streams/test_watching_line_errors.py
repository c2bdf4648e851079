"""An error at any line of the thread that watches a `KafkaStreams`, with Spark and brokers played.

Nothing else tells how the query ended, starts it again, or ends the processes of its tasks. So an error there that was
not foreseen ends the application in ERROR with its query stopped, and `close()` returns.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.streams import StreamsBuilder
from barnabas.streams.spark import kafka_streams
from barnabas.streams.spark.group_offsets import Standing
from barnabas.streams.spark.kafka_streams import KafkaStreams, State, StreamThreadExceptionResponse
from tests.contract.waiting import eventually
from tests.support.line_errors import EVERY, LineErrors, check_places

ROOMS = tuple(f"streams/spark/{name}.py" for name in ("kafka_streams", "group_offsets", "pattern_topics"))


class PlayedQuery:
    """In place of Spark's query: makes progress for some turns, then fails with this error, or has ended without."""

    id = "q"
    name = "query"

    def __init__(self, turns: int, error: Exception | None) -> None:
        self._left, self._error = turns, error
        self._is_stopped = False
        self.status = {"message": "Waiting"}

    @property
    def isActive(self) -> bool:
        self._left -= 1
        return not self.has_ended

    @property
    def lastProgress(self) -> Any:
        return SimpleNamespace(sources=[SimpleNamespace(endOffset=json.dumps({"t": {"0": 1_000_000 - self._left}}))])

    def exception(self) -> Exception | None:
        return None if self._is_stopped else self._error

    def stop(self) -> None:
        self._is_stopped = True

    @property
    def has_ended(self) -> bool:
        return self._is_stopped or self._left <= 0


class PlayedDispatcher:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self, decided: Any = None) -> None:
        self.is_closed = True

    run = staticmethod(lambda requests, is_wanted: [])


class PlayedCluster:
    """In place of an AdminClient; a topic of the pattern appears at the second look."""

    def __init__(self) -> None:
        self.looks = 0

    def alter_consumer_group_offsets(self, group: str, offsets: dict[TopicPartition, Any]) -> None:
        assert offsets

    def delete_records(self, before: Any) -> None:
        pass

    def list_topics(self) -> list[str]:
        self.looks += 1
        return ["t-1"] if self.looks == 2 else []

    def close(self) -> None:
        pass


class Played(KafkaStreams):
    """An application on a Spark and on brokers that are played.

    Its first query fails, in the second one a topic appears that its pattern matches, the third one ends by itself.
    """

    def __init__(self, errors: LineErrors, last: int = 4) -> None:
        builder = StreamsBuilder()
        builder.stream(re.compile("t.*")).to("u")
        settings = {
            "application.id": "a", "bootstrap.servers": "h:1", "repartition.purge.interval.ms": 0,
            "metadata.max.age.ms": 0,
        }  # fmt: skip
        super().__init__(builder.build(), settings, spark=SimpleNamespace())  # type: ignore[arg-type]
        self.set_uncaught_exception_handler(lambda error: StreamThreadExceptionResponse.REPLACE_THREAD)
        self.errors = errors
        self.queries: list[PlayedQuery] = []
        self.dispatchers: list[PlayedDispatcher] = []
        self.to_come = [(3, RuntimeError("the query has failed")), (100, None), (last, None)]

    def _prepared(self) -> Any:
        return SimpleNamespace(place=None)

    def _new_dispatcher(self) -> Any:
        self.dispatchers.append(PlayedDispatcher())
        return self.dispatchers[-1]

    def _start_query(self) -> None:
        self.queries.append(PlayedQuery(*self.to_come[len(self.queries)]))
        self._query = self.queries[-1]  # type: ignore[assignment]
        self._batches: Any = SimpleNamespace(error=None, decided={}, standing=Standing({}, 0, frozenset()))

    def _watch_to_the_end(self) -> None:
        with self.errors.watching():
            super()._watch_to_the_end()


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kafka_streams, "_TURN", 0.001)
    monkeypatch.setattr(kafka_streams.group_offsets, "admin_of", lambda settings: PlayedCluster)
    monkeypatch.setattr(kafka_streams.starting_offsets, "decided_offsets", lambda place, query: {})
    monkeypatch.setattr(kafka_streams.driver_steps, "let_go", lambda place, query: None)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def life(errors: LineErrors) -> list[str]:
    """Start it, let it follow its queries to the end, close it."""
    streams = Played(errors)
    streams.start()
    assert streams.wait_for(State.ERROR, State.NOT_RUNNING, timeout=10), (streams.state, errors.place)
    assert streams._monitor is not None
    streams._monitor.join(10)
    assert streams.exception is not None or streams.state is State.NOT_RUNNING, errors.place
    # Where the handler could not be asked, the query's own error ends it.
    assert str(streams.exception) in ("None", "planted", "the query has failed"), errors.place
    assert errors.place or len(streams.queries) == 3
    assert all(query.has_ended for query in streams.queries), errors.place
    assert all(each.is_closed for each in streams.dispatchers), errors.place
    assert streams.close(10_000), errors.place
    assert streams.state is State.NOT_RUNNING, errors.place
    return []


def test_an_error_at_some_lines_ends_the_application_in_error() -> None:
    check_places(life, ROOMS, 30)


@pytest.mark.slow
def test_an_error_at_every_line_does_so() -> None:
    check_places(life, ROOMS, EVERY)


def test_a_listener_that_fails_changes_nothing() -> None:
    def fail(new: State, old: State) -> None:
        raise RuntimeError("of the application's own")

    streams = Played(LineErrors(ROOMS), last=1_000_000)
    streams.set_state_listener(fail)
    streams.start()
    assert streams.wait_for(State.RUNNING, timeout=10)
    assert streams.close(10_000)


def test_a_spark_that_is_gone_ends_the_application_and_close_says_so_once() -> None:
    streams = Played(LineErrors(ROOMS), last=1_000_000)
    streams.start()
    assert streams.wait_for(State.RUNNING, timeout=10)

    def gone() -> None:
        raise ConnectionRefusedError("the JVM does not answer")

    eventually(lambda: len(streams.queries) == 3)
    streams.queries[-1].stop = gone  # type: ignore[method-assign]
    streams.queries[-1]._is_stopped = True
    with pytest.raises(ConnectionRefusedError, match="the JVM does not answer"):
        streams.close(10_000)
    assert streams.state is State.NOT_RUNNING
    assert streams.close()
