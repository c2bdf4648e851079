"""Blocks of producer ids for brokers (ProducerIdControlManager, KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.controller_result import ControllerResult
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.errors import UnknownServerError
from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord

if TYPE_CHECKING:
    from barnabas.broker.controller.controller_state import ControllerState

BLOCK_SIZE = 1000
_MOST = 2**63 - 1


class ProducerIdsBlock(NamedTuple):
    """So many producer ids from the first on."""

    first: int
    size: int = BLOCK_SIZE


class ProducerIdControlManager:
    """Gives each block to one broker, once."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def generate_next_block(self, broker_id: int, broker_epoch: int) -> ControllerResult[ProducerIdsBlock]:
        """Give the next block to a broker. Raises `StaleBrokerEpochError`."""
        self._state.check_broker_epoch(broker_id, broker_epoch)
        first = self._state.image.next_producer_id
        if first > _MOST - BLOCK_SIZE:
            raise UnknownServerError(f"All producer ids are used up: the next block would begin at {first}.")
        record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
        return ControllerResult([ApiMessageAndVersion(record)], ProducerIdsBlock(first))
