"""A broker's control plane under ZooKeeper that keeps what it was told, and obeyed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.zookeeper.controller_pushes import PUSHED
from barnabas.broker.zookeeper.zookeeper_control import ZooKeeperControl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.membership.control_plane import ControlledMember
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.zookeeper.push_records import PushRequest
    from barnabas.protocol.message import Message


class WatchedControl(ZooKeeperControl):
    """The control plane of one life; `take_obeyed` gives what controllers have told it and it has not refused."""

    def attach(self, member: ControlledMember) -> None:
        """See `ControlPlane`."""
        super().attach(member)
        self._told: deque[tuple[PushRequest, DelayedOperation]] = deque()

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """See `ControlPlane`."""
        found = super().handler(api_key, local)
        return self._watched(found) if api_key in PUSHED else found

    def _watched(self, handle: Handler) -> Handler:
        def watched(broker: BrokerState, context: RequestContext, request: PushRequest) -> Message | DelayedOperation:
            answer = handle(broker, context, request)
            assert isinstance(answer, DelayedOperation), "it is carried out in turn"
            self._told.append((request, answer))
            return answer

        return watched

    def take_obeyed(self) -> Iterator[PushRequest]:
        """Give once each what was carried out without an error, in order."""
        while self._told and self._told[0][1].done:
            request, answer = self._told.popleft()
            refused = getattr(answer.result, "error_code", errors.NONE)
            if answer.result is not None and refused == errors.NONE:
                yield request
