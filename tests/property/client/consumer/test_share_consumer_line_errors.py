"""A share consumer after an exception that was raised before any of its lines: no record is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import ShareConsumer
from barnabas.errors import KafkaError
from barnabas.protocol.api import ApiKey
from tests.support.line_errors import LineErrors
from tests.support.scripted_queue import ACCEPTED, ScriptedQueue

RECORDS = {(partition, number) for partition in (0, 1) for number in range(12)}
ROOMS = ("client", "network")
ERRORS = (KeyboardInterrupt, SystemExit, RuntimeError)
#: How many places are tried for each error; the lines of a life are some thousands.
PLACES = 8


class Watched(ScriptedQueue):
    """A broker on which either the application's calls are watched, or the turns of the heartbeat thread."""

    def __init__(self, errors: LineErrors, *, watches_heartbeat: bool) -> None:
        super().__init__()
        # No record is archived because of the deliveries that are interrupted here.
        self.limit = 1000
        self._errors = errors
        self._watches_heartbeat = watches_heartbeat
        for partition in (0, 1):
            for number in range(0, 12, 3):
                self.append("t", partition, *(f"{number + n}".encode() for n in range(3)))

    def run_membership(self) -> None:
        """See `ScriptedCluster`."""
        with self._errors.watching() if self._watches_heartbeat else self._errors.sparing():
            super().run_membership()


class Life:
    """A share consumer that reads, commits and closes, though exceptions come in between."""

    def __init__(self, errors: LineErrors, *, is_explicit: bool = False, in_heartbeat: bool = False) -> None:
        self.errors = errors
        self.in_heartbeat = in_heartbeat
        self.is_explicit = is_explicit
        self.cluster = Watched(errors, watches_heartbeat=in_heartbeat)
        self.seen: set[tuple[int, int]] = set()
        self.refusals: list[BaseException] = []
        mode = "explicit" if is_explicit else "implicit"
        self.consumer: ShareConsumer = self.cluster.share_consumer(
            "t", group_id="g", max_poll_records=5, share_acknowledgement_mode=mode
        )
        self.consumer.set_acknowledgement_commit_callback(lambda offsets, error: None)

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
        for record in self.call(lambda: self.consumer.poll(0.5)) or ():
            self.seen.add((record.partition, int(record.value)))
            if self.is_explicit:
                refusals = len(self.refusals)
                self.call(lambda record=record: self.consumer.acknowledge(record))
                if len(self.refusals) > refusals:
                    # Interrupted before it was noted, perhaps; a second time says the same.
                    self.call(lambda record=record: self.consumer.acknowledge(record))

    def live(self) -> None:
        for _ in range(3):
            self.poll()
        self.call(lambda: self.consumer.commit_sync(timeout=3))
        self.poll()
        self.call(self.consumer.commit_async)
        for _ in range(3):
            self.poll()

    def accepted(self) -> set[tuple[int, int]]:
        return {
            (name.partition, offset)
            for (name, offset), delivery in self.cluster.deliveries.items()
            if delivery.state == ACCEPTED
        }

    def read_all(self) -> None:
        """Poll for three minutes, in which every lock that was forgotten is over."""
        until = self.cluster.now + 180
        for _ in range(600):
            if self.accepted() != RECORDS and self.cluster.now < until:
                self.poll()

    def close(self) -> None:
        self.call(self.consumer.close)
        # One that was interrupted before it had begun is called again; otherwise this does nothing.
        self.call(self.consumer.close)

    def let_the_core_end(self) -> None:
        core, until = self.cluster._core, self.cluster.now + 10
        while core is not None and not core.is_done and self.cluster.now < until:
            self.cluster.sleep(0.1)

    def farewells(self) -> list[Any]:
        return [one for one in self.cluster.asked(ApiKey.SHARE_GROUP_HEARTBEAT) if one.member_epoch < 0]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def lines(**options: Any) -> int:
    errors = LineErrors(ROOMS)
    life = Life(errors, **options)
    life.live()
    life.read_all()
    life.close()
    assert life.refusals == []
    assert life.accepted() == RECORDS
    return errors.count


def check(error: type[BaseException], most: int, **options: Any) -> None:
    count = lines(**options)
    step = max(1, count // most)
    for at in range(7 * ERRORS.index(error) % step, count, step):
        errors = LineErrors(ROOMS, at, lambda: error("from outside"))
        life = Life(errors, **options)
        life.live()
        # What was accepted had been handed out, though calls were interrupted.
        assert life.accepted() <= life.seen, (errors.place, life.accepted() - life.seen)
        life.read_all()
        assert life.accepted() == RECORDS, (errors.place, RECORDS - life.accepted(), life.refusals)
        assert life.seen == RECORDS, errors.place
        life.close()
        life.let_the_core_end()
        assert life.farewells(), (errors.place, life.refusals)
        assert life.cluster._core.is_done, errors.place


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_whatever_is_raised_in_a_call_each_record_is_handed_out_and_accepted(
    error: type[BaseException], is_explicit: bool
) -> None:
    check(error, PLACES, is_explicit=is_explicit)


@pytest.mark.parametrize("error", ERRORS)
def test_whatever_is_raised_in_the_heartbeat_thread_the_consumer_joins_its_group_again(
    error: type[BaseException],
) -> None:
    check(error, PLACES, in_heartbeat=True)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("options", [{}, {"is_explicit": True}, {"in_heartbeat": True}], ids=str)
def test_the_same_at_many_more_lines(error: type[BaseException], options: dict[str, Any]) -> None:
    check(error, 600, **options)
