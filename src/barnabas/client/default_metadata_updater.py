"""Keeps a client's `Metadata` fresh: the requests, to whom they go, and what their failures mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from barnabas.client.metadata import Metadata, MetadataQuery
from barnabas.errors import RebootstrapRequiredError, UnsupportedVersionError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.metadata import MetadataAnswer
    from barnabas.errors import KafkaError
    from barnabas.network.client_request import Request
    from barnabas.network.internal_ports import InternalSender
    from barnabas.network.node import Node

log = client_logger("barnabas.metadata")

# Seconds between two questions because of silent nodes, the first of which comes after a second. So that a node that is
# gone is left a quarter later than the cluster knows it at most, each wait is a quarter of the time until then; many
# clients of a slow broker must not keep the others busy for long.
_FIRST_DOUBTS_EVERY = 0.25
_DOUBTS_GROW_BY = 1.25
_DOUBTS_EVERY_AT_MOST = 10.0


class DefaultMetadataUpdater:
    """The `MetadataUpdater` of producers, consumers and admin clients.

    `rebootstrap_trigger` is `metadata.recovery.rebootstrap.trigger.ms` in seconds (KIP-1102), None when
    `metadata.recovery.strategy` is none.
    """

    can_doubt = True

    def __init__(self, metadata: Metadata, *, request_timeout: float, rebootstrap_trigger: float | None) -> None:
        self._metadata = metadata
        self._request_timeout = request_timeout
        self._rebootstrap_trigger = rebootstrap_trigger
        self._in_progress: MetadataQuery | None = None
        self._trying_since: float | None = None
        self._answered_at = -math.inf
        # Sent since the last answer, to nodes that are silent.
        self._given_up: list[MetadataQuery] = []
        self._doubts = 0
        self._next_doubt_at = -math.inf

    def fetch_nodes(self) -> list[Node]:
        """See `MetadataUpdater`."""
        return self._metadata.fetch().nodes

    def is_update_due(self, now: float) -> bool:
        """See `MetadataUpdater`."""
        return self._in_progress is None and self._metadata.time_to_next_update(now) == 0

    def maybe_update(self, now: float, client: InternalSender) -> float:
        """See `MetadataUpdater`."""
        if self._in_progress is not None:
            return self._request_timeout
        wait = self._metadata.time_to_next_update(now)
        if wait > 0:
            return wait
        if self._metadata.has_fatal_error and not client.has_ready_connection(now):
            # A client that is refused connects again only after a caller has got the error.
            return math.inf
        if self._trying_since is None:
            self._trying_since = now
        node = client.least_loaded_node(now)
        if node is None and self._may_rebootstrap() and not client.has_ready_connection(now):
            self.rebootstrap(now)
            node = client.least_loaded_node(now)
        if node is None:
            return client.reconnect_backoff
        return self._ask(node, now, client)

    def _ask(self, node: Node, now: float, client: InternalSender) -> float:
        if client.can_send_request(node.id, now):
            self._in_progress = query = self._metadata.new_query(now)
            client.send_internal_request(node.id, query.message, now)
            # One that the node does not understand has failed already, and nothing will come to wait for.
            return 0.0 if self._in_progress is None else self._request_timeout
        # One connection in progress is enough to ask on; more would only be a burden.
        if not client.is_any_node_connecting(now) and client.can_connect(node.id, now):
            client.initiate_connect(node, now)
        return client.reconnect_backoff

    def handle_server_disconnect(self, now: float, node_id: int, error: KafkaError | None) -> None:
        """See `MetadataUpdater`; the cluster may have changed, so fresh metadata is asked for."""
        if self.is_update_due(now):
            self.handle_failed_request(now, None)
        if error is not None:
            self._metadata.fatal_error(error)
        else:
            self._metadata.request_update(reset_equivalent_backoff=False)

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """See `MetadataUpdater`."""
        self._in_progress = None
        if isinstance(error, UnsupportedVersionError):
            error = UnsupportedVersionError(f"{error}; {self._metadata.wanted_endpoint}")
        if error is not None:
            self._metadata.fatal_error(error)
        self._metadata.failed_update(now)

    def handle_successful_response(self, now: float, message: MetadataAnswer, version: int) -> None:
        """See `MetadataUpdater`; a response without brokers comes from one that is still starting, and is no answer."""
        query, self._in_progress = self._in_progress, None
        refusal = self._metadata.refusal(message)
        if refusal is not None:
            self.handle_failed_request(now, refusal)
        elif message.error_code == RebootstrapRequiredError.code and self._rebootstrap_trigger is not None:
            log.info("the broker asks this client to start again from its bootstrap servers")
            self._trying_since = -math.inf
            self._metadata.failed_update(now)
        elif not message.brokers or query is None:
            self._metadata.failed_update(now)
        else:
            self._take(query, message, now, version)

    def _take(self, query: MetadataQuery, message: MetadataAnswer, now: float, version: int) -> None:
        self._trying_since = None
        self._answered_at = now
        self._given_up.clear()
        self._metadata.update(
            message, now, request_version=query.request_version, is_partial=query.is_partial, version=version
        )

    def give_up_request(self, now: float) -> None:
        """See `MetadataUpdater`."""
        if self._in_progress is not None:
            self._given_up.append(self._in_progress)
        self.handle_failed_request(now, None)

    def handle_late_response(self, now: float, request: Request, message: MetadataAnswer, version: int) -> None:
        """See `MetadataUpdater`; of no use when another has answered since: a node that was away may know less."""
        for query in self._given_up:
            if query.message is request and message.brokers and not message.error_code:
                self._take(query, message, now, version)
                break

    def is_gone(self, node_id: int, since: float) -> bool:
        """See `MetadataUpdater`; bootstrap servers, whose ids are negative, are listed under other ids."""
        if node_id < 0 or self._answered_at <= since:
            return False
        cluster = self._metadata.fetch()
        return not cluster.is_bootstrap_configured and cluster.node(node_id) is None

    def time_to_next_doubt(self, now: float) -> float:
        """See `MetadataUpdater`."""
        return max(self._next_doubt_at - now, 0.0)

    def doubt(self, now: float) -> None:
        """See `MetadataUpdater`; what is asked in vain is asked more and more slowly, until there was no doubt long."""
        if now - self._next_doubt_at >= _DOUBTS_EVERY_AT_MOST:
            self._doubts = 0
        wait = _FIRST_DOUBTS_EVERY * _DOUBTS_GROW_BY ** min(self._doubts, 64)
        self._doubts += 1
        self._next_doubt_at = now + min(wait, _DOUBTS_EVERY_AT_MOST)
        # Doubts have a pace of their own, and that the answers brought nothing new must not make them slower still.
        self._metadata.request_update()

    def needs_rebootstrap(self, now: float) -> bool:
        """See `MetadataUpdater`."""
        return (
            self._rebootstrap_trigger is not None
            and self._trying_since is not None
            and now - self._trying_since > self._rebootstrap_trigger
        )

    def _may_rebootstrap(self) -> bool:
        return self._rebootstrap_trigger is not None and not self._metadata.fetch().is_bootstrap_configured

    def rebootstrap(self, now: float) -> None:
        """See `MetadataUpdater`."""
        if self._rebootstrap_trigger is not None:
            log.info("no known broker can be reached: starting again from the bootstrap servers")
            self._metadata.rebootstrap()
            self._trying_since = now

    def close(self) -> None:
        """See `MetadataUpdater`."""
        self._metadata.close()
