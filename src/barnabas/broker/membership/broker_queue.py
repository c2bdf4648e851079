"""What waits to be asked of one other broker, and goes with the next request to it (BrokerQueue)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.broker.faults import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.network.node import Node

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class BrokerQueue(ABC, Generic[Asked, Answer]):
    """Things to ask a broker, each with what hears the answer. `node()` is where the broker is, None while unknown.

    One that is not known any more is asked where it was last: each question gets an answer, or hears that there is
    none, so that it can be asked elsewhere.
    """

    def __init__(self, node: Callable[[], Node | None]) -> None:
        self._node = node
        self._known: Node | None = None
        self.unsent: list[tuple[Asked, Answer]] = []
        self.in_flight: list[tuple[Asked, Answer]] = []
        self.wake: Callable[[], None] = lambda: None

    def add(self, asked: Asked, answer: Answer) -> None:
        """Line one up; where the broker has never been known it is not answered."""
        self._known = self._node() or self._known
        if self._known is None:
            self.not_answered(asked, answer)
            return
        self.unsent.append((asked, answer))
        self.wake()

    @property
    def target(self) -> Node | None:
        """Where to send what is there; None while there is nothing."""
        self._known = self._node() or self._known
        return self._known if self.unsent else None

    def next_deadline(self) -> float:
        """See `Requester`."""
        return inf if self.target is None else -inf

    @abstractmethod
    def not_answered(self, asked: Asked, answer: Answer) -> None:
        """Tell that the broker has not answered a question."""

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self.answer([partial(self.not_answered, *one) for one in self.in_flight])

    def answer(self, answers: Iterable[Callable[[], object]]) -> None:
        """Give the answers to all that was in flight, also if one of them raises; they are made before it is landed."""
        run_all((self.in_flight.clear, *answers))
