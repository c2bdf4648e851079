"""What the application's thread, the heartbeat thread and a caller of wakeup() do to each other, line by line.

Every run is made from one seed: what the application does, what the cluster does to it, who wakes it up and when, and
whose turn it is. A seed that fails is played again by `check(Run(seed))`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any
from unittest import mock

import pytest

from barnabas.client.consumer import single_thread_use
from barnabas.client.consumer.assignors.consumer_partition_assignor import Assignment
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.coordinator.consumer_protocol import deserialize_subscription, serialize_assignment
from barnabas.client.consumer.single_thread_use import SingleThreadUse
from barnabas.errors import (
    CommitFailedError,
    ConcurrentModificationError,
    GroupAuthorizationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    WakeupError,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.line_scheduler import LineScheduler, strides
from tests.support.scheduled_cluster import ScheduledCluster
from tests.support.scripted_cluster import topic_id

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 500},
    {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 500},
    {"group_protocol": "consumer"},
)
# Virtual time only passes where everybody waits, so what is not waited for takes none.
NO_TIME = 1e-6


class WatchedCluster(ScheduledCluster):
    """Deals out partitions as it likes, and sees what the member has while it says what it has."""

    def __init__(self, choices: Iterator[int], random: Random, *, is_eager: bool) -> None:
        super().__init__(choices)
        self.owned: set[TopicPartition] = set()
        self.heartbeat_interval_ms = 300
        self.is_in_call = False
        self.coordinator: Any = None
        self._random = random
        self._is_eager = is_eager
        self.assign = lambda given: serialize_assignment(Assignment(self.draw_partitions()))

    def draw_partitions(self) -> list[TopicPartition]:
        """None, some or all."""
        return [partition for partition in PARTITIONS if self._random.random() < 0.7]

    def _join_group(self, request: Any) -> Any:
        said = (
            set() if self._is_eager else set(deserialize_subscription(request.protocols[0].metadata).owned_partitions)
        )
        assert self.owned <= said, f"it joins with {said}, and the application has {self.owned}"
        return super()._join_group(request)

    def _consumer_group_heartbeat(self, request: Any) -> Any:
        if request.topic_partitions is not None:
            names = {topic_id("t"): "t"}
            said = {TopicPartition(names[t.topic_id], p) for t in request.topic_partitions for p in t.partitions}
            assert self.owned <= said, f"it acknowledges {said}, and the application has {self.owned}"
        return super()._consumer_group_heartbeat(request)

    def _let_pass(self, until: float) -> float:
        """Time passes: nothing may be left unread by who could read it, and nobody may wait for what never comes."""
        core = self.core
        if core is not None and not core.is_done:
            assert not core._commands, f"{core._commands} are not seen"
            if self.is_in_call:
                assert not core.events, f"{core.events} are not seen"
                commits = self.coordinator.commits
                assert not core._offsets.is_idle or not commits.has_unanswered_async_commits, "an answer was lost"
        return super()._let_pass(until)


class Run(ConsumerRebalanceListener):
    """One consumer, what happens to it, and what it must never see."""

    def __init__(self, seed: int, *, wakes: str = "thread") -> None:
        self.random = random = Random(f"run {seed}")
        protocol = random.choice(PROTOCOLS)
        is_eager = protocol.get("partition_assignment_strategy") == "range"
        self.cluster = WatchedCluster(strides(seed), random, is_eager=is_eager)
        self.consumer = self.cluster.consumer(
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=random.random() < 0.3,
            auto_commit_interval_ms=300,
            max_poll_records=3,
            max_poll_interval_ms=2_000,
            request_timeout_ms=1_000,
            default_api_timeout_ms=1_500,
            **protocol,
        )
        self.cluster.coordinator = self.consumer._parts.coordinator
        self.is_over = False
        self.wakes = wakes
        # Wakeups that were begun, that have returned without having ended a call, when, and the errors they became.
        self.begun = self.raised = 0
        self.owed_since: float | None = None
        self.expected: dict[TopicPartition, int] = {}
        self.in_listener = 0.0
        self.commits: list[int] = []
        self.called_back: list[int] = []
        self.refused = 0

    # --- what the application is told

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        assert not self.cluster.owned & set(partitions)
        self.cluster.owned |= set(partitions)
        for partition in partitions:
            self.expected.pop(partition, None)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        began = self.cluster.now
        try:
            if partitions and self.random.random() < 0.5:
                self.commit(0.5)
        finally:
            self.cluster.owned -= set(partitions)
            self.in_listener += self.cluster.now - began

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.cluster.owned -= set(partitions)

    # --- the application's thread

    def live(self) -> None:
        self.consumer.subscribe(["t"], self)
        for _ in range(self.random.randint(5, 12)):
            self.act()
        self.is_over = True
        self.call(0.0, lambda: self.poll(0.0))
        self.close()

    def act(self) -> None:
        timeout = self.random.choice((0.0, 0.05, 0.5, 3.0))
        kind = self.random.random()
        if kind < 0.55:
            self.call(timeout, lambda: self.poll(timeout))
        elif kind < 0.65:
            self.call(timeout, lambda: self.commit(timeout))
        elif kind < 0.8:
            for _ in range(self.random.choice((1, 1, 4))):
                self.call(0.0, self.commit_async)
        elif kind < 0.85:
            self.call(0.0, self.seek)
        elif kind < 0.89:
            self.call(0.0, self.consumer.enforce_rebalance)
            self.call(0.0, lambda: self.poll(0.0))
            self.call(0.0, self.commit_async)
        elif kind < 0.95:
            self.cluster.sleep(self.random.choice((0.01, 0.4, 2.5)))
        else:
            self.call(0.0, self.consumer.unsubscribe)
            assert not self.cluster.owned
            self.consumer.subscribe(["t"], self)

    def call(self, timeout: float, function: Callable[[], object]) -> None:
        """One call into the consumer: it takes at most its time, and no wakeup is lost or told of twice."""
        began, self.in_listener = self.cluster.now, 0.0
        self.cluster.is_in_call = True
        try:
            function()
        except WakeupError:
            self.raised += 1
            assert self.raised <= self.begun, "a wakeup was told of twice"
            self.check_woken_in_time(began)
            self.owed_since = None
        except GroupAuthorizationError:
            self.refused += 1
        finally:
            self.cluster.is_in_call = False
        self.check_woken_in_time(began)
        assert self.cluster.now - began - self.in_listener <= timeout + NO_TIME, f"it took {self.cluster.now - began}"

    def check_woken_in_time(self, began: float) -> None:
        if self.owed_since is not None:
            assert self.cluster.now - max(self.owed_since, began) <= NO_TIME, "a wakeup came late"

    def poll(self, timeout: float) -> None:
        was_owed = self.owed_since is not None
        records = self.consumer.poll(timeout)
        assert not was_owed, "a wakeup was lost"
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            assert partition in self.cluster.owned, f"a record of {partition}, which was given up"
            assert record.offset == self.expected.get(partition, record.offset), (
                f"{self.expected} expected, not {record}"
            )
            self.expected[partition] = record.offset + 1
        assert self.consumer.assignment() == self.cluster.owned

    def commit(self, timeout: float) -> None:
        try:
            self.consumer.commit(timeout=timeout)
        except (CommitFailedError, RebalanceInProgressError, KafkaTimeoutError):
            return

    def commit_async(self) -> None:
        number = len(self.commits)
        self.commits.append(number)
        self.consumer.commit_async(callback=lambda offsets, error: self.called_back.append(number))

    def seek(self) -> None:
        for partition in sorted(self.cluster.owned):
            self.expected[partition] = self.random.randint(0, self.cluster.log_end(partition))
            self.consumer.seek(partition, self.expected[partition])

    def close(self) -> None:
        timeout = self.random.choice((0.0, 0.2, 2.0))
        began, self.in_listener = self.cluster.now, 0.0
        try:
            self.consumer.close(timeout)
        except (KafkaTimeoutError, GroupAuthorizationError):
            pass
        assert self.cluster.now - began - self.in_listener <= timeout + NO_TIME
        self.closed_in_time = self.cluster.now - began < timeout
        self.closed_at = self.cluster.now
        assert not self.cluster.owned
        assert self.called_back == self.commits, "callbacks run in the order of the commits, each once"
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
            if mood < 0.3:
                cluster.append("t", random.randint(0, 1), b"a", b"b")
            elif mood < 0.5:
                self.wake()
            elif mood < 0.65:
                cluster.wanted = set(cluster.draw_partitions())
            elif mood < 0.7 and cluster.group_selector is not None:
                cluster.group_selector.is_sending_stuck = True
                cluster.at(random.choice((0.1, 0.6, 1.2)), self.answer_again)
            elif mood < 0.9:
                self.answer_with_an_error()
            elif mood < 0.95 and cluster.group_selector is not None:
                cluster.group_selector.break_connection(0)
            elif cluster.app_selector is not None:
                cluster.app_selector.break_connection(0)

    def answer_again(self) -> None:
        assert self.cluster.group_selector is not None
        self.cluster.group_selector.is_sending_stuck = False

    def answer_with_an_error(self) -> None:
        key, codes = self.random.choice(
            (
                (ApiKey.HEARTBEAT, (27, 27, 25, 22, 30)),
                (ApiKey.CONSUMER_GROUP_HEARTBEAT, (25, 110, 30)),
                (ApiKey.JOIN_GROUP, (27, 25, 15)),
                (ApiKey.OFFSET_COMMIT, (27, 25, 14, 16)),
                (ApiKey.OFFSET_FETCH, (14, 16)),
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
    ends = run.cluster.scheduler.run(run.live, run.disturb)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    if run.closed_in_time:
        assert len(run.received()) == run.said_before, "the heartbeat thread goes on after close"
    if run.cluster.core is not None:
        assert run.cluster.group_selector is not None
        assert run.cluster.group_selector.is_closed
        assert run.cluster.core_ended_at == run.closed_at


@pytest.mark.parametrize("wakes", ["thread", "signal handler"])
@pytest.mark.parametrize("start", range(0, 120, 30))
def test_a_consumer_keeps_its_promises_whoever_has_the_turn(start: int, wakes: str) -> None:
    for seed in range(start, start + 30):
        check(Run(seed, wakes=wakes))


@pytest.mark.slow
@pytest.mark.parametrize("wakes", ["thread", "signal handler"])
@pytest.mark.parametrize("start", range(0, 5000, 250))
def test_the_same_five_thousand_times(start: int, wakes: str) -> None:
    for seed in range(start, start + 250):
        check(Run(seed, wakes=wakes))


def polled(cluster: ScheduledCluster, consumer: Consumer, until: float) -> list[tuple[float, KafkaError]]:
    """Poll until then; the errors, and when they came."""
    errors = []
    consumer.subscribe(["t"])
    while cluster.now < until:
        try:
            consumer.poll(0.7)
        except KafkaError as error:
            errors.append((cluster.now, error))
            cluster.sleep(0.05)
    return errors


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["eager", "cooperative", "consumer"])
def test_an_error_that_the_heartbeat_thread_finds_comes_out_of_poll_once(protocol: dict[str, Any]) -> None:
    for seed in range(12):
        cluster = ScheduledCluster(strides(seed))
        cluster.errors = {
            ApiKey.HEARTBEAT: deque([0] * (seed % 3) + [30]),
            ApiKey.CONSUMER_GROUP_HEARTBEAT: deque([0] * (seed % 3) + [30]),
        }
        consumer = cluster.consumer(group_id="g", **protocol)

        def live(cluster: ScheduledCluster = cluster, consumer: Consumer = consumer) -> list[Any]:
            errors = polled(cluster, consumer, cluster.now + (17.0 if "group_protocol" in protocol else 10.0))
            consumer.close()
            return errors

        (errors,) = cluster.scheduler.run(live)

        key = ApiKey.CONSUMER_GROUP_HEARTBEAT if "group_protocol" in protocol else ApiKey.HEARTBEAT
        assert isinstance(errors, list), errors
        assert [(when, type(error)) for when, error in errors] == [
            (cluster.times(key)[seed % 3], GroupAuthorizationError)
        ], f"seed {seed}"


def test_the_end_of_the_heartbeat_thread_comes_out_of_the_poll_in_progress_and_of_every_later_one() -> None:
    for seed in range(30):
        cluster = ScheduledCluster(strides(seed))
        consumer = cluster.consumer(group_id="g", heartbeat_interval_ms=500, default_api_timeout_ms=2_000)
        ends_at = cluster.now + 0.5 * (seed % 4) + 0.1
        called_back: list[KafkaError | None] = []

        def live(
            cluster: ScheduledCluster = cluster,
            consumer: Consumer = consumer,
            called_back: list[KafkaError | None] = called_back,
        ) -> list[Any]:
            errors = polled(cluster, consumer, cluster.now + 4.0)
            consumer.commit_async({PARTITIONS[0]: 1}, lambda _, outcome: called_back.append(outcome))
            with pytest.raises(KafkaError, match="ZeroDivisionError"):
                consumer.close(1.0)
            return errors

        def end(cluster: ScheduledCluster = cluster, ends_at: float = ends_at) -> None:
            cluster.sleep(ends_at - cluster.now)
            cluster.core.run_once = lambda now: 1 // 0
            cluster.core.network_client.wakeup()

        errors, _ = cluster.scheduler.run(live, end)

        assert isinstance(errors, list), errors
        assert errors[0][0] == ends_at, f"seed {seed}"
        assert len(errors) >= 3
        assert all("ZeroDivisionError" in str(error) for _, error in errors)
        assert [type(error) for error in called_back] == [KafkaTimeoutError]
        assert cluster.now <= 1_005.0 + NO_TIME, "close must not wait for a thread that has ended"


def test_two_threads_are_never_inside_at_once_and_nobody_enters_after_close() -> None:
    for seed in range(200):
        scheduler = LineScheduler(strides(seed), single_thread_use)
        with mock.patch.object(single_thread_use, "threading", scheduler.threading()):
            use = SingleThreadUse()
        inside: list[str] = []

        def enter(name: str, use: SingleThreadUse = use, inside: list[str] = inside) -> None:
            with use:
                assert not inside
                assert not use.is_closed
                inside.append(name)
                with use:
                    inside.pop()

        def close(use: SingleThreadUse = use, inside: list[str] = inside) -> None:
            with use:
                assert not inside
                use.is_closed = True

        ends = scheduler.run(lambda: enter("one"), lambda: enter("other"), close)

        assert all(end is None or type(end) in (ConcurrentModificationError, IllegalStateError) for end in ends), ends
        assert None in ends
