"""Requests for partitions whose logs are not open yet: what opening one asks of the disk is done beside the loop.

Files are made, or read into the cache, there (`log/log_preparation.py`); then the logs are opened, which takes a
fraction of a millisecond each, a piece at a time, while others are served; then the request is handled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.piecewise import PiecewiseResponse, Steps, Wait, in_pieces, message_of, outcome_of
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.protocol.message import Message

#: So many logs are opened before others get their turn.
OPEN_AT_ONCE = 16

#: A topic's name or its id, and the partition's number.
Name = tuple[str | bytes, int]
Answer = TypeVar("Answer", bound="Message | DelayedOperation | None")


def unopened(manager: ReplicaManager, names: Iterable[Name]) -> list[Name]:
    """Return the partitions that were not used since the broker started, each once."""
    return list(dict.fromkeys(name for name in names if not manager.is_open(*name)))


def open_then(broker: BrokerState, names: list[Name], handle: Callable[[], Answer]) -> Answer | PiecewiseResponse:
    """Open partitions a piece at a time, then handle the request; `handle` meets what cannot be opened itself."""
    steps = opened(broker.replica_manager, names)
    try:
        wait = next(steps)
    except StopIteration:
        return handle()
    return broker.large_responses.answer(_rest(broker, wait, steps, handle))  # type: ignore[return-value]  # as `handle`


def when_open(broker: BrokerState, names: Iterable[Name], handle: Callable[[], Answer]) -> Answer | PiecewiseResponse:
    """Handle a request for partitions, at once where all of them are open."""
    found = unopened(broker.replica_manager, names)
    return open_then(broker, found, handle) if found else handle()


def opened(manager: ReplicaManager, names: list[Name]) -> Steps[None]:
    """Open partitions a piece at a time; a few of them are only prepared for being opened."""
    for number, piece in enumerate(in_pieces(names, OPEN_AT_ONCE)):
        if number:
            yield None
        yield from outcome_of(partial(_prepare, manager, piece))
        if len(names) <= OPEN_AT_ONCE:
            # Who handles the request opens them.
            return
        for topic, index in piece:
            try:
                manager.find(topic, index)
            except KafkaError:
                continue


def _rest(
    broker: BrokerState,
    wait: Wait | None,
    steps: Steps[None],
    handle: Callable[[], Message | DelayedOperation | None],
) -> Steps[Any]:
    yield wait
    yield from steps
    return (yield from message_of(broker.purgatory, handle()))


def _prepare(manager: ReplicaManager, names: list[Name], tell: Callable[[None], None]) -> None:
    manager.prepare(names, lambda: tell(None))
