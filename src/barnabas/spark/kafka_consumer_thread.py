"""Flink's `KafkaConsumerThread`: polls Kafka and hands over what came, still encoded, to the task's thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas import errors
from barnabas.spark.handover import ClosedError, Handover, WokenError

if TYPE_CHECKING:
    from barnabas.client.consumer.fetching.fetched_data import FetchedData

#: Flink's `flink.poll-timeout`: how long one poll waits, in seconds.
POLL_TIMEOUT = 0.1

Fetched = Sequence["FetchedData"]


class RawConsumer(Protocol):
    """What the thread needs of a `Consumer`."""

    def poll_raw(self, timeout: float) -> Fetched:
        """Return data that has arrived."""

    def wakeup(self) -> None:
        """End a poll."""


class KafkaConsumerThread:
    """Polls a consumer, which is its own until `join` returns, and never lets go of what it fetched.

    When its hand-over is woken it keeps the batch and offers it again instead of polling. Every other error is reported
    through the hand-over and ends the thread.
    """

    def __init__(
        self,
        consumer: RawConsumer,
        handover: Handover[Fetched],
        *,
        poll_timeout: float = POLL_TIMEOUT,
        stall_timeout: float = 120.0,
        describe_stall: Callable[[], str] = lambda: "no data came",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing happens before `start`; after `stall_timeout` seconds without data it reports `KafkaTimeoutError`."""
        self._consumer = consumer
        self._handover = handover
        self._poll_timeout = poll_timeout
        self._stall_timeout = stall_timeout
        self._describe_stall = describe_stall
        self._clock = clock
        self._running = True
        self._thread: threading.Thread | None = None
        self.undelivered: Fetched = []

    def start(self) -> None:
        """Begin to poll in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="barnabas-kafka-consumer", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Note that the thread's work; returns after `shutdown` or an error.

        `undelivered` is then what was not taken.
        """
        held: Fetched | None = None
        try:
            heard = self._clock()
            while self._running:
                if held is None:
                    held = self._poll()
                    now = self._clock()
                    heard = now if held is not None else heard
                    if held is None and now - heard > self._stall_timeout:
                        raise errors.KafkaTimeoutError(self._describe_stall())
                if held is not None and self._hand_over(held):
                    held = None
        except ClosedError:
            pass  # the task is done, or knows of an error
        except BaseException as error:  # noqa: BLE001 - it is raised in the task's thread
            self._handover.report_error(error)
        finally:
            self.undelivered = [*(self._handover.close() or []), *(held or [])]

    def _poll(self) -> Fetched | None:
        try:
            return self._consumer.poll_raw(self._poll_timeout) or None
        except errors.WakeupError:
            return None  # nothing was fetched

    def _hand_over(self, batch: Fetched) -> bool:
        try:
            self._handover.produce(batch)
        except WokenError:
            return False  # it stays in hand, and is offered again
        return True

    def shutdown(self) -> None:
        """Ask the thread to end; from any thread."""
        self._running = False
        self._handover.wakeup_producer()
        self._consumer.wakeup()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()
