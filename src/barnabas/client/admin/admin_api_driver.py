"""Carries out one operation: finds the brokers, asks them, asks again. Kafka's AdminApiDriver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple

from barnabas.client.admin.admin_api_handler import AdminApiHandler, K, Outcome, Scope, Target, V, label
from barnabas.client.admin.admin_metadata import AdminMetadata
from barnabas.client.admin.results import Results
from barnabas.client.admin.wrong_arguments import wrong_keys
from barnabas.errors import (
    KafkaError,
    KafkaTimeoutError,
    NotControllerError,
    ThrottlingQuotaExceededError,
    UnknownServerError,
    UnsupportedVersionError,
)
from barnabas.network.client_request import ClientResponse, Request
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node
from barnabas.protocol.message import Message

Take = Callable[[list[K], Message, Node], None]
"""Takes a response: the keys it is about, the message, the broker that sent it."""


class Retrying(NamedTuple):
    """How long an operation goes on: pauses that grow, until `deadline`, and at most so many times."""

    backoff: ExponentialBackoff
    deadline: float
    retries: int


class AdminApiDriver(Generic[K, V]):
    """Sans-IO but for the NetworkClient it is given: `tick(now)` sends what can be sent, responses come as callbacks.

    A key is looked up first if its handler says so, then its operation is sent to the broker that was found, together
    with all others that are ready to go there. What fails in a way that may pass is tried again after a backoff that
    grows with each attempt, as `retrying` says.
    """

    def __init__(
        self,
        handler: AdminApiHandler[K, V],
        keys: Iterable[K],
        client: NetworkClient,
        metadata: AdminMetadata,
        retrying: Retrying,
    ) -> None:
        self._handler = handler
        self._client = client
        self._metadata = metadata
        self._backoff, self._deadline, self._retries = retrying
        self._targets: dict[K, Target | None] = {key: handler.lookup.static_target(key) for key in keys}
        self._order = list(self._targets)
        self._in_flight: set[K] = set()
        self._now = 0.0
        self._crash: Exception | None = None
        self._attempts: dict[K, int] = {}
        self._retry_at: dict[K, float] = {}
        self._problems: dict[K, tuple[KafkaError, float]] = {}
        self._values: dict[K, V] = {}
        self._errors: dict[K, KafkaError] = {}
        # Set when a broker is too old to be asked for several keys at once.
        self._is_one_by_one = False

    @property
    def is_done(self) -> bool:
        """Whether every key has succeeded or failed."""
        return not self._targets

    def results(self) -> Results[K, V]:
        """Return what came of it, in the order of the keys."""
        values = {key: self._values[key] for key in self._order if key in self._values}
        errors = {key: self._errors[key] for key in self._order if key in self._errors}
        return Results(values, errors)

    def tick(self, now: float) -> float:
        """Send what can be sent; return the seconds after which it makes sense to step again without a response.

        Raises what the last response made its handler raise.
        """
        if self._crash is not None:
            raise self._crash
        if now >= self._deadline:
            self._expire(now)
            return 0.0
        wait = self._deadline - now
        ready: dict[Target | None, list[K]] = {}
        for key, target in self._targets.items():
            if key in self._in_flight:
                continue
            delay = self._retry_at.get(key, now) - now
            if delay > 0:
                wait = min(wait, delay)
            else:
                ready.setdefault(target, []).append(key)
        for target, keys in ready.items():
            batches = [[key] for key in keys] if self._is_one_by_one else [keys]
            for batch in batches:
                wait = min(wait, self._try_send(target, batch, now))
        return wait

    def _try_send(self, target: Target | None, keys: list[K], now: float) -> float:
        node = self._node_of(target, now)
        if node is None:
            return self._client.reconnect_backoff
        if not self._client.ready(node, now):
            wait = max(self._client.poll_delay(node, now), 0.001)
            if isinstance(target, Node) and self._client.connection_failed(node):
                self._look_up_again(keys, now + wait)
            return wait
        try:
            message = self._build(target, keys, now)
        except Exception as error:  # noqa: BLE001  (any error that a key of a wrong kind brings about fails these keys)
            for key in keys:
                self._finish(key, error=wrong_keys(self._handler.name, keys, error))
            return 0.0
        self._send(node, keys, message, self._on_lookup if target is None else self._on_operation, now)
        return self._deadline - now

    def _build(self, target: Target | None, keys: list[K], now: float) -> Request:
        if target is None:
            return self._handler.lookup.build_request(keys)
        timeout = min(self._deadline - now, self._client.request_timeout)
        return self._handler.build_request(keys, max(int(timeout * 1000), 1))

    def _node_of(self, target: Target | None, now: float) -> Node | None:
        if isinstance(target, Node):
            return target
        if isinstance(target, int):
            node = self._metadata.fetch().node(target)
        elif target is Scope.CONTROLLER or self._metadata.uses_controllers:
            # Among controllers only the active one serves what any broker would.
            node = self._metadata.fetch().controller
        else:
            return self._client.least_loaded_node(now)
        if node is None:
            self._metadata.request_update(reset_equivalent_backoff=False)
        return node

    def _send(self, node: Node, keys: list[K], message: Request, take: Take[K], now: float) -> None:
        self._in_flight.update(keys)
        timeout = min(self._deadline - now, self._client.request_timeout)

        def on_complete(response: ClientResponse) -> None:
            self._in_flight.difference_update(keys)
            # A response that comes after the deadline finds its keys given up on.
            left = [key for key in keys if key in self._targets]
            try:
                self._on_response(left, response, take, node)
            except Exception as error:  # noqa: BLE001  (kept for the caller: out of a callback it would be lost)
                self._crash = error

        self._client.send(self._client.new_client_request(node.id, message, now, True, timeout, on_complete), now)

    def _on_response(self, keys: list[K], response: ClientResponse, take: Take[K], node: Node) -> None:
        error = response.error
        self._now = response.received_at
        if error is None:
            take(keys, response.message, node)
        elif response.version_mismatch and len(keys) > 1:
            self._is_one_by_one = True
        elif error.retriable:
            for key in keys:
                self._try_again(key, error)
        else:
            if response.version_mismatch:
                error = UnsupportedVersionError(
                    f"{self._handler.name} at {node.host}:{node.port} (id {node.id}): {error}"
                )
            for key in keys:
                self._finish(key, error=error)

    def _on_lookup(self, keys: list[K], message: Message, broker: Node) -> None:
        found: Outcome[K, Target] = Outcome()
        self._handler.lookup.handle_response(keys, message, found)
        self._targets.update(found.completed)
        self._on_failures(keys, found)

    def _on_operation(self, keys: list[K], message: Message, broker: Node) -> None:
        outcome: Outcome[K, V] = Outcome(broker)
        self._handler.handle_response(keys, message, outcome)
        for key, value in outcome.completed.items():
            self._values[key] = value
            self._finish(key)
        self._on_failures(keys, outcome)

    def _on_failures(self, keys: list[K], outcome: Outcome[K, Target] | Outcome[K, V]) -> None:
        for key, error in outcome.failed.items():
            self._finish(key, error=error)
        for key in keys:
            if key not in outcome.completed and key not in outcome.failed:
                problem = outcome.problems.get(key)
                self._try_again(key, problem or UnknownServerError("the broker's response left this one out"))

    def _try_again(self, key: K, error: KafkaError) -> None:
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        if attempts > self._retries:
            self._finish(key, error=error)
            return
        self._problems[key] = error, self._now
        self._retry_at[key] = self._now + self._backoff.backoff(attempts - 1)
        self._targets[key] = self._handler.lookup.static_target(key)
        if isinstance(error, NotControllerError):
            self._metadata.forget_controller()
        # Where the controller or a broker has moved is in the metadata.
        self._metadata.request_update(reset_equivalent_backoff=False)

    def _look_up_again(self, keys: list[K], at: float) -> None:
        """Look for another broker: the one that was found cannot be reached, and may have gone for good."""
        for key in keys:
            self._targets[key] = self._handler.lookup.static_target(key)
            self._retry_at[key] = at

    def _finish(self, key: K, *, error: KafkaError | None = None) -> None:
        self._targets.pop(key, None)
        if error is not None:
            self._errors[key] = error

    def _expire(self, now: float) -> None:
        for key in list(self._targets):
            problem, told_at = self._problems.get(key, (None, now))
            if isinstance(problem, ThrottlingQuotaExceededError):
                # As in Kafka: it says more than that time is over.
                problem.throttle_time_ms = max(problem.throttle_time_ms - int((now - told_at) * 1000), 0)
                self._finish(key, error=problem)
                continue
            unanswered = f"no broker answered{self._client.failure_to_connect}"
            why = unanswered if problem is None else f"the last answer was: {problem}"
            error = KafkaTimeoutError(f"{self._handler.name} of {label(key)} did not succeed in time; {why}")
            error.__cause__ = problem
            self._finish(key, error=error)
