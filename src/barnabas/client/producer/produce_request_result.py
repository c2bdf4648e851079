"""What becomes of the records of one batch, shared by all their futures."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from barnabas.protocol.topic_partition import TopicPartition

Place = tuple[TopicPartition, int, int]


class Completer(NamedTuple):
    """Who completes a producer's results: the Sender's thread, or the event loop's.

    `refusal` is what a wait in that thread is told, which would never end. `note_exit` takes what a callback raised
    there to end the program (`sys.exit()`), for the application's next call.
    """

    thread_id: int
    refusal: str
    note_exit: Callable[[BaseException], None]


Entry = tuple[int, Callable[[Any], object], Any]


class ProduceRequestResult:
    """The result of one batch: where it begins in the log, or why it failed.

    The Sender thread calls `set`, runs the records' callbacks, then calls `complete`, which lets every waiting thread
    go. A batch that was split passes its records on to the results of the parts.
    """

    __slots__ = (
        "_callbacks",
        "_completer",
        "_latch",
        "_parts",
        "_setter",
        "base_offset",
        "completed",
        "error",
        "log_append_time",
        "record_errors",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaError | None = None
        self.record_errors: dict[int, KafkaError] | None = None
        self.completed = False
        self._setter: int | None = None
        self._parts: list[tuple[int, ProduceRequestResult]] | None = None
        # Each entry in a list of its own, from which its runner takes it: any thread appends to this list, and the
        # Sender thread walks through it when the result is there.
        self._callbacks: list[list[Entry]] = []
        self._completer: Completer | None = None
        # Held until the result is complete: a thread that gets it knows that it is.
        self._latch = threading.Lock()
        self._latch.acquire()

    def set(
        self,
        base_offset: int,
        log_append_time: int,
        error: KafkaError | None = None,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """Note the result, without waking those that wait for it."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.error = error
        self.record_errors = record_errors
        self._setter = threading.get_ident()

    def complete(self) -> None:
        """Wake all who wait, and run the futures' done-callbacks. After an interrupted call it may be called again."""
        self.completed = True
        if self._latch.locked():
            self._latch.release()
        if self._callbacks:
            for _, callback, argument in self._waiting():
                self.run_callback(callback, argument)

    def split(self, parts: list[tuple[int, ProduceRequestResult]]) -> None:
        """Pass the records on to other results; each part is its first record's place here, and its result."""
        for _, part in parts:
            part._completer = self._completer
        self._parts = parts
        self.completed = True
        self._latch.release()
        for index, callback, argument in self._waiting():
            self.add_done_callback(argument, index, callback)

    def _waiting(self) -> Iterator[Entry]:
        for entry in self._callbacks:
            yield from _taken(entry)
        self._callbacks.clear()

    def completed_by(self, completer: Completer) -> None:
        """Say who completes it: that thread must not wait for itself."""
        self._completer = completer

    def run_callback(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call the application's callback; an error that it raises is logged and harms nothing.

        In the completer's thread not even `sys.exit()` or Ctrl-C ends that thread: the application's next call raises
        it. In any other thread the caller gets it.
        """
        try:
            callback(*arguments)
        except Exception:  # noqa: BLE001  user code may raise anything, and must not end the Sender thread
            log_callback_error(self.topic_partition, callback)
        except BaseException as exit:
            if not self._is_completed_here():
                raise
            self.on_callback_error(callback, exit)

    def on_callback_error(self, callback: object, error: BaseException) -> None:
        """Log what a callback raised, and keep for the application what was to end the program."""
        log_callback_error(self.topic_partition, callback)
        if self._completer is not None and not isinstance(error, Exception):
            self._completer.note_exit(error)

    def _is_completed_here(self) -> bool:
        return self._completer is not None and self._completer.thread_id == threading.get_ident()

    @property
    def is_split(self) -> bool:
        """Whether other results hold the records now."""
        return self._parts is not None

    def resolve(self, index: int) -> tuple[ProduceRequestResult, int]:
        """Return the result that holds the record now, and the record's place in it."""
        result = self
        while result._parts is not None:
            at = bisect_right(result._parts, index, key=lambda part: part[0]) - 1
            first, result = result._parts[at]
            index -= first
        return result, index

    def done(self, index: int) -> bool:
        """Whether the record was stored or has failed."""
        return self.resolve(index)[0].completed

    @property
    def all_done(self) -> bool:
        """Whether all records were stored or have failed, those of a split batch included."""
        return self.completed and all(part.all_done for _, part in self._parts or ())

    def outcome(self, index: int) -> tuple[Place, KafkaError | None]:
        """Return the record's place and, if it failed, its error."""
        result, index = self.resolve(index)
        error = result._error_of(index)
        known = error is None and result.base_offset >= 0
        offset = result.base_offset + index if known else -1
        return (result.topic_partition, offset, result.log_append_time), error

    def _error_of(self, index: int) -> KafkaError | None:
        if self.error is None or not self.record_errors:
            return self.error
        return self.record_errors.get(index) or KafkaError(
            f"The record was not stored in {self.topic_partition}: the broker refused other records of its batch as "
            "invalid, and a batch is stored whole or not at all. Send the record again"
        )

    def wait_for(self, index: int, timeout: float | None) -> None:
        """Wait until the record is done; raises `KafkaTimeoutError` after `timeout` seconds (None waits for ever)."""
        if self.completed and self._parts is None:
            return
        deadline = None if timeout is None else _monotonic() + timeout
        result = self
        while True:
            if not result._wait(None if deadline is None else max(0.0, deadline - _monotonic())):
                raise KafkaTimeoutError(
                    f"The record for {self.topic_partition} was not acknowledged within {timeout} s; it may still be. "
                    "It fails by itself after delivery.timeout.ms"
                )
            if result._parts is None:
                return
            result, index = result.resolve(index)

    def wait_for_all(self, deadline: float | None) -> bool:
        """Wait until all records are done, those of a split batch included; False when `deadline` passed before."""
        if not self._wait(None if deadline is None else max(0.0, deadline - _monotonic())):
            return False
        return all(part.wait_for_all(deadline) for _, part in self._parts or ())

    def _wait(self, timeout: float | None) -> bool:
        # A callback may ask for its own record: its thread has set the result, and would wait for itself for ever.
        if self.completed or self._setter == threading.get_ident():
            return True
        if timeout != 0 and self._completer is not None and self._is_completed_here():
            raise IllegalStateError(self._completer.refusal)
        if not self._latch.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)):
            return False
        self._latch.release()
        return True

    def add_done_callback(self, argument: Any, index: int, callback: Callable[[Any], object]) -> None:
        """Run `callback(argument)` when the record is done, or now."""
        while True:
            result, _ = self.resolve(index)
            entry = [(index, callback, argument)]
            if not result.completed:
                result._callbacks.append(entry)
                # Completed meanwhile: if the entry is still there, no other thread runs it.
                if not result.completed or not _taken(entry):
                    return
            if result._parts is None:
                result.run_callback(callback, argument)
                return


def _taken(entry: list[Entry]) -> list[Entry]:
    """Return what is in it, for exactly one of those who ask; nothing for the others."""
    try:
        return [entry.pop()]
    except IndexError:
        return []


def _monotonic() -> float:
    # Only threads that wait for a result read the clock, and only to wait no longer than they were told.
    import time

    return time.monotonic()


def log_callback_error(topic_partition: TopicPartition, callback: object) -> None:
    """Log the error that is being handled as one that the callback raised."""
    from barnabas.network.log_context import client_logger

    client_logger("barnabas.producer").exception(
        "The callback %r for a record in %s raised an error; the record itself is not affected",
        callback,
        topic_partition,
    )
