"""Who is told of the outcome of a request that is the client's own, and not one of its callers'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.errors import KafkaError


class InternalRequests(Protocol):
    """Sends requests by `NetworkClient.send_internal_request`, one at a time, and is told here what became of each."""

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """Take note that there is no answer; `error` is one that will not go away by trying again."""

    def handle_successful_response(self, now: float, message: Any, version: int) -> None:
        """Take the answer to the request, in the version it was asked in."""
