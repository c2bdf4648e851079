"""Blocks of producer ids from the controller (RPCProducerIdManager, KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.protocol.message import Message

_NONE = range(0)


class ControllerProducerIds:
    """Implements `ProducerIdBlocks`: whose producer ids are reserved by the controller."""

    def __init__(self, me: int, broker_epoch: Callable[[], int], requests: ControllerRequests) -> None:
        self._me = me
        self._broker_epoch = broker_epoch
        self._requests = requests

    @property
    def is_committing(self) -> bool:
        """See `ProducerIdBlocks`: the controller lines requests up by itself."""
        return False

    def when_committed(self, work: Callable[[], None]) -> None:
        """See `ProducerIdBlocks`."""
        work()

    def allocate_producer_ids(self, done: Callable[[range, errors.KafkaError | None], None]) -> None:
        """See `ProducerIdBlocks`."""

        def refuse() -> None:
            done(_NONE, errors.CoordinatorLoadInProgressError("The controller reserves no producer ids yet."))

        def answered(response: Message, now: Instant) -> None:
            assert isinstance(response, AllocateProducerIdsResponse)
            if response.error_code:
                # Of a stale broker epoch, for instance: the registration goes on beside this.
                refuse()
            else:
                start = response.producer_id_start
                done(range(start, start + response.producer_id_len), None)

        def make() -> AllocateProducerIdsRequest:
            return AllocateProducerIdsRequest(broker_id=self._me, broker_epoch=self._broker_epoch())

        self._requests.submit(ControllerRequest(make, answered, give_up=refuse))
