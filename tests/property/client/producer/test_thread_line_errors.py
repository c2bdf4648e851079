"""An error at any line of the threaded producer's calls, and of the Sender's turns in its own thread.

The core's lines are tried on virtual time (`test_producer_interrupts`); here two real threads meet, so what is looked
at is how they wait for each other and how the thread ends. Where a line is reached depends on the threads, so a number
is tried and not a place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from barnabas.errors import KafkaError
from tests.support.line_errors import LineErrors
from tests.unit.client.producer.storing_broker import StoringBroker, connect

#: The shell: what runs in the application's thread and in the Sender's, but for the compiled path of `send`.
FILES = [
    f"client/producer/{name}.py"
    for name in ("producer", "producer_base", "producer_core", "thread_waits", "sender_thread", "sender", "lifetime")
]
ERRORS = (KeyboardInterrupt, SystemExit, ZeroDivisionError)
SETTINGS = {
    "linger_ms": 0, "batch_size": 400, "buffer_memory": 1200, "delivery_timeout_ms": 2000, "request_timeout_ms": 1000,
    "max_block_ms": 2000,
}  # fmt: skip


class Life:
    """A producer that sends, flushes and closes, whatever is raised meanwhile in a call or in the Sender's turn."""

    def __init__(self, broker: StoringBroker, errors: LineErrors, *, in_sender: bool) -> None:
        self.errors = errors
        self.watched = nullcontext if in_sender else errors.watching
        self.producer = connect(broker, **SETTINGS)
        self.thread = self.producer._thread
        self.futures: list[Any] = []
        self.said: list[BaseException] = []
        if in_sender:
            run_once = self.producer._core.parts.sender.run_once

            def watched_turn(now: float) -> None:
                with errors.watching():
                    run_once(now)

            self.producer._core.parts.sender.run_once = watched_turn  # type: ignore[method-assign]

    def call(self, call: Callable[[], Any]) -> Any:
        try:
            with self.watched():
                return call()
        except (KafkaError, *ERRORS) as error:
            self.said.append(error.with_traceback(None))
            return None

    def send(self, value: bytes = b"v") -> None:
        future = self.call(lambda: self.producer.send("one", value))
        if future is not None:
            self.futures.append(future)

    def live(self) -> None:
        for _ in range(4):
            self.send(b"x" * 350)
        self.call(lambda: self.producer.flush(10))
        self.send()

    def end(self) -> None:
        self.call(lambda: self.producer.close(10))
        # One that was interrupted before it had begun is called again; otherwise this does nothing.
        self.call(lambda: self.producer.close(10))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def lines(*, in_sender: bool) -> int:
    errors = LineErrors(FILES)
    with StoringBroker() as broker:
        life = Life(broker, errors, in_sender=in_sender)
        life.live()
        life.end()
    assert life.said == []
    return errors.count


def check(at: int, error: type[BaseException], *, in_sender: bool) -> str:
    errors = LineErrors(FILES, at, lambda: error("from outside"))
    with StoringBroker() as broker:
        life = Life(broker, errors, in_sender=in_sender)
        life.live()
        # The next record is stored, or the call or its future says why not.
        before = len(life.futures)
        life.send(b"after")
        life.call(lambda: life.producer.flush(10))
        refusals = [future.exception(5) for future in life.futures[before:]]
        life.end()
    told = (errors.place, life.said, refusals)
    assert not life.thread.is_alive(), told
    assert all(future.done() for future in life.futures), told
    assert refusals != [None] or b"after" in broker.values, told
    assert all(isinstance(refusal, KafkaError) for refusal in refusals if refusal is not None), told
    if not in_sender:
        assert refusals in ([None], []), told
    assert all(isinstance(said, KafkaError) or str(said) == "from outside" for said in life.said), told
    pool = life.producer._core.parts.pool
    assert (pool.available_memory, pool.queued) == (pool.total_memory, 0), told
    return errors.place


def some(places: int, *, in_sender: bool) -> Iterator[tuple[int, type[BaseException]]]:
    count = lines(in_sender=in_sender)
    step = max(1, count // places)
    for number, at in enumerate(range(0, count, step)):
        yield at, ERRORS[number % len(ERRORS)]


@pytest.mark.parametrize("in_sender", [False, True], ids=["calls", "Sender"])
def test_after_an_error_at_a_line_the_thread_ends_and_every_future_too(in_sender: bool) -> None:
    seen = {check(at, error, in_sender=in_sender) for at, error in some(24, in_sender=in_sender)}

    assert len(seen - {""}) > 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("in_sender", [False, True], ids=["calls", "Sender"])
def test_the_same_at_many_more_lines(in_sender: bool, error: type[BaseException]) -> None:
    for at, _ in some(600, in_sender=in_sender):
        check(at, error, in_sender=in_sender)
