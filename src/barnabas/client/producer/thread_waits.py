"""How threads wait for what the Sender thread brings about."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from barnabas.client.producer.produce_request_result import Completer
from barnabas.client.steps import Steps, at_once
from barnabas.errors import IllegalStateError, KafkaTimeoutError

if TYPE_CHECKING:
    from barnabas.client.producer.produce_request_result import ProduceRequestResult
    from barnabas.client.producer.producer_parts import ProducerParts
    from barnabas.client.producer.sender_thread import SenderThread
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.client.producer_metadata import ProducerMetadata
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender

WAITS_FOR_ITSELF = (
    "result() in a callback would wait for itself: callbacks run in the Sender thread, which brings the results. Ask "
    "with done() or result(0), or wait in a thread of your own"
)
# Seconds that a Sender which was told to end at once may take to do it.
FORCED_END = 5.0


class ThreadWaits:
    """`Waits` that block the calling thread; their steps never yield."""

    def __init__(self, parts: ProducerParts, thread: SenderThread) -> None:
        self._parts = parts
        self._thread = thread
        self._completer: Completer | None = None

    def check_may_wait(self, operation: str) -> None:
        """See `Waits`."""
        if threading.current_thread() is self._thread:
            raise IllegalStateError(
                f"{operation} in a callback would wait for itself: callbacks run in the Sender thread"
            )

    def wait_for_turn(self) -> Steps[None]:
        """See `Waits`; threads take turns by themselves."""
        yield from ()

    def wait_for_metadata(self, metadata: ProducerMetadata, version: int, timeout: float) -> Steps[None]:
        """See `Waits`."""
        return at_once(metadata.await_update, version, timeout)

    def wait_for_results(self, results: list[ProduceRequestResult], timeout: float | None) -> Steps[bool]:
        """See `Waits`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        return at_once(lambda: all(result.wait_for_all(deadline) for result in results))

    def wait_for_transaction(self, result: TransactionalRequestResult, timeout: float) -> Steps[None]:
        """See `Waits`."""
        return at_once(result.wait, timeout)

    def wait_for_instance_id(self, sender: ClientTelemetrySender, timeout: float) -> Steps[None]:
        """See `Waits`."""
        return at_once(sender.await_answer, timeout)

    def wait_for_end(self, timeout: float | None) -> Steps[None]:
        """See `Waits`. From a callback it ends by itself, without a wait."""
        return at_once(self._end, timeout)

    def _end(self, timeout: float | None) -> None:
        thread = self._thread
        if threading.current_thread() is thread:
            thread.force_close()
            return
        if timeout != 0:
            thread.initiate_close()
            thread.join(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        if thread.is_alive():
            thread.force_close()
            thread.join(FORCED_END)
        self._parts.close()
        if thread.is_alive():
            count = self._parts.accumulator.incomplete_record_count()
            raise KafkaTimeoutError(
                f"close() is over, but the Sender thread is held up, by a callback that does not return: {count} "
                "records have no result before that"
            )

    def on_new_batch(self, result: ProduceRequestResult) -> None:
        """See `Waits`; the Sender thread completes it."""
        if self._completer is None:
            self._completer = Completer(self._thread.ident or 0, WAITS_FOR_ITSELF, self._parts.exit.note)
        result.completed_by(self._completer)
