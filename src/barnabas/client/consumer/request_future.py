"""The result of a request that has yet to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from barnabas.errors import IllegalStateError, KafkaError

T = TypeVar("T")
S = TypeVar("S")


class RequestFuture(Generic[T]):
    """Will hold a value or an error; tells its listeners when it does.

    Belongs to one thread, the one that polls the `ConsumerNetworkClient` it came from: listeners run there, inside
    `poll`, and no lock exists that could be held meanwhile.
    """

    __slots__ = ("_error", "_listeners", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: KafkaError | None = None
        self._listeners: list[tuple[Callable[[T], object], Callable[[KafkaError], object]]] = []

    @classmethod
    def failure(cls, error: KafkaError) -> RequestFuture[T]:
        """Return a future that has failed already."""
        future: RequestFuture[T] = cls()
        future.raise_error(error)
        return future

    @property
    def succeeded(self) -> bool:
        """Whether it holds a value."""
        return self.is_done and self._error is None

    @property
    def error(self) -> KafkaError | None:
        """The error, if it failed."""
        return self._error

    @property
    def value(self) -> T:
        """The value; raises `IllegalStateError` when there is none."""
        if not self.succeeded:
            raise IllegalStateError("The request has no value: it failed or is not done yet")
        return self._value  # type: ignore[return-value]  # T itself may be None; `succeeded` says that it was set

    def complete(self, value: T) -> None:
        """Set the value and call the listeners."""
        self._finish(value, None)
        for on_success, _ in self._take_listeners():
            on_success(value)

    def raise_error(self, error: KafkaError) -> None:
        """Set the error and call the listeners."""
        self._finish(None, error)
        for _, on_failure in self._take_listeners():
            on_failure(error)

    def add_listener(self, on_success: Callable[[T], object], on_failure: Callable[[KafkaError], object]) -> None:
        """Call one of the two with the outcome; at once when it is there."""
        if not self.is_done:
            self._listeners.append((on_success, on_failure))
        elif self._error is not None:
            on_failure(self._error)
        else:
            on_success(self.value)

    def compose(self, handle: Callable[[T, RequestFuture[S]], object]) -> RequestFuture[S]:
        """Return a future that `handle` completes from this one's value.

        A failure, also one of `handle`, is passed on.
        """
        composed: RequestFuture[S] = RequestFuture()

        def succeed(value: T) -> None:
            try:
                handle(value, composed)
            except KafkaError as error:
                if not composed.is_done:
                    composed.raise_error(error)

        self.add_listener(succeed, composed.raise_error)
        return composed

    def _finish(self, value: T | None, error: KafkaError | None) -> None:
        if self.is_done:
            raise IllegalStateError("The request is done already; a future is completed once")
        self.is_done = True
        self._value, self._error = value, error

    def _take_listeners(self) -> list[tuple[Callable[[T], object], Callable[[KafkaError], object]]]:
        taken, self._listeners = self._listeners, []
        return taken
