"""A consumer after an exception that was raised before any of its lines: the next call works, and nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import TopicPartition
from barnabas.errors import KafkaError
from barnabas.protocol.api import ApiKey
from tests.support.line_errors import LineErrors
from tests.support.scripted_cluster import ScriptedCluster
from tests.unit.client.consumer.recorder import Recorder

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RECORDS = {(partition, number) for partition in (T0, T1) for number in range(12)}
ROOMS = ("client", "network")
ERRORS = (KeyboardInterrupt, SystemExit, RuntimeError)
#: How many places are tried for each error; the lines of a life are some thousands.
PLACES = 25


class Watched(ScriptedCluster):
    """A cluster on which either the application's calls are watched, or the turns of the heartbeat thread."""

    def __init__(self, errors: LineErrors, *, watches_heartbeat: bool) -> None:
        super().__init__()
        self._errors = errors
        self._watches_heartbeat = watches_heartbeat
        for partition in (T0, T1):
            for number in range(0, 12, 3):
                self.append("t", partition.partition, *(f"{number + n}".encode() for n in range(3)))

    def run_membership(self) -> None:
        """See `ScriptedCluster`."""
        if self._watches_heartbeat:
            with self._errors.watching():
                super().run_membership()
        else:
            with self._errors.sparing():
                super().run_membership()


class Life:
    """A consumer that reads, commits, seeks and closes, whatever is raised meanwhile."""

    def __init__(self, protocol: str, errors: LineErrors, *, in_heartbeat: bool = False) -> None:
        self.errors = errors
        self.in_heartbeat = in_heartbeat
        self.cluster = Watched(errors, watches_heartbeat=in_heartbeat)
        self.listener = Recorder()
        self.seen: list[tuple[TopicPartition, int]] = []
        self.refusals: list[BaseException] = []
        self.consumer = self.cluster.consumer(
            group_id="g", enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=5,
            group_protocol=protocol,
        )  # fmt: skip
        self.consumer.subscribe(["t"], self.listener)

    def call(self, call: Callable[[], Any]) -> Any:
        try:
            if self.in_heartbeat:
                return call()
            with self.errors.watching():
                return call()
        except (KafkaError, *ERRORS) as error:
            self.refusals.append(error)
            return None

    def poll(self) -> None:
        records = self.call(lambda: self.consumer.poll(0.5))
        self.seen += [(TopicPartition(record.topic, record.partition), int(record.value)) for record in records or ()]

    def commit(self) -> None:
        self.call(lambda: self.consumer.commit(timeout=3))

    def live(self) -> None:
        for _ in range(6):
            self.poll()
        self.commit()
        self.call(lambda: self.consumer.commit_async(callback=lambda offsets, error: None))
        self.call(lambda: self.consumer.seek(T0, 0))
        self.call(lambda: self.consumer.position(T1, timeout=3))
        for _ in range(4):
            self.poll()

    def read_all(self) -> None:
        """Poll for two minutes, but not for ever where time stands still because every call is refused."""
        until = self.cluster.now + 120
        for _ in range(300):
            if set(self.seen) != RECORDS and self.cluster.now < until:
                self.poll()

    def close(self) -> None:
        self.call(self.consumer.close)
        # One that was interrupted before it had begun is called again; otherwise this does nothing.
        self.call(self.consumer.close)

    def let_the_core_end(self) -> None:
        """The process goes on for a while after `close`."""
        core, until = self.cluster._core, self.cluster.now + 10
        while core is not None and not core.is_done and self.cluster.now < until:
            self.cluster.sleep(0.1)

    def farewells(self) -> list[Any]:
        """What took the member out of its group."""
        gone = [one for one in self.cluster.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT) if one.member_epoch < 0]
        return self.cluster.asked(ApiKey.LEAVE_GROUP) + gone


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def lines(protocol: str, live: Callable[[Life], object], **options: Any) -> int:
    """How many lines run where nothing is raised; the caches of the codec are filled thereby."""
    errors = LineErrors(ROOMS)
    life = Life(protocol, errors, **options)
    live(life)
    assert life.refusals == []
    return errors.count


def places(count: int, offset: int, most: int) -> range:
    step = max(1, count // most)
    return range(offset % step, count, step)


def read_and_close(life: Life) -> None:
    life.live()
    life.read_all()
    life.close()


def check_calls(protocol: str, error: type[BaseException], most: int) -> None:
    count = lines(protocol, read_and_close)
    for at in places(count, 7 * ERRORS.index(error), most):
        errors = LineErrors(ROOMS, at, lambda: error("from outside"))
        life = Life(protocol, errors)
        life.live()
        life.read_all()
        assert set(life.seen) == RECORDS, (errors.place, RECORDS - set(life.seen), life.refusals)
        # At most the fetch that waits for more.
        assert len(life.consumer._parts.client._outstanding) <= 1, errors.place
        life.close()
        life.let_the_core_end()
        assert life.farewells(), (errors.place, life.refusals)
        assert life.cluster._core.is_done, errors.place


def check_heartbeats(protocol: str, error: type[BaseException], most: int) -> None:
    count = lines(protocol, read_and_close, in_heartbeat=True)
    for at in places(count, 7 * ERRORS.index(error), most):
        errors = LineErrors(ROOMS, at, lambda: error("from outside"))
        life = Life(protocol, errors, in_heartbeat=True)
        life.live()
        life.read_all()
        assert set(life.seen) == RECORDS, (errors.place, RECORDS - set(life.seen), life.refusals)
        told = [refusal for refusal in life.refusals if "heartbeat thread failed" in str(refusal)]
        assert len(told) <= 2, (errors.place, life.refusals)
        life.commit()
        for _ in range(4):
            life.poll()
        life.consumer.commit(timeout=3)
        life.close()
        life.let_the_core_end()
        assert life.farewells(), (errors.place, life.refusals)
        assert life.cluster._core.is_done, errors.place


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("error", ERRORS)
def test_whatever_is_raised_in_a_call_the_next_calls_work_and_no_member_is_left(
    protocol: str, error: type[BaseException]
) -> None:
    check_calls(protocol, error, PLACES)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("error", ERRORS)
def test_whatever_is_raised_in_the_heartbeat_thread_is_told_and_the_consumer_joins_its_group_again(
    protocol: str, error: type[BaseException]
) -> None:
    check_heartbeats(protocol, error, PLACES)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("check", [check_calls, check_heartbeats])
def test_the_same_at_many_more_lines(
    protocol: str, error: type[BaseException], check: Callable[[str, type[BaseException], int], None]
) -> None:
    check(protocol, error, 600)


def test_a_closed_consumer_stays_closed_after_an_interruption() -> None:
    def live(life: Life) -> None:
        life.poll()
        life.close()

    count = lines("classic", live)
    for at in places(count, 3, PLACES):
        errors = LineErrors(ROOMS, at, KeyboardInterrupt)
        life = Life("classic", errors)
        live(life)
        life.close()
        life.let_the_core_end()
        with pytest.raises(KafkaError, match="closed"):
            life.consumer.poll(0)
        core = life.cluster._core
        assert core is None or core.is_done, errors.place
