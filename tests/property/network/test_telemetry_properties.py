"""A client's telemetry and a broker's, over a network that loses things (KIP-714)."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas import errors
from barnabas.broker.client_metrics.client_metrics_manager import ClientMetricsManager, TelemetryClient
from barnabas.broker.metadata.cluster_metadata import CLIENT_METRICS, ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.client.telemetry.client_telemetry_sender import (
    LAST_PUSH_TIMEOUT,
    ClientTelemetrySender,
    ClientTelemetrySubscription,
    TelemetryPayload,
)
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from barnabas.protocol.messages.push_telemetry_response import PushTelemetryResponse

CLIENT = TelemetryClient("", "c", "software", "1", "10.0.0.1", "5")


class Counter:
    """What the client counts, told as what came since the last push that was taken."""

    def __init__(self) -> None:
        self.value = 0
        self._told = self._making = 0

    def make(self, subscription: ClientTelemetrySubscription) -> TelemetryPayload:
        self._making = self.value
        return TelemetryPayload(0, b"%d %d" % (self._told, self.value))

    def on_accepted(self) -> None:
        self._told = self._making


class Sum:
    """What the broker was told: from where to where the client had counted, never the same twice."""

    def __init__(self) -> None:
        self.total = 0
        self._told_up_to = 0

    def export(self, client: TelemetryClient, metrics: bytes, now: float, keep_until: float) -> None:
        begin, end = map(int, metrics.split())
        assert begin >= self._told_up_to, "this was told before"
        self._told_up_to = end
        self.total += end - begin


class World:
    """Both ends and their time; `subscribe` is the operator."""

    def __init__(self, seed: int) -> None:
        self.now = 1000.0
        self.counter, self.sum = Counter(), Sum()
        self.sender = ClientTelemetrySender(self.counter, random.Random(seed))
        self.metadata = ClusterMetadata(MemoryStore())
        self.manager = ClientMetricsManager(self.metadata, self.sum, random.Random(seed), 1000)
        self.refusals: list[str] = []
        self.ids: set[bytes] = set()

    def subscribe(self, metrics: str, interval_ms: int) -> None:
        self.metadata.put_configs(CLIENT_METRICS, "s", {"metrics": metrics, "interval.ms": str(interval_ms)})

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def exchange(self, fate: str) -> None:
        """Send what is due next; the request or the answer may be lost with its connection."""
        wait = self.sender.time_to_next_request(self.now)
        if wait == float("inf"):
            return
        self.wait(wait)
        request = self.sender.create_request(self.now)
        if request is None:
            return
        answer = None if fate == "request lost" else self.serve(request)
        if answer is None or fate == "answer lost":
            self.sender.handle_failed_request(self.now, None)
        else:
            self.sender.handle_response(self.now, answer)

    def serve(self, request: Any) -> Any:
        try:
            if isinstance(request, GetTelemetrySubscriptionsRequest):
                instance_id, wanted = self.manager.subscription(request.client_instance_id, CLIENT, self.now)
                self.ids.add(instance_id)
                return GetTelemetrySubscriptionsResponse(
                    client_instance_id=instance_id, subscription_id=wanted.id,
                    push_interval_ms=wanted.push_interval_ms, telemetry_max_bytes=1000, delta_temporality=True,
                    requested_metrics=list(wanted.metrics),
                )  # fmt: skip
            self.manager.push(CLIENT, request, self.now)
        except errors.KafkaError as refusal:
            self.refusals.append(refusal.name or "")
            is_question = isinstance(request, GetTelemetrySubscriptionsRequest)
            answer = GetTelemetrySubscriptionsResponse if is_question else PushTelemetryResponse
            return answer(error_code=refusal.code)
        return PushTelemetryResponse()

    def close(self) -> None:
        """The client closes, on a network that works."""
        self.sender.initiate_close(self.now)
        self.exchange("arrives")


subscriptions = st.tuples(st.sampled_from(["*", "a.", ""]), st.sampled_from([100, 1000, 60_000]))
quiet = st.lists(
    st.one_of(
        st.tuples(st.just("count"), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.sampled_from([0.05, 0.1, 1.0, 60.0, 400.0])),
        st.tuples(st.just("exchange"), st.just("arrives")),
    ),
    max_size=40,
)
troubled = st.lists(
    st.one_of(
        st.tuples(st.just("count"), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.sampled_from([0.05, 0.1, 1.0, 60.0, 400.0])),
        st.tuples(st.just("exchange"), st.sampled_from(["arrives", "arrives", "request lost", "answer lost"])),
        st.tuples(st.just("subscribe"), subscriptions),
    ),
    min_size=15,
    max_size=60,
)


def play(world: World, steps: list[tuple[str, Any]]) -> None:
    for what, how in steps:
        if what == "count":
            world.counter.value += how
        elif what == "subscribe":
            world.subscribe(*how)
        else:
            getattr(world, what)(how)


@given(st.integers(0, 2**32), st.sampled_from([100, 1000, 60_000]), quiet)
def test_on_a_network_that_works_everything_is_told_once_and_nothing_too_early(
    seed: int, interval_ms: int, steps: list[tuple[str, Any]]
) -> None:
    world = World(seed)
    world.subscribe("*", interval_ms)
    world.exchange("arrives")
    play(world, steps)
    world.close()

    assert world.sum.total == world.counter.value
    assert world.refusals == []
    assert world.sender.is_done


@given(st.integers(0, 2**32), troubled)
def test_whatever_happens_nothing_is_told_twice_and_the_client_ends_and_stays_who_it_is(
    seed: int, steps: list[tuple[str, Any]]
) -> None:
    world = World(seed)
    world.subscribe("*", 1000)
    play(world, steps)
    assert world.sum.total <= world.counter.value
    known = world.sender.subscription
    assert known is None or known.client_instance_id in world.ids

    world.sender.initiate_close(world.now)
    world.wait(LAST_PUSH_TIMEOUT)
    world.sender.time_to_next_request(world.now)
    assert world.sender.is_done


@settings(max_examples=30)
@given(st.integers(0, 2**32), troubled)
def test_after_any_trouble_a_client_that_is_subscribed_to_pushes_again(seed: int, steps: list[tuple[str, Any]]) -> None:
    world = World(seed)
    play(world, steps)
    world.subscribe("b.", 1000)
    world.wait(400)
    before = world.sum.total
    world.counter.value += 1
    for _ in range(6):
        world.exchange("arrives")
        world.wait(301)

    assert world.sum.total > before
