"""The broker's settings that transactions go by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.transactions.transaction_metadata import NO_TIMEOUT

if TYPE_CHECKING:
    from barnabas.config.config import Config


class TransactionSettings:
    """The settings of transactions, read once. All times are milliseconds."""

    __slots__ = (
        "abort_interval_ms",
        "expiration_interval_ms",
        "max_timeout_ms",
        "transactional_id_expiration_ms",
        "two_phase_commit",
    )

    def __init__(self, config: Config):
        self.max_timeout_ms = config.get_int("transaction.max.timeout.ms")
        self.abort_interval_ms = config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        self.expiration_interval_ms = config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms")
        self.transactional_id_expiration_ms = config.get_int("transactional.id.expiration.ms")
        self.two_phase_commit: bool = config["transaction.two.phase.commit.enable"]

    def checked_timeout(self, timeout_ms: int, two_phase: bool) -> int:
        """Return the time-out of a producer's transactions; none in two-phase commits (KIP-939).

        Raises TransactionalIdAuthorizationError where two-phase commits are switched off, and
        InvalidTxnTimeoutError.
        """
        if two_phase:
            if not self.two_phase_commit:
                raise errors.TransactionalIdAuthorizationError(
                    "Two-phase commits are switched off: set transaction.two.phase.commit.enable=true on the broker."
                )
            return NO_TIMEOUT
        if not 0 < timeout_ms <= self.max_timeout_ms:
            raise errors.InvalidTxnTimeoutError(
                f"transaction.timeout.ms={timeout_ms} is not in 1 to {self.max_timeout_ms}, the broker's "
                "transaction.max.timeout.ms"
            )
        return timeout_ms
