"""Runs what blocks outside the thread that polls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from barnabas.errors import KafkaError
from barnabas.network.security.sasl_client import Work

Worked = Callable[[bytes | KafkaError], None]


class Worker(Protocol):
    """Does Work; a simulator does it at once."""

    def submit(self, work: Work, done: Worked) -> None:
        """Call `done` with the result or the error, at once or from another thread."""


class ThreadedWorker:
    """A short-lived daemon thread for each piece of work: there is one for each new connection at most."""

    def submit(self, work: Work, done: Worked) -> None:
        """See `Worker`."""
        threading.Thread(target=run_work, args=(work, done), name="barnabas-authentication", daemon=True).start()


def run_work(work: Work, done: Worked) -> None:
    """Run it here and now."""
    try:
        result: bytes | KafkaError = work.run()
    except KafkaError as error:
        result = error
    except Exception as error:  # noqa: BLE001  (its connection must end with a reason, not hang)
        result = KafkaError(f"{type(error).__name__}: {error}")
    done(result)
