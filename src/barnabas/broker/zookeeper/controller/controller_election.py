"""Who is controller (KafkaController.elect, KafkaZkClient.registerControllerAndIncrementControllerEpoch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER, CONTROLLER_EPOCH
from barnabas.broker.zookeeper.operations import (
    BadVersionError,
    Check,
    Create,
    Delete,
    Get,
    Multi,
    NodeExistsError,
    NoNodeError,
    SetData,
    ZooKeeperError,
    found_or_none,
)

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.operations import Program, Znode


class Elected(NamedTuple):
    """The controller; the epoch, and the version of its znode, only where this broker has just become it."""

    controller_id: int
    epoch: int = -1
    epoch_version: int = -1


def elect(me: int, session_id: int, now_ms: int, epoch: int | None) -> Program[Elected]:
    """Become controller if no broker is, and say who is; `/controller` is watched from then on.

    `epoch` is that of this broker while it is controller, None while it is not. A znode of this very session that is of
    no reign, or of another one, was made by an election that was not heard of, and is taken over in another epoch.
    """
    while True:
        raised = yield from _epoch()
        (result,) = yield [Get(CONTROLLER, watch=True)]
        found = found_or_none(result)
        last = controller_znodes.decode_epoch(raised.data)
        if found is not None and (found.owner != session_id or epoch == last):
            return Elected(controller_znodes.decode_controller(found.data))
        number, data = last + 1, controller_znodes.encode_controller(me, now_ms)
        own = Create(CONTROLLER, data, ephemeral=True) if found is None else SetData(CONTROLLER, data, found.version)
        (result,) = yield [Multi((own, SetData(CONTROLLER_EPOCH, str(number).encode(), raised.version)))]
        if not isinstance(result, ZooKeeperError):
            return Elected(me, number, raised.version + 1)
        if not isinstance(result, NodeExistsError | BadVersionError | NoNodeError):
            raise result


def depose(broker_id: int, broker_epoch: int) -> Program[bool]:
    """Delete `/controller` where it is of a broker's life that has ended, so that another broker is elected at once.

    It is deleted only in the controller epoch in which that life was found to be controller. Says whether it was.
    """
    raised = yield from _epoch()
    found, registered = yield [Get(CONTROLLER), Get(f"{znodes.BROKER_IDS}/{broker_id}")]
    controller, broker = found_or_none(found), found_or_none(registered)
    if controller is None or broker is None or (broker.created, broker.owner) != (broker_epoch, controller.owner):
        return False
    (result,) = yield [Multi((Check(CONTROLLER_EPOCH, raised.version), Delete(CONTROLLER, controller.version)))]
    return not isinstance(result, ZooKeeperError)


def _epoch() -> Program[Znode]:
    """Return `/controller_epoch`, made where it is missing."""
    while True:
        (result,) = yield [Get(CONTROLLER_EPOCH)]
        found = found_or_none(result)
        if found is not None:
            return found
        (result,) = yield [Create(CONTROLLER_EPOCH, b"0")]
        if isinstance(result, ZooKeeperError) and not isinstance(result, NodeExistsError):
            raise result
