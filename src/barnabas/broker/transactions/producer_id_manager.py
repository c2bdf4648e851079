"""Producer ids: each is given once, out of blocks that the metadata keeps account of (KIP-98, KIP-730)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from barnabas import errors
from barnabas.broker.faults import run_all

if TYPE_CHECKING:
    from collections.abc import Callable

#: The next block is asked for when so few ids are left (Kafka: a tenth of a block).
_PREFETCH_AT = 100


class ProducerIdBlocks(Protocol):
    """Who reserves blocks of producer ids: the metadata of a broker that is alone, or the controller."""

    @property
    def is_committing(self) -> bool:
        """Whether a change is in flight that a reservation has to wait for."""

    def when_committed(self, work: Callable[[], None]) -> None:
        """Call `work` when that change is over."""

    def allocate_producer_ids(self, done: Callable[[range, errors.KafkaError | None], None]) -> None:
        """Reserve a block; `done` gets it, or why there is none."""


class ProducerIdManager:
    """The blocks of producer ids that this broker gives out; the next one is reserved beside the loop."""

    __slots__ = ("_block", "_blocks", "_is_asking", "_next_block", "_waiting")

    def __init__(self, blocks: ProducerIdBlocks):
        self._blocks = blocks
        self._block = range(0)
        self._next_block = range(0)
        self._is_asking = False
        self._waiting: list[Callable[[errors.KafkaError | None], None]] = []

    @property
    def is_ready(self) -> bool:
        """Whether `next` has an id to give."""
        return bool(self._block or self._next_block)

    def when_ready(self, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Reserve a block; `tell` is called with None when its ids can be given, or with why they cannot."""
        self._waiting.append(tell)
        self._ask()

    def next(self) -> int:
        """Return a producer id that was never given before. Raises CoordinatorLoadInProgressError, KafkaStorageError.

        The first of them means that the next block is on its way to the disk: the client asks again, as with Kafka.
        """
        if not self.is_ready:
            told: list[errors.KafkaError | None] = []
            self.when_ready(told.append)
            if told and told[0] is not None:
                raise told[0]
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        if not self._block:
            raise errors.CoordinatorLoadInProgressError("The next block of producer ids is being reserved.")
        found, self._block = self._block[0], self._block[1:]
        if len(self._block) < _PREFETCH_AT and not self._next_block:
            self._ask()
        return found

    def _ask(self) -> None:
        if self._is_asking:
            return
        self._is_asking = True
        try:
            if self._blocks.is_committing:
                self._blocks.when_committed(self._allocate)
            else:
                self._allocate()
        except Exception:
            self._is_asking = False
            raise

    def _allocate(self) -> None:
        self._blocks.allocate_producer_ids(self._allocated)

    def _allocated(self, block: range, problem: errors.KafkaError | None) -> None:
        self._is_asking = False
        if problem is None:
            self._next_block = block
        told = [partial(tell, problem) for tell in self._waiting]
        run_all((self._waiting.clear, *told))
