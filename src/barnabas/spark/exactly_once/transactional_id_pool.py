"""The transactional ids of one Python process: which of them its next task may use, and how."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.spark.exactly_once.decision import COMPLETE, Decision

#: From this epoch on a new one is asked for, which gives a new producer id once they are used up.
LAST_EPOCH_TO_RESUME = 32_000

#: Seconds after which the cluster may have forgotten an id that rests (transactional.id.expiration.ms, a week).
LONGEST_REST = 3600.0


class Resume(NamedTuple):
    """Go on under this identity: the driver has ended the transaction before it, which raised the epoch (KIP-890)."""

    transactional_id: str
    producer_id: int
    epoch: int


class Initialize(NamedTuple):
    """Ask for a new epoch, which aborts the transaction that is open under the id."""

    transactional_id: str


class _Use(NamedTuple):
    batch: int
    producer_id: int
    epoch: int
    at: float


class IdPool:
    """Ids that no other process ever uses, so that only a driver that ends a transaction interferes.

    An id is left alone as long as a driver may still decide on its last transaction or end it: until the log shows the
    decision on that batch as complete, or one on a later batch, and a later batch is being written. A driver that takes
    over before commits once more what is decided, and would take a transaction whose id has gone on for lost. An
    attempt that failed reported nothing, so its id is free at once. So there are never more ids than the most attempts
    that wrote rows in this process from one decision that it has seen done to the next, and one for the attempt at
    work.
    """

    def __init__(self, base: str, process: str) -> None:
        """Begin with `base`, the prefix of the query's ids, and `process`, which no other process is called."""
        self._base = f"{base}-task-{process}"
        self._uses: dict[str, _Use | None] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def take(self, batch: int, decision: Decision | None, now: float) -> Resume | Initialize:
        """Return an id for a transaction of this batch; `decision` is the last one in the log."""
        for name, use in self._uses.items():
            if use is None:
                return Initialize(name)
            if use.batch < batch and decision is not None and _is_finished(use, decision):
                return self._resumed(name, use, decision, now) or Initialize(name)
        return Initialize(f"{self._base}-{len(self._uses)}")

    def _resumed(self, name: str, use: _Use, decision: Decision, now: float) -> Resume | None:
        named = decision.names(name)
        if (
            named is None
            or named.partition in decision.lost
            or (named.producer_id, named.epoch) != (use.producer_id, use.epoch)
        ):
            return None
        if decision.batch != use.batch:
            return None
        if use.epoch >= LAST_EPOCH_TO_RESUME or now - use.at > LONGEST_REST:
            return None
        return Resume(name, use.producer_id, use.epoch + 1)

    def used(self, batch: int, transactional_id: str, producer_id: int, epoch: int, now: float) -> None:
        """Note that an id that was taken is in use now; call it before anything is written."""
        self._uses[transactional_id] = _Use(batch, producer_id, epoch, now)

    def failed(self, transactional_id: str) -> None:
        """Note that the attempt that used it ended without a report: no decision can ever name what it wrote."""
        self._uses[transactional_id] = None


def _is_finished(use: _Use, decision: Decision) -> bool:
    return use.batch < decision.batch or (use.batch == decision.batch and decision.state == COMPLETE)
