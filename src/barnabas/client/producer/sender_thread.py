"""The thread that runs the Sender; the only place where the producer reads the clock and waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.sender import Sender
from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender

log = logging.getLogger("barnabas.producer")

# Seconds to pause after a turn that failed unexpectedly, so that a bug cannot spin.
PAUSE_AFTER_FAILURE = 0.1


class SenderThread(threading.Thread):
    """Turns the Sender until it is told to close, then until nothing is left, or at once when forced.

    It keeps no reference to the Producer, so that a forgotten producer can be collected.
    """

    def __init__(
        self,
        sender: Sender,
        accumulator: RecordAccumulator,
        client_id: str,
        clock: Callable[[], float],
        abort_timeout: float = 60.0,
    ) -> None:
        super().__init__(name=f"kafka-producer-network-thread | {client_id}", daemon=True)
        self._sender = sender
        self._accumulator = accumulator
        self._clock = clock
        self._running = True
        self._forced = False
        self._abort_timeout = abort_timeout
        #: What the cluster is told of the client, once before the end.
        self.telemetry: ClientTelemetrySender | None = None

    def run(self) -> None:
        """Send until closed. However it ends, no record is left without a result."""
        try:
            while self._running:
                self._turn()
            while not self._forced and self._sender.has_work():
                self._turn()
            self._abort_transaction()
            self._push_telemetry()
        finally:
            self._sender.shut_down()

    def _abort_transaction(self) -> None:
        deadline = self._clock() + self._abort_timeout
        while not self._forced and self._sender.is_ending_transaction():
            if self._clock() >= deadline:
                log.warning("%s: closed before the transaction was aborted; the broker will abort it", self.name)
                return
            self._turn()

    def _push_telemetry(self) -> None:
        if self.telemetry is not None:
            self.telemetry.initiate_close(self._clock())
            while not self._forced and not self.telemetry.is_done:
                self._turn()

    def _turn(self) -> None:
        try:
            self._sender.run_once(self._clock())
        except BaseException:
            log.exception("%s: unexpected error, going on", self.name)
            time.sleep(PAUSE_AFTER_FAILURE)

    @property
    def is_running(self) -> bool:
        """Whether it was not asked to close."""
        return self._running

    def initiate_close(self) -> None:
        """Take no more records, send those there are, then end."""
        # In this order: no record may come in after the last look for work.
        self._accumulator.close()
        self._running = False
        self._sender.wakeup()

    def force_close(self) -> None:
        """End now; what has no result fails."""
        self._forced = True
        self.initiate_close()
