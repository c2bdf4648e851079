"""Which APIs are served, in which versions, by which module.

A handler module is imported when its first request arrives, so that a broker starts fast; the table in
`served_apis.py` is generated from the handlers by `python -m codegen`. Each has `API`, `VERSIONS` (lowest, highest;
its docstring tells what each version changed) and
`handle(broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation | None`;
None means that the client expects no response.

What is asked very often has a short way besides: `answer(broker, client, frame, now_ms) -> bytes | None` gives the
whole response to a plain request, the same as the handler would, or None before anything has happened. It is not asked
while quotas or observers want to know of requests.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.handlers.served_apis import SERVED as SERVED
from barnabas.broker.handlers.served_apis import SHORTCUTS as SHORTCUTS

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import Connection, RequestContext
    from barnabas.protocol.message import Message

    Handler = Callable[[BrokerState, RequestContext, Any], Message | DelayedOperation | None]
    Shortcut = Callable[[BrokerState, Connection, memoryview, int], bytes | None]


class ClusterHandlers(Protocol):
    """Who serves an API in a cluster: the controller, or this broker with what it has to ask others."""

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """Return what serves an API; `local` is what serves it in a broker that is alone."""


_loaded: dict[int, Handler] = {}


def handler_for(api_key: int) -> Handler:
    """Return the `handle` function of an API in `SERVED`."""
    handle = _loaded.get(api_key)
    if handle is None:
        handle = _loaded[api_key] = import_module(f"barnabas.broker.handlers.{SERVED[api_key][0]}").handle
    return handle


def shortcut_for(api_key: int, version: int) -> Shortcut | None:
    """Return the `answer` function of an API in `SHORTCUTS`, in a version that it knows."""
    module, lowest, highest = SHORTCUTS.get(api_key, ("", 0, -1))
    if not lowest <= version <= highest:
        return None
    shortcut: Shortcut = import_module(f"barnabas.broker.handlers.{module}").answer
    return shortcut
