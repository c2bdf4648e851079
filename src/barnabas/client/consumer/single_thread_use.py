"""Keeps a consumer to one thread at a time."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

from barnabas.client.forked import refusal
from barnabas.errors import ConcurrentModificationError, IllegalStateError
from barnabas.network.log_context import enter_client

_FORKED = refusal("consumer")
#: In place of a thread: who borrows.
_BORROWER = -1
_uses: weakref.WeakSet[SingleThreadUse] = weakref.WeakSet()


class SingleThreadUse:
    """Held during every call into a consumer; the same thread may enter again, from a callback for instance.

    It does not wait: a second thread gets `ConcurrentModificationError`, and `IllegalStateError` comes after `close`,
    and in a forked child: its heartbeat thread is not there, and its sockets are the parent's. Only the heartbeat
    thread may borrow the consumer between two calls, for as long as something takes that waits for nothing; a call that
    comes meanwhile begins after it.
    """

    __slots__ = (
        "__weakref__", "_borrowing", "_depth", "_owner", "client_id", "is_closed", "is_foreign",
    )  # fmt: skip

    def __init__(self) -> None:
        # The thread inside, under the only key. `setdefault` and `clear` are atomic, and an exception of a signal
        # handler can come before or after them, but not leave a consumer locked without an owner.
        self._owner: dict[str, int] = {}
        self._depth = 0
        # What the heartbeat thread holds while it borrows.
        self._borrowing = threading.Lock()
        self.client_id = ""
        self.is_closed = False
        # Made in another process; is_closed is then set too, so that the usual case has one thing to look at.
        self.is_foreign = False
        _uses.add(self)

    def __enter__(self) -> None:
        self._check_open()
        thread = threading.get_ident()
        while (owner := self._owner.setdefault("thread", thread)) != thread:
            if owner == _BORROWER:
                with self._borrowing:
                    continue
            raise ConcurrentModificationError(
                "Another thread is using this consumer, which is made for one thread at a time; "
                "only wakeup() may be called from others"
            )
        if self.is_closed:
            # By the thread that was inside just now.
            if self._depth == 0:
                self._owner.clear()
            self._check_open()
        self._depth += 1
        enter_client(self.client_id)

    def borrow(self) -> bool:
        """Have the consumer for itself until `give_back`, unless a call is in progress; for the heartbeat thread."""
        if not self._borrowing.acquire(blocking=False):
            return False
        if not self.is_closed and self._owner.setdefault("thread", _BORROWER) == _BORROWER:
            return True
        self._borrowing.release()
        return False

    def give_back(self) -> None:
        """End what `borrow` began."""
        self._owner.clear()
        self._borrowing.release()

    @property
    def is_outermost(self) -> bool:
        """Whether the call in progress is not one that code of the application makes inside of another."""
        return self._depth == 1

    def _check_open(self) -> None:
        if self.is_closed:
            raise IllegalStateError(_FORKED if self.is_foreign else "This consumer is closed; make a new one")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner.clear()


def _in_child() -> None:
    for use in list(_uses):
        use.is_closed = use.is_foreign = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
