"""The end of a broker under ZooKeeper: the controller moves what it leads (KafkaServer.controlledShutdown)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
from barnabas.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.instant import Instant
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

#: How soon another controller is asked, in seconds.
_SOON = 0.1


class Retries(NamedTuple):
    """How often it is asked again, and after how many seconds: controlled.shutdown.max.retries, .retry.backoff.ms."""

    most: int
    backoff: float

    @classmethod
    def of(cls, config: BrokerConfig) -> Retries:
        """Return those of a broker's settings."""
        backoff = config.get_seconds("controlled.shutdown.retry.backoff.ms")
        return cls(config.get_int("controlled.shutdown.max.retries"), backoff)


class ControlledShutdown:
    """Asks until nothing is led here any more, or too often; a `Requester`.

    `done(problem)` is called once: with None, or with why the broker ends without having handed all over.
    While `is_alone()` says that no other broker is alive there is no point in waiting until one can lead.
    """

    def __init__(
        self,
        me: int,
        broker_epoch: Callable[[], int],
        controller: Callable[[], Node | None],
        done: Callable[[str | None], None],
        is_alone: Callable[[], bool],
        retries: Retries,
    ) -> None:
        self._me = me
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._done = done
        self._is_alone = is_alone
        self._retries = retries
        self._next = -inf
        self._failures = 0
        self._is_over = False

    def next_deadline(self) -> float:
        """See `Requester`."""
        return inf if self._is_over or self._controller() is None else self._next

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        controller = self._controller()
        if controller is None or now < self.next_deadline():
            return None
        return controller, ControlledShutdownRequest(broker_id=self._me, broker_epoch=self._broker_epoch())

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        # The controller may just be dying: the next one is told of with UpdateMetadata.
        self._failed("the controller was not reached", now, _SOON * 2**self._failures)

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        if not isinstance(response, ControlledShutdownResponse):
            return
        remaining = len(response.remaining_partitions)
        if response.error_code == errors.NotControllerError.code:
            self._next = now.now + _SOON
        elif response.error_code:
            self._failed(f"the controller refused: {errors.name_of(response.error_code)}", now.now)
        elif remaining and self._is_alone():
            self._end(f"{remaining} partitions have no leader until a broker is started: this is the last one")
        elif remaining:
            self._failed(f"{remaining} partitions have no other leader", now.now)
        else:
            self._end(None)

    def _failed(self, problem: str, now: float, soonest: float = inf) -> None:
        self._failures += 1
        self._next = now + min(soonest, self._retries.backoff)
        if self._failures > self._retries.most:
            self._end(problem)

    def _end(self, problem: str | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._done(problem)
