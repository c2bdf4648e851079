"""An error at any line of a producer's calls and of its Sender's turn: afterwards it works, or it says why not.

One thread runs all of it on virtual time: where a call waits, the Sender makes its turns. So a line is a line of the
call or of the Sender, and Ctrl-C, `sys.exit()` in a signal's handler and a bug can come at each of them.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import barnabas.client.producer
from barnabas.client import steps
from barnabas.client.environment import Environment
from barnabas.client.producer.buffer_pool import Waiter
from barnabas.client.producer.produce_request_result import Completer
from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.client.producer.producer_core import ProducerCore
from barnabas.client.producer.producer_parts import ProducerParts
from barnabas.client.producer.slow_append import SlowAppend, UnsentRecord
from barnabas.client.producer.transaction_calls import TransactionCalls
from barnabas.client.steps import Steps
from barnabas.errors import KafkaError, KafkaTimeoutError
from barnabas.protocol.api import ApiKey
from tests.support.line_errors import LineErrors
from tests.support.network_fakes import FakeSelector
from tests.unit.client.producer.harness import TOPIC, produce_response
from tests.unit.client.producer.transactions.test_transactions import Transactions

ROOM = Path(barnabas.client.producer.__file__).parent
FILES = [f"client/producer/{path.relative_to(ROOM)}" for path in ROOM.rglob("*.py") if path.stem != "append"]


class TurningWaiter(Waiter):
    """Waits for memory by making the Sender's turns."""

    world: Any

    def wake(self) -> None:
        self.size += 0

    def wait(self, timeout: float) -> Steps[None]:
        yield from self.world.turns(lambda: self.granted == self.size, timeout)


class Still(Environment):
    """Virtual time, and a broker that answers at once."""

    def __init__(self, broker: Transactions) -> None:
        super().__init__(random.Random(7))
        self.now = 1000.0
        self.wire = FakeSelector()
        self.wire.handlers = {
            **(broker.selector.handlers or {}),
            ApiKey.PRODUCE: lambda request: produce_response(request, base_offset=0),
        }

    def clock(self) -> float:
        return self.now

    def selector(self, config: Any, client_id: str) -> FakeSelector:
        return self.wire


class World:
    """A producer of one thread; it is its own `Waits`."""

    def __init__(self, **settings: Any) -> None:
        self.environment = Still(Transactions())
        base = {"bootstrap_servers": "h:1", "linger_ms": 0, "batch_size": 400, "buffer_memory": 1200}
        config = ProducerConfig(None, {**base, "delivery_timeout_ms": 40_000, **settings})
        new_waiter = type("Waiter", (TurningWaiter,), {"world": self})
        self.parts = ProducerParts(config, self.environment, new_waiter)
        self.core = ProducerCore(self.parts, self)
        self.calls = TransactionCalls(self.core, self)
        self.futures: list[Any] = []
        self.completer = Completer(0, "", self.parts.exit.note)

    # `Waits`

    def check_may_wait(self, operation: str) -> None:
        return

    def wait_for_turn(self) -> Steps[None]:
        yield from ()

    def turns(self, is_done: Callable[[], bool], timeout: float | None) -> Steps[bool]:
        deadline = self.environment.now + (60.0 if timeout is None else timeout)
        while not is_done() and self.environment.now < deadline:
            self.turn()
        return is_done()
        yield

    def turn(self) -> None:
        """One turn; an error in it is the Sender's own affair, unless it is the one that the test raises."""
        self.environment.now += 0.02
        self.parts.sender.run_once(self.environment.now)

    def wait_for_metadata(self, metadata: Any, version: int, timeout: float) -> Steps[None]:
        yield from self.turns(lambda: metadata.is_wait_over(version), timeout)
        metadata.await_update(version, 0.0)

    def wait_for_results(self, results: list[Any], timeout: float | None) -> Steps[bool]:
        return (yield from self.turns(lambda: all(result.all_done for result in results), timeout))

    def wait_for_transaction(self, result: Any, timeout: float) -> Steps[None]:
        yield from self.turns(lambda: result.is_completed, timeout)

    def wait_for_instance_id(self, sender: Any, timeout: float) -> Steps[None]:
        yield from ()

    def wait_for_end(self, timeout: float | None) -> Steps[None]:
        self.parts.accumulator.close()
        yield from self.turns(lambda: not self.parts.sender.has_work(), timeout)
        self.parts.sender.shut_down()

    def on_new_batch(self, result: Any) -> None:
        result.completed_by(self.completer)

    # What applications do

    def send(self, value: bytes = b"v", partition: int | None = None) -> None:
        sent = self.core.send_path.do_send(TOPIC, value, None, partition, None, None, None)
        if isinstance(sent, SlowAppend | UnsentRecord):
            sent = steps.run(self.core.finish_send(sent))
        self.futures.append(sent)

    def flush(self) -> None:
        steps.run(self.core.flush(30.0))

    def close(self) -> None:
        steps.run(self.core.close(30.0))


