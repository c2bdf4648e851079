"""When a client asks what telemetry is wanted, when it pushes, and what the answers mean (KIP-714)."""

from __future__ import annotations

import threading
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.errors import (
    KafkaError,
    ProtocolError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    for_code,
    name_of,
)
from barnabas.network.log_context import client_logger
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from barnabas.protocol.messages.push_telemetry_request import PushTelemetryRequest

if TYPE_CHECKING:
    from barnabas.network.client_request import Request
    from barnabas.protocol.messages.push_telemetry_response import PushTelemetryResponse

log = client_logger("barnabas.telemetry")

DEFAULT_PUSH_INTERVAL: Final = 300.0
# Seconds that closing waits at most for the last push to be answered.
LAST_PUSH_TIMEOUT: Final = 1.0
# The first push after news of a subscription comes after so much of the interval, for clients that started together.
_JITTER: Final = (0.5, 1.5)


_ASK_AGAIN_NOW: Final = frozenset((UnknownSubscriptionIdError.code, UnsupportedCompressionTypeError.code))
_ASK_AGAIN_LATER: Final = frozenset((TelemetryTooLargeError.code, ThrottlingQuotaExceededError.code))


class ClientTelemetryState(Enum):
    """Kafka's ClientTelemetryState."""

    SUBSCRIPTION_NEEDED = 1
    SUBSCRIPTION_IN_PROGRESS = 2
    PUSH_NEEDED = 3
    PUSH_IN_PROGRESS = 4
    TERMINATING_PUSH_NEEDED = 5
    TERMINATING_PUSH_IN_PROGRESS = 6
    TERMINATED = 7


_S = ClientTelemetryState
_TERMINATING: Final = frozenset((_S.TERMINATING_PUSH_NEEDED, _S.TERMINATING_PUSH_IN_PROGRESS))


class ClientTelemetrySubscription(NamedTuple):
    """What a broker wants of this client. The interval is in seconds; compression types are ids, the best first."""

    client_instance_id: bytes
    subscription_id: int
    push_interval: float
    compression_types: tuple[int, ...]
    max_bytes: int
    is_delta: bool
    metrics: tuple[str, ...]

    @classmethod
    def of(cls, answer: GetTelemetrySubscriptionsResponse) -> ClientTelemetrySubscription:
        """Return what an answer says, with Kafka's default where its interval makes no sense.

        Raises `ProtocolError` when it gives the client no id.

        """
        if answer.client_instance_id == ZERO_UUID:
            raise ProtocolError("the broker's GetTelemetrySubscriptions response has no client instance id")
        return cls(
            answer.client_instance_id,
            answer.subscription_id,
            answer.push_interval_ms / 1000 if answer.push_interval_ms > 0 else DEFAULT_PUSH_INTERVAL,
            tuple(answer.accepted_compression_types),
            answer.telemetry_max_bytes,
            answer.delta_temporality,
            tuple(answer.requested_metrics or ()),
        )

    def wants(self, metric: str) -> bool:
        """Whether a metric of this name is asked for: all with `*`, else those that begin with a name asked for."""
        return self.metrics == ("*",) or metric.startswith(self.metrics)


class TelemetryPayload(NamedTuple):
    """The metrics as OTLP MetricsData, compressed."""

    compression_type: int
    metrics: bytes


class PayloadMaker(Protocol):
    """Makes what is pushed."""

    def make(self, subscription: ClientTelemetrySubscription) -> TelemetryPayload | None:
        """Return the metrics now; None when they cannot be sent."""

    def on_accepted(self) -> None:
        """Note that a broker has taken what was made last, or may have."""


class RandomSource(Protocol):
    """Where the jitter comes from."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between the two."""


