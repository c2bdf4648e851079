"""The thread that polls: what it does with a batch, with a wake-up and with an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from barnabas.client.consumer.fetching.fetched_data import FetchedData
from barnabas.errors import AuthorizationError, KafkaTimeoutError, WakeupError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.handover import ClosedError, Handover
from barnabas.spark.kafka_consumer_thread import POLL_TIMEOUT, KafkaConsumerThread
from tests.support.interleaving import Stage, end_all


@pytest.fixture(autouse=True)
def _actors_end() -> Iterator[None]:
    yield
    end_all()


RUN = "barnabas.spark.kafka_consumer_thread:KafkaConsumerThread.run"
HAND_OVER = "barnabas.spark.kafka_consumer_thread:KafkaConsumerThread._hand_over"
POLL = "barnabas.spark.kafka_consumer_thread:KafkaConsumerThread._poll"
SHUTDOWN = "barnabas.spark.kafka_consumer_thread:KafkaConsumerThread.shutdown"


def batch(number: int) -> list[FetchedData]:
    return [FetchedData(TopicPartition("t", 0), number, number + 1, b"", True, None)]


class ScriptedConsumer:
    """Gives what the test says, then waits in `poll_raw` until the actor is run again, which wakes it.

    `stop` ends the thread when the script is over; with `is_silent` polls return without data.
    """

    def __init__(self, stage: Stage, *script: Any, is_silent: bool) -> None:
        self.stage = stage
        self.is_silent = is_silent
        self.script = list(script)
        self.polls: list[float] = []
        self.wakeups = 0
        self.stop: Any = None

    def poll_raw(self, timeout: float) -> Sequence[FetchedData]:
        self.polls.append(timeout)
        if not self.script and not self.is_silent:
            assert self.stage.current is not None
            self.stage.current.pause("held")
            raise WakeupError("woken")
        step = self.script.pop(0) if self.script else []
        if not self.script and self.stop is not None:
            self.stop()
        if isinstance(step, BaseException):
            raise step
        return step  # type: ignore[no-any-return]  # a list of FetchedData

    def wakeup(self) -> None:
        self.wakeups += 1


class Scene:
    """The thread under test as one actor, and a hand-over on the same stage."""

    def __init__(self, *script: Any, is_silent: bool = False, **settings: Any) -> None:
        self.stage = Stage()
        self.handover: Handover[Sequence[FetchedData]] = Handover(self.stage)
        self.consumer = ScriptedConsumer(self.stage, *script, is_silent=is_silent)
        self.thread = KafkaConsumerThread(self.consumer, self.handover, **settings)
        self.actor = self.stage.actor("thread", self.thread.run)

    def take(self) -> Any:
        actor = self.stage.actor("task", self.handover.poll_next)
        assert actor.run() == "done"
        return actor.error or actor.result

    def call(self, function: Any) -> None:
        assert self.stage.actor("other", function).run() == "done"

    def stop(self) -> None:
        self.thread._running = False


@pytest.mark.shows("S0.36", breaks=RUN)
@pytest.mark.shows("S0.37", breaks=HAND_OVER)
@pytest.mark.shows("S0.16", breaks=RUN)
def test_it_polls_and_hands_over_one_batch_after_the_other() -> None:
    scene = Scene(batch(0), batch(1), batch(2))

    taken = []
    for _ in range(3):
        scene.actor.run()
        taken.append(scene.take())

    assert taken == [batch(0), batch(1), batch(2)]


@pytest.mark.shows("S0.63", breaks=RUN)
@pytest.mark.shows("S0.62", breaks=RUN)
def test_the_next_batch_is_fetched_while_the_task_works_and_none_beyond_it() -> None:
    scene = Scene(batch(0), batch(1), batch(2))

    state = scene.actor.run()  # the task takes nothing yet

    assert state == "waiting"  # with one batch in the slot and one in hand
    assert len(scene.consumer.polls) == 2


@pytest.mark.shows("S0.39", breaks=HAND_OVER)
@pytest.mark.shows("S0.40", breaks=HAND_OVER)
def test_a_batch_whose_hand_over_was_woken_is_kept_and_offered_again_without_a_poll() -> None:
    scene = Scene(batch(0), batch(1), batch(2))
    scene.actor.run()
    polls = len(scene.consumer.polls)

    scene.call(scene.handover.wakeup_producer)
    state = scene.actor.run()

    assert state == "waiting"  # offers the same batch again
    assert len(scene.consumer.polls) == polls
    taken = [scene.take()]
    scene.actor.run()
    taken.append(scene.take())
    assert taken == [batch(0), batch(1)]  # none lost, none twice


@pytest.mark.shows("S0.38", breaks=POLL)
@pytest.mark.shows("S0.40", breaks=POLL)
def test_a_woken_poll_fetched_nothing_and_the_next_turn_polls_again() -> None:
    scene = Scene(WakeupError("woken"), batch(5))

    scene.actor.run()

    assert scene.take() == batch(5)
    assert len(scene.consumer.polls) >= 2


@pytest.mark.shows("S0.38", breaks=POLL)
def test_a_woken_poll_ends_the_thread_when_it_is_shut_down() -> None:
    scene = Scene(WakeupError("woken"))
    scene.consumer.stop = scene.stop

    assert scene.actor.run() == "done"

    assert scene.actor.error is None
    assert len(scene.consumer.polls) == 1


@pytest.mark.shows("S0.5", breaks=RUN)
@pytest.mark.shows("S0.56", breaks=RUN)
def test_any_other_error_is_not_tried_again_but_raised_on_the_tasks_thread() -> None:
    error = AuthorizationError("not yours")
    scene = Scene(error, batch(1))

    assert scene.actor.run() == "done"

    assert scene.take() is error
    assert len(scene.consumer.polls) == 1


@pytest.mark.shows("S0.3", breaks=RUN)
def test_every_poll_waits_a_tenth_of_a_second_at_most_and_the_next_follows_at_once() -> None:
    scene = Scene([], [], [], batch(0))

    scene.actor.run()

    assert POLL_TIMEOUT == 0.1
    assert scene.consumer.polls[:4] == [0.1] * 4
    assert scene.take() == batch(0)


def test_without_data_for_too_long_it_reports_what_it_waited_for() -> None:
    times = iter(range(0, 1000, 50))
    scene = Scene(
        is_silent=True, stall_timeout=120.0, describe_stall=lambda: "nothing of t-0", clock=lambda: float(next(times))
    )

    assert scene.actor.run() == "done"

    error = scene.take()
    assert isinstance(error, KafkaTimeoutError)
    assert str(error) == "nothing of t-0"


@pytest.mark.shows("S0.33", breaks=SHUTDOWN)
def test_shut_down_it_ends_and_what_nobody_took_is_kept_in_order() -> None:
    scene = Scene(batch(0), batch(1), batch(2))
    scene.actor.run()

    scene.call(scene.thread.shutdown)
    assert scene.actor.run() == "done"

    assert scene.consumer.wakeups == 1
    assert [*scene.thread.undelivered] == [*batch(0), *batch(1)]
    assert isinstance(scene.take(), ClosedError)


@pytest.mark.shows("S0.9", breaks=SHUTDOWN)
@pytest.mark.shows("S0.28", breaks="barnabas.spark.kafka_consumer_thread:KafkaConsumerThread.start")
def test_it_is_another_thread_that_sees_the_shutdown() -> None:
    import threading

    polled = threading.Event()
    threads = []

    class Endless:
        def poll_raw(self, timeout: float) -> Sequence[FetchedData]:
            threads.append(threading.current_thread())
            polled.set()
            return []

        def wakeup(self) -> None: ...

    thread = KafkaConsumerThread(Endless(), Handover())
    thread.start()
    assert polled.wait(10)

    thread.shutdown()
    thread.join()

    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()
