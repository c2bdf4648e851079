"""A producer belongs to the process that made it.

Its thread does not exist in a forked child, though its sockets do: there it refuses. When the process ends without
`close()`, what is still unsent gets a last chance.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from typing import Protocol

from barnabas.client.forked import refusal
from barnabas.errors import IllegalStateError, KafkaError

log = logging.getLogger("barnabas.producer")

REASON = refusal("producer")
# Seconds that records still unsent may take when the process ends.
EXIT_TIMEOUT = 10.0


class Refusing(Protocol):
    """What a `Lifetime` ends in a forked child."""

    def refuse(self, reason: str) -> None:
        """Take no records any more, without touching thread or sockets."""


class Closing(Protocol):
    """What is closed when the process ends."""

    def close(self, timeout: float | None = None) -> None:
        """See `Producer.close`."""


class Lifetime:
    """The process in which a producer was made; in children of it the producer's core is made to refuse."""

    def __init__(self, core: Refusing) -> None:
        self._pid = os.getpid()
        self._core = weakref.ref(core)
        _lifetimes.add(self)

    @property
    def is_foreign(self) -> bool:
        """Whether the producer was made in another process."""
        return self._pid != os.getpid()

    def check(self) -> None:
        """Raise `IllegalStateError` if the producer was made in another process."""
        if self.is_foreign:
            raise IllegalStateError(REASON)

    def in_child(self) -> None:
        """Make the core refuse."""
        core = self._core()
        if core is not None:
            core.refuse(REASON)


_lifetimes: weakref.WeakSet[Lifetime] = weakref.WeakSet()
_closed_at_exit: weakref.WeakSet[Closing] = weakref.WeakSet()


def close_at_exit(producer: Closing) -> None:
    """Have the producer closed when this process ends; in a child of it `close()` does nothing."""
    _closed_at_exit.add(producer)


def _in_child() -> None:
    for lifetime in list(_lifetimes):
        lifetime.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@atexit.register
def _at_exit() -> None:
    for producer in list(_closed_at_exit):
        try:
            producer.close(EXIT_TIMEOUT)
        except KafkaError as error:
            log.warning("%r was not closed: %s", producer, error)
