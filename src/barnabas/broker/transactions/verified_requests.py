"""Requests of transactions wait until it is certain that a coordinator knows of their records (KIP-890).

The markers of a producer's transaction may still be on their way when the records of its next one come: the client
was answered before (`transaction.version` 2). Then the coordinator is asked again, as by Apache Kafka since 4.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.piecewise import Steps, message_of, outcome_of
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.transactions.verification import Question, VerificationNeededError
from barnabas.protocol.messages.produce_request import ProduceRequest
from barnabas.protocol.messages.produce_response import ProduceResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.instant import Instant
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.protocol.message import Message

Answer = TypeVar("Answer", bound="Message | DelayedOperation | None")


def verified(
    broker: BrokerState, request: Message, at: Instant, handle: Callable[[], Answer]
) -> Answer | PiecewiseResponse:
    """Handle a request of a transaction, at once where all is certain that has to be, else when it is.

    `handle` must not change the request before it has asked.
    """
    try:
        return handle()
    except VerificationNeededError as needed:
        if isinstance(request, ProduceRequest):
            _own_records(request)
        later = _later(broker, needed.question, at, handle)
        return broker.large_responses.answer(later)  # type: ignore[return-value]  # as `handle`


def _later(broker: BrokerState, question: Question, at: Instant, handle: Callable[[], Answer]) -> Steps[Any]:
    verification = broker.add_partitions_to_txn_manager.verification
    backoff, patience = broker.add_partitions_to_txn_manager.retries
    now = at.now
    while True:
        told = yield from outcome_of(partial(verification.find_out, broker, question, at))
        if verification.is_completing(question, told) and now < at.now + patience:
            pause = _Pause(now + backoff)
            yield from message_of(broker.purgatory, pause)
            now = pause.ended_at
            continue
        try:
            with verification.knowing(question, told):
                answer = handle()
        except VerificationNeededError as needed:
            question = needed.question
        else:
            return (yield from message_of(broker.purgatory, answer))


class _Pause(DelayedOperation):
    """A while of its own, which ends without an answer to anything."""

    __slots__ = ("ended_at",)

    def on_expiration(self, now: float) -> Message:
        """See `DelayedOperation`; what it returns is not read."""
        self.ended_at = now
        return ProduceResponse()


def _own_records(request: ProduceRequest) -> None:
    """Copy what lies in the connection's buffer, which the next request uses."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)
