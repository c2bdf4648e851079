"""A producer belongs to the process that made it.

Its thread does not exist in a forked child, though its sockets do: there it refuses. When the process ends without
`close()`, what is still unsent gets a last chance.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

from barnabas.client.forked import refusal
from barnabas.errors import IllegalStateError

REASON = refusal("producer")
# Seconds that records still unsent may take when the process ends.
EXIT_TIMEOUT = 10.0
_watched: weakref.WeakSet[Any] = weakref.WeakSet()
_closed_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(producer: Any, *, close_at_exit: bool = True) -> None:
    """Make the producer refuse its work in children of this process, and have it closed when this process ends."""
    producer.owner = os.getpid()
    _watched.add(producer)
    if close_at_exit:
        _closed_at_exit.add(producer)


def is_foreign(producer: Any) -> bool:
    """Whether the producer was made in another process."""
    return bool(producer.owner != os.getpid())


def check(producer: Any) -> None:
    """Raise `IllegalStateError` if the producer was made in another process."""
    if is_foreign(producer):
        raise IllegalStateError(REASON)


def _in_child() -> None:
    for producer in list(_watched):
        producer.refuse(REASON)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@atexit.register
def _at_exit() -> None:
    for producer in list(_closed_at_exit):
        if not is_foreign(producer):
            producer.close(EXIT_TIMEOUT)