class ClientTelemetrySender:
    """Kafka's ClientTelemetrySender: sans-IO, `now` is monotonic seconds. Several threads may call it.

    It asks for the subscription as soon as there is a connection, pushes at the interval that the broker gives, asks
    again when the subscription has changed, and pushes a last time when the client closes. What a broker does not
    want is not collected.
    """

    def __init__(self, payloads: PayloadMaker, random: RandomSource) -> None:
        self._payloads = payloads
        self._random = random
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._state = _S.SUBSCRIPTION_NEEDED
        self._subscription: ClientTelemetrySubscription | None = None
        self._due_at = 0.0
        self._end_by = inf
        self._has_asked_again = False
        self._failure: KafkaError | None = None
        self.is_awaited = False

    @property
    def state(self) -> ClientTelemetryState:
        """Where it stands."""
        return self._state

    @property
    def is_urgent(self) -> bool:
        """See `Telemetry`."""
        return self.is_awaited or self._state in _TERMINATING

    @property
    def subscription(self) -> ClientTelemetrySubscription | None:
        """What was last asked for."""
        return self._subscription

    # The id, for those who ask.

    def instance_id(self) -> bytes | None:
        """Return the client's id (16 bytes), None until a broker has given it.

        Raises `KafkaError`: why there is none, since `ask_for_instance_id`.

        """
        if self._subscription is not None:
            return self._subscription.client_instance_id
        if self._failure is not None:
            raise self._failure
        return None

    def has_answer(self) -> bool:
        """Whether `instance_id` has something to say."""
        return self._subscription is not None or self._failure is not None or self.is_done

    def await_answer(self, timeout: float) -> None:
        """Let a thread wait, for at most so many seconds, that does not drive the network itself."""
        with self._changed:
            self._changed.wait_for(self.has_answer, timeout)

    def ask_for_instance_id(self) -> None:
        """Have a broker asked at once, unless one is being asked or has answered."""
        with self._lock:
            self.is_awaited = self._subscription is None
            self._failure = None
            if self.is_awaited and self._state is _S.SUBSCRIPTION_NEEDED:
                self._due_at = 0.0

    # See `Telemetry` for the next four.

    def time_to_next_request(self, now: float) -> float:
        """Seconds until a request is due, or until the last one is waited for no longer."""
        if now >= self._end_by:
            with self._lock:
                self._go(_S.TERMINATED, inf)
            # Who waits for the end has reached it.
            return 0.0
        return max(0.0, min(self._due_at, self._end_by) - now)

    def create_request(self, now: float) -> Request | None:
        """Return the request to send now, None when there is nothing to send after all."""
        with self._lock:
            state, subscription = self._state, self._subscription
            if state is _S.SUBSCRIPTION_NEEDED:
                self._go(_S.SUBSCRIPTION_IN_PROGRESS, inf)
                known = ZERO_UUID if subscription is None else subscription.client_instance_id
                return GetTelemetrySubscriptionsRequest(client_instance_id=known)
            if state not in (_S.PUSH_NEEDED, _S.TERMINATING_PUSH_NEEDED) or subscription is None:
                return None
            is_last = state is _S.TERMINATING_PUSH_NEEDED
            self._go(_S.TERMINATING_PUSH_IN_PROGRESS if is_last else _S.PUSH_IN_PROGRESS, inf)
        # Without the lock: the application's own metrics may call back into the client.
        payload = self._payloads.make(subscription)
        if payload is None:
            self._on_not_pushed(now, subscription)
            return None
        return PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=is_last,
            compression_type=payload.compression_type,
            metrics=payload.metrics,
        )

    def _on_not_pushed(self, now: float, subscription: ClientTelemetrySubscription) -> None:
        with self._lock:
            if self._state is _S.PUSH_IN_PROGRESS:
                self._go(_S.PUSH_NEEDED, now + subscription.push_interval)
            else:
                self._go(_S.TERMINATED, inf)

    def handle_response(self, now: float, message: GetTelemetrySubscriptionsResponse | PushTelemetryResponse) -> None:
        """Take in an answer to what `create_request` gave."""
        with self._lock:
            if isinstance(message, GetTelemetrySubscriptionsResponse):
                if self._state is _S.SUBSCRIPTION_IN_PROGRESS:
                    self._handle_subscription(now, message)
            elif self._state is _S.PUSH_IN_PROGRESS:
                self._handle_push(now, message.error_code)
            elif self._state is _S.TERMINATING_PUSH_NEEDED:
                self._take_last_but_one(now, is_told=not message.error_code)
            elif self._state is _S.TERMINATING_PUSH_IN_PROGRESS:
                self._go(_S.TERMINATED, inf)

    def _take_last_but_one(self, now: float, *, is_told: bool) -> None:
        """Begin the last push, which tells what came since a push that was in flight when the client closed."""
        if is_told:
            self._payloads.on_accepted()
        self._go(_S.TERMINATING_PUSH_NEEDED, now)

    def _handle_subscription(self, now: float, answer: GetTelemetrySubscriptionsResponse) -> None:
        if answer.error_code:
            self._failure = for_code(answer.error_code)
            self._handle_error(now, answer.error_code)
            return
        try:
            subscription = ClientTelemetrySubscription.of(answer)
        except ProtocolError as error:
            self._give_up(error)
            return
        self._subscription, self.is_awaited = subscription, False
        if subscription.metrics:
            self._go(_S.PUSH_NEEDED, now + self._random.uniform(*_JITTER) * subscription.push_interval)
        else:
            self._go(_S.SUBSCRIPTION_NEEDED, now + subscription.push_interval)
        log.debug("telemetry subscription: %s", subscription)

    def _handle_push(self, now: float, error_code: int) -> None:
        if error_code:
            self._handle_error(now, error_code)
            return
        assert self._subscription is not None
        self._payloads.on_accepted()
        self._has_asked_again = False
        self._go(_S.PUSH_NEEDED, now + self._subscription.push_interval)

    def _handle_error(self, now: float, code: int) -> None:
        interval = DEFAULT_PUSH_INTERVAL if self._subscription is None else self._subscription.push_interval
        if code in _ASK_AGAIN_NOW and not self._has_asked_again:
            # Once: a broker that answers so again and again is not asked without a pause.
            self._has_asked_again = True
            self._go(_S.SUBSCRIPTION_NEEDED, now)
        elif code in _ASK_AGAIN_NOW or code in _ASK_AGAIN_LATER:
            log.warning("the broker refused telemetry: %s", name_of(code))
            self._go(_S.SUBSCRIPTION_NEEDED, now + interval)
        else:
            self._give_up(for_code(code))

    def _give_up(self, error: KafkaError) -> None:
        log.warning("no more telemetry is sent: %s", error)
        self._failure = error
        self._go(_S.SUBSCRIPTION_NEEDED, inf)

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """Try again after a pause: a broker without telemetry may be followed by one that has it."""
        with self._lock:
            if self._state is _S.PUSH_IN_PROGRESS and error is None and self._subscription is not None:
                # It may have come to the broker: better told never than told twice. The next broker takes the next one.
                self._payloads.on_accepted()
                self._go(_S.PUSH_NEEDED, now + self._subscription.push_interval)
            elif self._state in (_S.SUBSCRIPTION_IN_PROGRESS, _S.PUSH_IN_PROGRESS):
                self._failure = error
                known = self._subscription
                self._go(_S.SUBSCRIPTION_NEEDED, now + (known.push_interval if known else DEFAULT_PUSH_INTERVAL))
                if error is None and self.is_awaited:
                    self._due_at = now
            elif self._state is _S.TERMINATING_PUSH_NEEDED:
                self._take_last_but_one(now, is_told=error is None)
            elif self._state is _S.TERMINATING_PUSH_IN_PROGRESS:
                self._go(_S.TERMINATED, inf)

    # The end.

    def initiate_close(self, now: float) -> None:
        """Note that the client closes: it pushes a last time, if it pushes at all, until `is_done`."""
        with self._lock:
            if self._state in (_S.PUSH_NEEDED, _S.PUSH_IN_PROGRESS):
                self._go(_S.TERMINATING_PUSH_NEEDED, now if self._state is _S.PUSH_NEEDED else inf)
                self._end_by = now + LAST_PUSH_TIMEOUT
            elif self._state not in _TERMINATING:
                self._go(_S.TERMINATED, inf)

    @property
    def is_done(self) -> bool:
        """Whether nothing more is sent."""
        return self._state is _S.TERMINATED

    def _go(self, state: ClientTelemetryState, due_at: float) -> None:
        self._state = state
        self._due_at = due_at
        if state is _S.TERMINATED:
            self._end_by = inf
        self._changed.notify_all()
