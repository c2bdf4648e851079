"""The result of an operation on a transaction, which the application waits for and the Sender thread sets."""

from __future__ import annotations

import threading

from barnabas.errors import KafkaError, KafkaTimeoutError


class TransactionalRequestResult:
    """Set once, by `done` or `fail`. `is_acked` tells that a call waited for it to the end."""

    __slots__ = ("_event", "error", "is_acked", "operation")

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.error: KafkaError | None = None
        self.is_acked = False
        self._event = threading.Event()

    def done(self) -> None:
        """Note that the operation has succeeded."""
        self._event.set()

    def fail(self, error: KafkaError) -> None:
        """Note that the operation has failed; a result that is set stays as it is."""
        if not self._event.is_set():
            self.error = error
            self._event.set()

    @property
    def is_completed(self) -> bool:
        """Whether the result is there."""
        return self._event.is_set()

    def wait(self, timeout: float) -> None:
        """Wait for the result; raises its error, or `KafkaTimeoutError` after `timeout` seconds."""
        self._event.wait(min(timeout, threading.TIMEOUT_MAX))
        self.end_wait(timeout)

    def end_wait(self, timeout: float) -> None:
        """End a wait of `timeout` seconds: raises as `wait` does, and returns when the operation has succeeded."""
        if not self._event.is_set():
            raise KafkaTimeoutError(
                f"{self.operation} got no answer within {timeout:g} s (max.block.ms, unless a timeout was given). It "
                f"is still in progress: call {self.operation} again to wait on, or close the producer"
            )
        self.is_acked = True
        if self.error is not None:
            raise self.error.with_traceback(None)
