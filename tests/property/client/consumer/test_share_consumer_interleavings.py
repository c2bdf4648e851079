"""What a share consumer's application, its heartbeat thread and a caller of wakeup() do to each other, line by line.

As for `Consumer` (test_consumer_interleavings), with the broker's view of each record as the oracle. A seed that fails
is played again by `check(Run(seed))`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from barnabas.errors import GroupAuthorizationError, KafkaError, KafkaTimeoutError, WakeupError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition
from tests.support.line_scheduler import strides
from tests.support.scheduled_queue import ScheduledQueue
from tests.support.scripted_queue import ACCEPTED, ACQUIRED, ARCHIVED

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
# Virtual time only passes where everybody waits, so what is not waited for takes none.
NO_TIME = 1e-6
#: An application that polls without a pause looks at its connections as seldom as this.
UNSEEN = 0.005


class WatchedQueue(ScheduledQueue):
    """Sees that the heartbeat thread reads what it is told, and the application what it tells."""

    def __init__(self, choices: Iterator[int]) -> None:
        super().__init__(choices)
        self.heartbeat_interval_ms = 300
        self.lock, self.limit = 6.0, 1000
        self.is_in_poll = False
        #: When the first connection ended of which the application may know nothing.
        self.broke_at = float("inf")
        #: Whether a request of the session was refused, so that client and broker see it differently.
        self.has_refused = False

    def _error(self, key: ApiKey) -> int:
        code = super()._error(key)
        self.has_refused |= bool(code) and key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
        return code

    def _check_session(self, request: Any) -> int:
        if request.share_session_epoch == 0:
            self.has_refused = False
            # A session begins anew where the end of the one before was seen.
            self.broke_at = float("inf")
        return super()._check_session(request)

    def connection_ended(self) -> None:
        """See `ScriptedQueue`."""
        super().connection_ended()
        self.broke_at = min(self.now, self.broke_at)

    def _let_pass(self, until: float) -> float:
        core = self.core
        if core is not None and not core.is_done:
            assert not core._commands, f"{core._commands} are not seen"
            if self.is_in_poll:
                assert not core.events, f"{core.events} are not seen"
        return super()._let_pass(until)


class Run:
    """One share consumer, what happens to it, and what it must never see."""

    def __init__(self, seed: int, *, wakes: str = "thread") -> None:
        self.random = random = Random(f"run {seed}")
        self.cluster = cluster = WatchedQueue(strides(seed))
        self.is_explicit = random.random() < 0.4
        self.consumer = cluster.share_consumer(
            group_id="g",
            max_poll_records=3,
            max_poll_interval_ms=2_000,
            request_timeout_ms=1_000,
            default_api_timeout_ms=1_500,
            share_acknowledgement_mode="explicit" if self.is_explicit else "implicit",
            share_acquire_mode=random.choice(("batch_optimized", "record_limit")),
        )
        self.consumer.set_acknowledgement_commit_callback(self.on_answered)
        self.wakes = wakes
        self.is_over = False
        self.begun = self.raised = 0
        self.owed_since: float | None = None
        self.in_hand: list[Any] = []
        self.handed_out: dict[tuple[int, int], int] = {}
        self.answered: dict[tuple[int, int], int] = {}

    def on_answered(self, offsets: dict[TopicIdPartition, set[int]], error: KafkaError | None) -> None:
        """No more is answered for than was handed out, or given back."""
        for partition, numbers in offsets.items():
            for offset in numbers:
                where = partition.partition, offset
                self.answered[where] = self.answered.get(where, 0) + 1
                delivered = self.cluster.deliveries[partition.topic_partition, offset].count
                assert self.answered[where] <= delivered, f"{where} was answered for twice"

    # --- the application's thread

    def live(self) -> None:
        self.consumer.subscribe(["t"])
        for _ in range(self.random.randint(6, 16)):
            self.act()
        self.is_over = True
        self.call(0.0, lambda: self.poll(0.0))
        self.close()

    def act(self) -> None:
        timeout = self.random.choice((0.0, 0.05, 0.5, 3.0))
        kind = self.random.random()
        if kind < 0.6:
            for _ in range(self.random.choice((1, 1, 5))):
                self.call(timeout, lambda: self.poll(timeout))
        elif kind < 0.7:
            self.call(timeout, lambda: self.commit(timeout))
        elif kind < 0.8:
            self.call(0.0, self.consumer.commit_async)
        elif kind < 0.95:
            self.cluster.sleep(self.random.choice((0.01, 0.4, 2.5, 4.0)))
        else:
            # It waits for what is on its way to be given back.
            self.call(5.0, self.unsubscribe)
            self.consumer.subscribe(["t"])

    def call(self, timeout: float, function: Callable[[], object]) -> None:
        """One call: it takes at most its time, and no wakeup is lost or told of twice."""
        began = self.cluster.now
        try:
            function()
        except WakeupError:
            self.raised += 1
            assert self.raised <= self.begun, "a wakeup was told of twice"
            self.check_woken_in_time(began)
            self.owed_since = None
        except (GroupAuthorizationError, KafkaTimeoutError):
            pass
        self.check_woken_in_time(began)
        assert self.cluster.now - began <= timeout + NO_TIME, f"it took {self.cluster.now - began}"

    def check_woken_in_time(self, began: float) -> None:
        if self.owed_since is not None:
            assert self.cluster.now - max(self.owed_since, began) <= NO_TIME, "a wakeup came late"

    def poll(self, timeout: float) -> None:
        was_owed = self.owed_since is not None
        self.acknowledge()
        self.cluster.is_in_poll = True
        try:
            records = list(self.consumer.poll(timeout))
        finally:
            self.cluster.is_in_poll = False
        assert not was_owed, "a wakeup was lost"
        for record in records:
            where = TopicPartition(record.topic, record.partition), record.offset
            state = self.cluster.state(record.partition, record.offset)
            if self.cluster.now - self.cluster.broke_at <= UNSEEN:
                continue
            assert state == ACQUIRED, f"{where} is {state}, and was handed out"
            assert record.delivery_count == self.cluster.deliveries[where].count
        for record in records:
            place = record.partition, record.offset
            self.handed_out[place] = record.delivery_count
        self.in_hand = records

    def unsubscribe(self) -> None:
        self.consumer.unsubscribe()
        if self.cluster.has_refused:
            # What the broker did not take back waits for the end of its lock.
            return
        for (name, offset), delivery in self.cluster.deliveries.items():
            is_in_hand = self.handed_out.get((name.partition, offset)) == delivery.count
            # The lock of what came too late may be over.
            state = self.cluster.state(name.partition, offset)
            assert state != ACQUIRED or is_in_hand, f"{name} {offset} waits for nothing"

    def acknowledge(self) -> None:
        if not self.is_explicit:
            return
        for record in self.in_hand:
            self.consumer.acknowledge(record, self.random.choice(("accept", "accept", "release", "reject")))
        self.in_hand = []

    def commit(self, timeout: float) -> None:
        self.acknowledge()
        self.consumer.commit_sync(timeout)

    def close(self) -> None:
        timeout = self.random.choice((0.0, 0.2, 2.0))
        began = self.cluster.now
        try:
            self.consumer.close(timeout)
        except (KafkaTimeoutError, GroupAuthorizationError):
            pass
        assert self.cluster.now - began <= timeout + NO_TIME
        self.closed_at = self.cluster.now
        self.closed_in_time = self.cluster.now - began < timeout
        self.said_before = len(self.received())

    def received(self) -> list[Any]:
        """What the heartbeat thread has sent."""
        return self.cluster.group_selector.received if self.cluster.group_selector is not None else []

    # --- what happens to it

    def disturb(self) -> None:
        """Wake the application now and then, while the cluster has its moods."""
        cluster, random = self.cluster, self.random
        while not self.is_over:
            cluster.sleep(random.choice((0.0, 0.01, 0.3, 1.0)))
            mood = random.random()
            if mood < 0.4:
                for _ in range(random.choice((1, 12))):
                    cluster.append("t", random.randint(0, 1), b"a", b"b")
            elif mood < 0.55:
                self.wake()
            elif mood < 0.7:
                cluster.wanted = {partition for partition in PARTITIONS if random.random() < 0.7}
            elif mood < 0.85:
                self.answer_with_an_error()
            elif mood < 0.9 and cluster.group_selector is not None:
                cluster.group_selector.break_connection(0)
            elif cluster.app_selector is not None:
                cluster.app_selector.break_connection(0)
                cluster.connection_ended()

    def answer_with_an_error(self) -> None:
        key, codes = self.random.choice(
            (
                (ApiKey.SHARE_GROUP_HEARTBEAT, (25, 110, 30)),
                (ApiKey.SHARE_FETCH, (122, 123, 15, 7)),
                (ApiKey.SHARE_ACKNOWLEDGE, (122, 123, 15, 7)),
            )
        )
        self.cluster.errors.setdefault(key, deque()).append(self.random.choice(codes))

    def wake(self) -> None:
        if self.wakes == "thread":
            self.wake_now()
        else:
            self.cluster.scheduler.interrupt(0, self.wake_now)

    def wake_now(self) -> None:
        self.begun += 1
        number, raised = self.begun, self.raised
        self.consumer.wakeup()
        if self.raised == raised and number == self.begun:
            self.owed_since = self.cluster.now if self.owed_since is None else self.owed_since


def check(run: Run) -> None:
    cluster = run.cluster
    for end in cluster.scheduler.run(run.live, run.disturb):
        if isinstance(end, BaseException):
            raise end
    for (name, offset), delivery in cluster.deliveries.items():
        if delivery.state in (ACCEPTED, ARCHIVED):
            was_seen = (name.partition, offset) in run.handed_out
            assert was_seen, f"{name} {offset} is {delivery.state}, and never was seen"
        assert delivery.state != ACQUIRED, f"{name} {offset} is kept after close"
    if run.closed_in_time:
        assert len(run.received()) == run.said_before, "the heartbeat thread goes on after close"
    if cluster.core is not None:
        assert cluster.group_selector is not None
        assert cluster.group_selector.is_closed
        assert cluster.core_ended_at == run.closed_at


@pytest.mark.parametrize("wakes", ["thread", "signal handler"])
@pytest.mark.parametrize("start", range(0, 60, 30))
def test_a_share_consumer_keeps_its_promises_whoever_has_the_turn(start: int, wakes: str) -> None:
    for seed in range(start, start + 30):
        check(Run(seed, wakes=wakes))


@pytest.mark.slow
@pytest.mark.parametrize("wakes", ["thread", "signal handler"])
@pytest.mark.parametrize("start", range(0, 5000, 250))
def test_the_same_five_thousand_times(start: int, wakes: str) -> None:
    for seed in range(start, start + 250):
        check(Run(seed, wakes=wakes))
