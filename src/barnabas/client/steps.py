"""Calls that wait, written once for clients that block their thread and for clients on an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from barnabas.errors import IllegalTypeError

T = TypeVar("T")

Steps = Generator[Awaitable[Any] | None, Any, T]
"""A call in progress. It yields None after each turn of the network that did not bring what it waits for, which is
where a client on an event loop waits, and it yields what code of the application returned to be awaited. It may be
closed, or have an error thrown in, wherever it yields None."""


def run(steps: Steps[T]) -> T:
    """Run a call to its end in a thread, which waited in the turns of the network themselves.

    Raises `IllegalTypeError` where code of the application would have to be awaited.
    """
    try:
        awaited = next(steps)
        while True:
            awaited = next(steps) if awaited is None else steps.throw(_refuse(awaited))
    except StopIteration as end:
        result: T = end.value
        return result


def _refuse(awaited: Awaitable[Any]) -> IllegalTypeError:
    close = getattr(awaited, "close", None)
    if close is not None:
        close()
    return IllegalTypeError(
        f"{getattr(awaited, '__qualname__', awaited)} is a coroutine, which this client cannot await: give a plain "
        "function, or use the clients of barnabas.aio"
    )


def call(function: Callable[..., Any], *arguments: Any) -> Steps[None]:
    """Call the application's function, and have what it returns awaited if it is a coroutine."""
    result = function(*arguments)
    if hasattr(result, "__await__"):
        yield result


def at_once(function: Callable[..., T], *arguments: Any) -> Steps[T]:
    """Return a call that does not yield, as steps: what a thread does by blocking."""
    return function(*arguments)
    yield
