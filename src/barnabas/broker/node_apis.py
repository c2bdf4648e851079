"""Which APIs a node serves, and what handles them: the broker's here, the controller's in `barnabas.broker.kraft`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.broker.coordinator.committed_answers import reload_after_fault, with_commits
from barnabas.broker.handlers.registry import SERVED, handler_for, shortcut_for

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import ClusterHandlers, Handler, Shortcut
    from barnabas.protocol.message import Message


class NodeApis(Protocol):
    """What a `RequestDispatcher` asks once for each API and version."""

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """Return the lowest and the highest version that is served; None for an API that is not."""

    def handler(self, api_key: int) -> Handler:
        """Return what handles an API that is served, its rule of authorization before it."""

    def shortcut(self, api_key: int, version: int) -> Shortcut | None:
        """Return the short way of an API; None without one."""

    def recover(self, request: Message, now: float) -> None:
        """Mend what a request may have left half done that has ended by a fault of the broker."""


class BrokerApis:
    """The APIs of a broker: the handlers, and what a member of a cluster (`cluster`) serves besides."""

    def __init__(self, state: BrokerState, cluster: ClusterHandlers | None = None) -> None:
        self._state = state
        self._cluster = cluster

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """See `NodeApis`."""
        member = self._state.member
        served = SERVED.get(api_key) or (None if member is None else member.served_apis.get(api_key))
        return None if served is None else served[1:]

    def handler(self, api_key: int) -> Handler:
        """See `NodeApis`."""
        local = handler_for(api_key) if api_key in SERVED else None
        if local is not None:
            local = with_commits(api_key, local)
        handle = local if self._cluster is None else self._cluster.handler(api_key, local)
        assert handle is not None, "what is served has a handler"
        if self._state.authorization is not None:
            from barnabas.broker.security.request_rules import guarded

            handle = guarded(api_key, handle)
        return handle

    def shortcut(self, api_key: int, version: int) -> Shortcut | None:
        """See `NodeApis`."""
        return shortcut_for(api_key, version)

    def recover(self, request: Message, now: float) -> None:
        """See `NodeApis`: coordinators read anew what their memory may have half of."""
        reload_after_fault(self._state, request, now)
