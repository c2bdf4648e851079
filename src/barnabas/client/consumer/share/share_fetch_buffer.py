"""What was fetched of a share group's records, and waits to be handed out."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.consumer.share.assignment_by_leader import AssignmentByLeader
    from barnabas.client.consumer.share.share_completed_fetch import AcquisitionLock, ShareCompletedFetch

log = client_logger("barnabas.consumer")


class ShareFetchBuffer:
    """Keeps fetches in the order in which they came. Belongs to the application's thread.

    `is_held` tells whether the session of a lock goes on.
    """

    def __init__(self, assignment: AssignmentByLeader, is_held: Callable[[AcquisitionLock], bool]) -> None:
        self._assignment = assignment
        self._is_held = is_held
        self.fetches: deque[ShareCompletedFetch] = deque()

    @property
    def count(self) -> int:
        """How many records wait."""
        return sum(fetch.count for fetch in self.fetches)

    def part(self, now: float) -> list[ShareCompletedFetch]:
        """Drop what this consumer has not any more; take out and return what it is to give back.

        That is what belongs to partitions that were revoked, and what was fetched for an application that did not come.
        """
        kept: list[ShareCompletedFetch] = []
        given_back: list[ShareCompletedFetch] = []
        for fetch in self.fetches:
            name, lock = fetch.partition, fetch.lock
            if now >= lock.ends_at:
                log.warning("Records of %s came too late: their acquisition locks are over", name)
            elif not self._is_held(lock) or self._assignment.has_moved(name, lock.node_id):
                log.info("Records of %s were dropped: the session that brought them has ended", name)
            elif now >= lock.stale_at or not self._assignment.has(name):
                given_back.append(fetch)
            else:
                kept.append(fetch)
        if len(kept) < len(self.fetches):
            self.fetches = deque(kept)
        return given_back

    def take_all(self) -> list[ShareCompletedFetch]:
        """Take out everything."""
        fetches, self.fetches = list(self.fetches), deque()
        return fetches
