"""Waiting on a NetworkClient, for callers that have nothing else to do: Kafka's NetworkClientUtils."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.errors import AuthenticationError, DisconnectError
from barnabas.network.client_request import ClientRequest, ClientResponse
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node


def is_ready(client: NetworkClient, node: Node, now: float) -> bool:
    """Poll once without waiting, then tell whether a request can be sent to the node.

    The poll may be what finds out that the connection has ended.
    """
    client.poll(0.0, now)
    return client.is_ready(node, now)


def await_ready(client: NetworkClient, node: Node, clock: Callable[[], float], timeout: float) -> bool:
    """Poll until a request can be sent to the node or `timeout` seconds have passed; return which.

    Raises `AuthenticationError` when the node does not let this client in. Raises `DisconnectError` when the
    connection could not be made.

    """
    deadline = clock() + timeout
    now = clock()
    if is_ready(client, node, now) or client.ready(node, now):
        return True
    while now < deadline:
        if client.connection_failed(node):
            error: AuthenticationError | None = client.authentication_error(node)
            raise error or DisconnectError(f"the connection to node {node} failed")
        client.poll(deadline - now, now)
        now = clock()
        if client.ready(node, now):
            return True
    return False


def send_and_receive(client: NetworkClient, request: ClientRequest, clock: Callable[[], float]) -> ClientResponse:
    """Send a request, whose node must be ready, and poll until its response is there.

    Raises `DisconnectError` when the connection ended before it came. Raises `UnsupportedVersionError` when the
    broker does not know this request.

    """
    client.send(request, clock())
    while True:
        for response in client.poll(client.request_timeout, clock()):
            if response.request is request:
                if response.error is not None:
                    raise response.error
                return response
