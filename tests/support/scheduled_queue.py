"""A share consumer of a `ScriptedQueue` whose two threads, and any others, take turns line by line."""

from __future__ import annotations

from typing import Any
from unittest import mock

from barnabas.client.consumer import single_thread_use
from barnabas.client.consumer.share.share_consumer import ShareConsumer
from tests.support.scheduled_cluster import ScheduledCluster, ScheduledSelector
from tests.support.scripted_cluster import VirtualSelector
from tests.support.scripted_queue import QueueSelector, ScriptedQueue


class ScheduledQueueSelector(ScheduledSelector, QueueSelector):
    """A thread waits in it, and the broker is told when a connection of the application ends."""


class ScheduledQueue(ScheduledCluster, ScriptedQueue):
    """The queue of `ScriptedQueue`, the threads of `ScheduledCluster`."""

    def share_consumer(self, *topics: str, **settings: Any) -> ShareConsumer:
        """A share consumer of this cluster, whose lock is the scheduler's."""
        with mock.patch.object(single_thread_use, "threading", self.scheduler.threading()):
            return super().share_consumer(*topics, **settings)

    def new_selector(self, *, is_membership: bool) -> VirtualSelector:
        """See `ScheduledCluster`."""
        return ScheduledQueueSelector(self, is_membership=is_membership)