def sending(world: World) -> None:
    for number in range(8):
        world.send(b"x" * 350, number % 2)
    world.flush()


def committing(world: World) -> None:
    steps.run(world.calls.initialize(10.0, False))
    world.calls.begin()
    world.send()
    steps.run(world.calls.commit(10.0))
    world.calls.begin()
    world.send()
    steps.run(world.calls.abort(10.0))


def closing(world: World) -> None:
    world.send()
    world.send(b"w", 1)
    world.close()


SCENARIOS: dict[str, tuple[Callable[[World], None], dict[str, Any]]] = {
    "send and flush": (sending, {}),
    "transactions": (committing, {"transactional_id": "id"}),
    "close": (closing, {}),
}
ERRORS = (KeyboardInterrupt, SystemExit, ZeroDivisionError)


def lines_of(name: str) -> int:
    scenario, settings = SCENARIOS[name]
    world = World(**settings)
    counted = LineErrors(FILES)
    with counted.watching():
        scenario(world)
    return counted.count


def check_afterwards(world: World) -> None:
    """What must hold after an error anywhere: the next calls work or say why not, and nothing is left behind."""
    said: list[BaseException] = []
    for call in (lambda: world.send(b"after", 0), world.flush):
        try:
            call()
        except (KafkaError, SystemExit, KeyboardInterrupt) as error:
            said.append(error)
    if world.parts.transactions is None and world.core.path.closed_reason is None:
        assert said == []
        assert world.futures[-1].exception(0) is None
    # Whatever nobody can know any more ends after delivery.timeout.ms.
    world.environment.now += 41.0
    if not world.parts.accumulator.closed:
        for _ in range(40):
            world.turn()
    try:
        world.close()
    except KafkaTimeoutError as error:
        said.append(error)
    assert all(future.done() for future in world.futures)
    pool = world.parts.pool
    if pool.available_memory != pool.total_memory:
        # What an interrupted call dropped is in circles of its traceback.
        gc.collect()
    assert (pool.available_memory, pool.queued) == (pool.total_memory, 0)
    assert not world.parts.accumulator.has_incomplete()


def run_to(name: str, at: int, error: BaseException) -> str:
    scenario, settings = SCENARIOS[name]
    world = World(**settings)
    errors = LineErrors(FILES, at, lambda: error)
    try:
        with errors.watching():
            scenario(world)
    except BaseException as raised:
        if raised is not error and not isinstance(raised, KafkaError):
            raise
        raised.__traceback__ = None
    error.__traceback__ = None
    try:
        check_afterwards(world)
    except BaseException as problem:
        problem.add_note(f"after {type(error).__name__} at {errors.place}")
        raise
    return errors.place


def some(name: str, stride: int) -> Iterator[tuple[int, type[BaseException]]]:
    for at in range(lines_of(name)):
        if at % stride == 0:
            yield at, ERRORS[at // stride % len(ERRORS)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_after_an_error_at_any_line_the_producer_works_or_says_why_not(name: str) -> None:
    seen = {run_to(name, at, error()) for at, error in some(name, 7)}

    assert len(seen) > 20


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_an_error_at_every_single_line_too(name: str, error: type[BaseException]) -> None:
    for at in range(lines_of(name)):
        run_to(name, at, error())
