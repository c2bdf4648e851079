"""Requests for many partitions whose logs are not open yet: opening one, or making its files, takes a millisecond.

They are opened a piece at a time, while others are served; then the request is handled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.piecewise import PiecewiseResponse, Steps, in_pieces, outcome_of
from barnabas.broker.purgatory import DelayedOperation
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.protocol.message import Message

#: So many logs are opened before others get their turn.
OPEN_AT_ONCE = 16

#: A topic's name or its id, and the partition's number.
Name = tuple[str | bytes, int]
Answer = TypeVar("Answer", bound="Message | DelayedOperation | None")


def unopened(manager: ReplicaManager, names: Iterable[Name]) -> list[Name]:
    """Return the partitions that were not used since the broker started, if they are too many to be opened at once."""
    found = [name for name in names if not manager.is_open(*name)]
    return found if len(found) > OPEN_AT_ONCE else []


def open_then(broker: BrokerState, names: list[Name], handle: Callable[[], Answer]) -> Answer | PiecewiseResponse:
    """Open partitions a piece at a time, then handle the request; `handle` meets what cannot be opened itself."""
    return broker.large_responses.answer(_steps(broker, names, handle))  # type: ignore[return-value]  # as `handle` says


def _steps(
    broker: BrokerState, names: list[Name], handle: Callable[[], Message | DelayedOperation | None]
) -> Steps[Any]:
    manager = broker.replica_manager
    for piece in in_pieces(names, OPEN_AT_ONCE):
        for topic, index in piece:
            try:
                manager.find(topic, index)
            except KafkaError:
                continue
        yield None
    answer = handle()
    if not isinstance(answer, DelayedOperation):
        return answer
    try:
        return (yield from outcome_of(partial(broker.purgatory.park, answer)))
    finally:
        # The client may have gone meanwhile.
        broker.purgatory.cancel(answer)
