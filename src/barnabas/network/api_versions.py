"""Which broker understands what, and which of them has yet to be asked (ApiVersions)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.network.client_request import SOFTWARE_NAME, ClientRequest, RequestBuilder
from barnabas.network.node_api_versions import NodeApiVersions, next_version_to_try
from barnabas.protocol.api import stable_versions
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse


class ApiVersions:
    """What the connected brokers have said. Belongs to the `NetworkClient`."""

    def __init__(self) -> None:
        self._known: dict[int, NodeApiVersions] = {}
        #: The nodes to ask as soon as their connections can be used, and the version to ask each in.
        self.to_ask: dict[int, int] = {}

    def get(self, node_id: int) -> NodeApiVersions | None:
        """Return what the node understands; None until it has said so."""
        return self._known.get(node_id)

    def nodes(self) -> Iterable[int]:
        """Return the nodes that have said what they understand."""
        return self._known

    def supports(self, node_id: int, api_key: int) -> bool:
        """Whether the node has said that it has the API."""
        known = self._known.get(node_id)
        return known is not None and known.supported(api_key) is not None

    def on_connected(self, node_id: int) -> None:
        """Ask it as soon as its connection can be used, in the newest version."""
        self.to_ask[node_id] = ApiVersionsRequest.VALID_VERSIONS[1]

    def take_due(self, is_channel_ready: Callable[[int], bool]) -> list[tuple[int, RequestBuilder]]:
        """Return the request for each node that can be asked now; it is not asked again on its own."""
        due = [node_id for node_id in self.to_ask if is_channel_ready(node_id)]
        return [(node_id, _request(self.to_ask.pop(node_id))) for node_id in due]

    def handle_response(self, node_id: int, version: int, message: ApiVersionsResponse) -> bool:
        """Take in what a node answered; False for an error that does not tell in which version to ask instead."""
        if not message.error_code:
            self._known[node_id] = NodeApiVersions.from_response(message)
            return True
        retry_version = next_version_to_try(version, message)
        if retry_version is None:
            return False
        self.to_ask[node_id] = retry_version
        return True

    def forget(self, node_id: int) -> None:
        """Note that the connection is over; the broker may be another one next time."""
        self._known.pop(node_id, None)
        self.to_ask.pop(node_id, None)

    def build(self, request: ClientRequest) -> tuple[Message, int]:
        """Return the message to send and its version, the latest that both sides have; of a broker not asked yet, ours.

        Raises `UnsupportedVersionError` when there is none.

        """
        message = request.message
        known = self._known.get(request.destination)
        if isinstance(message, RequestBuilder):
            if known is None:
                return message.build(message.high), message.high
            version = known.latest_usable_version(message.api_key, message.low, message.high)
            return message.build(version), version
        low, high = stable_versions(request.api_key)
        return message, high if known is None else known.latest_usable_version(request.api_key, low, high)


def _request(version: int) -> RequestBuilder:
    from barnabas import __version__

    message = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
    return RequestBuilder.fixed(message, version)
