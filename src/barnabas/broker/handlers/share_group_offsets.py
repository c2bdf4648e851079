"""What the handlers that change offsets of share groups have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.piecewise import outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.groups.share.offsets import ShareOffsets
    from barnabas.broker.piecewise import Steps
    from barnabas.protocol.message import Message

R = TypeVar("R", bound="Message")


def changed(
    broker: BrokerState,
    group_id: str,
    change: Callable[[ShareOffsets, Callable[[R], None]], None],
    refused: Callable[..., R],
) -> Steps[R]:
    """Have a change of a group's offsets made, and return the response; `refused` is its class."""

    def begin(tell: Callable[[R], None]) -> None:
        change(broker.group_coordinator.share_groups(group_id).offsets, tell)

    try:
        check_groups(broker.metadata, SHARE_VERSION)
        response = yield from outcome_of(begin)
    except errors.KafkaError as problem:
        return refused(error_code=coordinator_error_code(problem), error_message=str(problem))
    # Their states have begun anew, or are gone.
    broker.share_partition_manager.forget_group(group_id)
    return response
