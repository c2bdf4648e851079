"""A call of the application that began a transition and may have timed out before its result came (KIP-572)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.producer.transactions.states import State
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.errors import KafkaError


class PendingStateTransition:
    """The call whose result the application has not seen yet; until it has, no other may begin.

    The manager's lock is held in all of it.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: tuple[TransactionalRequestResult, State] | None = None

    def begin(
        self, target: State, operation: str, start: Callable[[], TransactionalRequestResult]
    ) -> TransactionalRequestResult:
        """Begin what leads to `target`, or give the result of the same call that timed out before."""
        if self._pending is not None:
            result, aim = self._pending
            if not result.is_acked and aim is target:
                return result
        self.refuse(operation)
        result = start()
        self._pending = result, target
        return result

    def refuse(self, operation: str) -> None:
        """Raise `IllegalStateError` while a call has timed out and was not called again."""
        if self._pending is None:
            return
        result, _ = self._pending
        if not result.is_acked:
            raise IllegalStateError(
                f"{operation} has to wait: {result.operation} timed out and must be called again until it returns"
            )
        self._pending = None

    def give_up(self) -> None:
        """Take the result for seen: the application will not call again."""
        if self._pending is not None:
            self._pending[0].is_acked = True

    def fail(self, error: KafkaError) -> None:
        """Fail the call."""
        if self._pending is not None:
            self._pending[0].fail(error)
