"""A consumer of a `ScriptedCluster` whose two threads, and any others, take turns line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any
from unittest import mock

from barnabas.client.consumer import single_thread_use
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.core_thread import CoreThread
from tests.support.line_scheduler import LineScheduler
from tests.support.scripted_cluster import ScriptedCluster, VirtualSelector

#: Where the application's and the heartbeat thread meet, and what each of them does around it.
MODULES = tuple(
    import_module(f"barnabas.client.{name}")
    for name in (
        "core_thread",
        "consumer.membership.classic_membership",
        "consumer.coordinator.coordinator",
        "consumer.membership.commit_request_manager",
        "consumer.coordinator.classic_coordinator",
        "consumer.membership.consumer_membership_manager",
        "consumer.consumer_network_client",
        "consumer.consumer_polling",
        "consumer.membership.heartbeat",
        "consumer.membership.core",
        "consumer.coordinator.offset_commits",
        "consumer.coordinator.reconciling_coordinator",
        "consumer.single_thread_use",
        "consumer.membership.share_group_heartbeat",
        "consumer.share.late_acknowledgements",
        "consumer.share.share_polling",
        "consumer.share.share_consume_request_manager",
        "consumer.share.share_fetch_buffer",
    )
)


class ScheduledSelector(VirtualSelector):
    """A selector in whose `poll` a thread waits as in that of the operating system."""

    def __init__(self, cluster: ScheduledCluster, *, is_membership: bool) -> None:
        super().__init__(cluster, is_membership=is_membership)
        self._cluster = cluster

    def poll(self, timeout: float, now: float) -> float:
        """Deliver what there is, or wait for it, for a `wakeup`, or until the time is over."""
        cluster = self._cluster
        deadline = cluster.now + timeout
        while True:
            self.deliver()
            happened = self.connected or self.disconnected or self.completed_sends or self.completed_receives
            if happened or self.is_woken or cluster.now >= deadline:
                self.is_woken = False
                return cluster.now
            cluster.scheduler.wait(lambda: self.is_woken or self.has_something_to_deliver, deadline)


class ScheduledCluster(ScriptedCluster):
    """The heartbeat thread is one of the `scheduler`'s, which has time pass here where all of them wait."""

    def __init__(self, choices: Iterable[int]) -> None:
        super().__init__()
        self.scheduler = LineScheduler(choices, *MODULES, let_pass=self._let_pass)
        self.scheduler.now = self.now
        self.core: Any = None
        self.core_ended_at = float("inf")

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer of this cluster, whose lock is the scheduler's."""
        with mock.patch.object(single_thread_use, "threading", self.scheduler.threading()):
            return super().consumer(*topics, **settings)

    def sleep(self, seconds: float) -> None:
        """The thread does something else for so long."""
        self.scheduler.wait(lambda: False, self.now + seconds)

    def new_selector(self, *, is_membership: bool) -> VirtualSelector:
        """See `ScriptedCluster`."""
        return ScheduledSelector(self, is_membership=is_membership)

    def run(self, core: Any, name: str) -> Callable[[float], None]:
        """The thread that a program has, but for `threading`."""
        self.core = core
        thread = CoreThread(core, self.clock, name)

        def run() -> None:
            thread.run()
            self.core_ended_at = self.now

        turn = self.scheduler.spawn(run)

        def join(timeout: float) -> None:
            self.scheduler.wait(lambda: turn.is_done, self.now + timeout)

        return join

    def _let_pass(self, until: float) -> float:
        reached = max(self.now, min(until, self.next_change()))
        assert reached < float("inf"), "all threads wait for each other"
        self.advance(reached - self.now)
        # Seconds that were added up are not always the time that was meant.
        self.now = max(self.now, reached)
        return self.now
