"""A producer belongs to the process that made it: its thread does not exist in a forked child, its sockets do."""

from __future__ import annotations

import os
import weakref
from typing import Any

from barnabas.errors import IllegalStateError

REASON = (
    "This producer was made before the process forked and belongs to the parent; make a new one in the child "
    "(with multiprocessing: in the worker, or use the start method 'spawn')"
)
_watched: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(producer: Any) -> None:
    """Make the producer refuse its work in children of this process."""
    producer.owner = os.getpid()
    _watched.add(producer)


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
