"""How tasks wait for what the Sender brings about, which the event loop drives."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

from barnabas.aio.producer_close import ProducerEnding
from barnabas.client.producer.produce_request_result import Completer
from barnabas.client.steps import Steps

if TYPE_CHECKING:
    from barnabas.aio.environment import LoopEnvironment
    from barnabas.client.producer.produce_request_result import ProduceRequestResult
    from barnabas.client.producer.producer_parts import ProducerParts
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.client.producer_metadata import ProducerMetadata
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender
    from barnabas.network.loop_driver import LoopDriver

# After so many new batches, or so many bytes of them, send() lets the loop have a turn, in which they leave: every few
# milliseconds, when nothing else holds it up.
BATCHES_PER_TURN = 32
BYTES_PER_TURN = 512 * 1024
BLOCKS_LOOP = "Waiting here would block the event loop for ever: await the future instead"


class LoopWaits:
    """`Waits` whose steps yield what the task awaits."""

    def __init__(self, parts: ProducerParts, environment: LoopEnvironment, driver: LoopDriver) -> None:
        self._parts = parts
        self._environment = environment
        self._driver = driver
        self._completer: Completer | None = None
        self._new_batches = 0
        batches = BYTES_PER_TURN // max(1, parts.config.get_int("batch.size"))
        self._batches_per_turn = max(1, min(BATCHES_PER_TURN, batches))
        self.telemetry: ClientTelemetrySender | None = None
        self.ending: ProducerEnding | None = None

    def check_may_wait(self, operation: str) -> None:
        """See `Waits`; a task may wait anywhere."""

    @property
    def is_turn_due(self) -> bool:
        """Whether the loop is to have a turn before more records are taken."""
        return self._new_batches >= self._batches_per_turn

    def wait_for_turn(self) -> Steps[None]:
        """See `Waits`."""
        self._environment.bind()
        if self.is_turn_due:
            self._new_batches = 0
            yield asyncio.sleep(0)

    def wait_for_metadata(self, metadata: ProducerMetadata, version: int, timeout: float) -> Steps[None]:
        """See `Waits`."""
        yield self._driver.until(partial(metadata.is_wait_over, version), timeout)
        metadata.await_update(version, 0.0)

    def wait_for_results(self, results: list[ProduceRequestResult], timeout: float | None) -> Steps[bool]:
        """See `Waits`."""
        waiting = list(results)

        def is_done() -> bool:
            while waiting and waiting[-1].all_done:
                waiting.pop()
            return not waiting

        return bool((yield self._driver.until(is_done, timeout)))

    def wait_for_transaction(self, result: TransactionalRequestResult, timeout: float) -> Steps[None]:
        """See `Waits`."""
        yield self._driver.until(lambda: result.is_completed, timeout)

    def wait_for_instance_id(self, sender: ClientTelemetrySender, timeout: float) -> Steps[None]:
        """See `Waits`."""
        yield self._driver.until(sender.has_answer, timeout)

    def wait_for_end(self, timeout: float | None) -> Steps[None]:
        """See `Waits`. A second call waits for the same end, and one that is cancelled leaves it going on."""
        if self.ending is None:
            parts = self._parts
            max_block = parts.config.get_seconds("max.block.ms")
            self.ending = ProducerEnding(self._driver, parts.sender, parts.accumulator, max_block, self.telemetry)
            self.ending.task.add_done_callback(lambda _: self._close_parts())
        yield self.ending.wait(timeout)

    def _close_parts(self) -> None:
        self._parts.close()
        self._driver.look_again()

    def on_new_batch(self, result: ProduceRequestResult) -> None:
        """See `Waits`."""
        self._new_batches += 1
        if self._completer is None:
            self._completer = Completer(threading.get_ident(), BLOCKS_LOOP, self._parts.exit.note)
        result.completed_by(self._completer)
