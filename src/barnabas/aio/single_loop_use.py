"""Keeps a consumer to its event loop, and calls that exclude each other apart."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from barnabas.errors import ConcurrentModificationError, IllegalStateError
from barnabas.network.log_context import enter_client

if TYPE_CHECKING:
    from barnabas.network.bound_loop import BoundLoop


class LoopUse:
    """Entered by every call into a consumer; `exclusive` besides by those of which one at a time may be in progress."""

    def __init__(self, loop: BoundLoop) -> None:
        self._home = loop
        self.client_id = ""
        self.is_closed = False
        self.exclusive = _Exclusive()

    def __enter__(self) -> None:
        if self.is_closed:
            raise IllegalStateError("This consumer is closed; make a new one")
        self._home.check_thread()
        enter_client(self.client_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def borrow(self) -> bool:
        """Tell whether the consumer may be used: calls that are in progress stand at a place where others may come."""
        return not self.is_closed

    def give_back(self) -> None:
        """See `SingleThreadUse`: there is nothing to end."""


class _Exclusive:
    __slots__ = ("_is_taken",)

    def __init__(self) -> None:
        self._is_taken = False

    def __enter__(self) -> None:
        if self._is_taken:
            raise ConcurrentModificationError(
                "Another poll(), unsubscribe() or close() of this consumer is in progress: one at a time, and none of "
                "them in a rebalance listener. Tasks that share records can share a queue; other calls may come at any "
                "time"
            )
        self._is_taken = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_taken = False
