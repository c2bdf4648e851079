"""Sends what the application has said of records and does not come back to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.consumer.share.share_polling import SharePolling

log = client_logger("barnabas.consumer")

#: Seconds between two looks at most, and which part of a lock.
_PAUSE: Final = 2.0
_OF_A_LOCK: Final = 4


class Loan(Protocol):
    """Lends the consumer to who may use it between two calls of the application."""

    def borrow(self) -> bool:
        """Whether it may be used now, until `give_back`."""

    def give_back(self) -> None:
        """End that."""


class LateAcknowledgements:
    """What the heartbeat thread does for the application's core, between two calls of the application.

    An application that polls often has its acknowledgements sent with the next fetch. One that stops in the middle of
    that would lose them to the locks, and hold records that others could have: see `SharePolling.send_late`.
    """

    def __init__(self, polling: SharePolling, loan: Loan) -> None:
        self._polling = polling
        self._loan = loan

    def look(self, now: float) -> float:
        """Send what is late, waiting for nothing; returns the seconds until the next look."""
        lock = self._polling.acquisition_lock_timeout
        pause = _PAUSE if lock is None else min(_PAUSE, lock / _OF_A_LOCK)
        if not self._loan.borrow():
            return pause
        try:
            return min(self._polling.send_late(now), pause)
        except Exception:
            log.exception("Acknowledgements could not be sent between two calls; the next call begins anew")
            self._polling.begin_anew()
            return pause
        finally:
            self._loan.give_back()
