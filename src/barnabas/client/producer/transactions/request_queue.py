"""The requests of a transactional producer that wait, and where they are sent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from barnabas.client.producer.transactions.requests import FindCoordinator, TransactionalRequest
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.network.exponential_backoff import ExponentialBackoff
    from barnabas.network.node import Node


class RequestQueue:
    """Requests in the order of their priority, one in flight at a time, and the coordinators they go to.

    Application threads enqueue, the Sender thread does the rest; the manager's `lock` guards it.
    """

    def __init__(self, lock: threading.RLock, retry_backoff: ExponentialBackoff) -> None:
        self.in_flight: TransactionalRequest | None = None
        self.coordinators: dict[tuple[int, str], Node] = {}
        self._lock = lock
        self._retry_backoff = retry_backoff
        self._waiting: list[TransactionalRequest] = []

    def enqueue(self, request: TransactionalRequest) -> TransactionalRequestResult:
        """Line the request up, behind all of its priority; returns its result."""
        with self._lock:
            at = len(self._waiting)
            while at > 0 and self._waiting[at - 1].priority > request.priority:
                at -= 1
            self._waiting.insert(at, request)
            return request.result

    def retry(self, request: TransactionalRequest, now: float, backoff: float | None = None) -> None:
        """Line the request up once more; it leaves no sooner than the backoff allows."""
        request.retry_at = now + (self._retry_backoff.backoff(request.attempts) if backoff is None else backoff)
        request.attempts += 1
        self.enqueue(request)

    def put_off(self, request: TransactionalRequest, now: float) -> None:
        """Let a request that cannot be sent now go to the end of the line, as after a failed attempt."""
        with self._lock:
            self._waiting.remove(request)
            self.retry(request, now)

    def first(self) -> TransactionalRequest | None:
        """Return the request whose turn it is, if any waits."""
        return self._waiting[0] if self._waiting else None

    def drop(self, request: TransactionalRequest) -> None:
        """Take out a request that need not be sent."""
        self._waiting.remove(request)

    def set_in_flight(self, request: TransactionalRequest) -> None:
        """Take out the request that is being sent; it is in flight from now on."""
        with self._lock:
            self._waiting.remove(request)
            self.in_flight = request

    def fail_all(self, error: KafkaError) -> None:
        """Fail all requests that have not been sent."""
        for request in self._waiting:
            request.result.fail(error)
        self._waiting.clear()

    def coordinator(self, request: TransactionalRequest) -> Node | None:
        """Return the broker for the request, None while it is not known."""
        assert request.COORDINATOR is not None
        return self.coordinators.get((request.COORDINATOR, request.coordinator_key))

    def look_up_coordinator(self, request: TransactionalRequest, now: float | None = None) -> None:
        """Ask who the request's coordinator is; from `now` on after a backoff, as the last one was out of reach."""
        assert request.COORDINATOR is not None
        where = request.COORDINATOR, request.coordinator_key
        with self._lock:
            self.coordinators.pop(where, None)
            for waiting in self._waiting:
                if isinstance(waiting, FindCoordinator) and (waiting.key_type, waiting.key) == where:
                    return
            look_up = FindCoordinator(*where)
            if now is None:
                self.enqueue(look_up)
            else:
                self.retry(look_up, now)
