"""Brings the requests of a transactional producer to their brokers; a part of the Sender."""

from __future__ import annotations

import copy
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import KafkaError, TransactionAbortedError

if TYPE_CHECKING:
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.transactions.requests import TransactionalRequest
    from barnabas.client.producer.transactions.transaction_manager import TransactionManager
    from barnabas.client.producer_metadata import ProducerMetadata
    from barnabas.network.network_client import NetworkClient
    from barnabas.network.node import Node


class TransactionalRequestSender:
    """Sends one request at a time; batches go on meanwhile, as far as `TransactionManager.may_send` lets them."""

    def __init__(
        self,
        client: NetworkClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        manager: TransactionManager,
        request_timeout: float,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._manager = manager
        self._request_timeout = request_timeout

    @property
    def is_v2(self) -> bool:
        """Whether the transaction follows transaction version 2 (KIP-890)."""
        return self._manager.is_v2

    def tick(self, now: float) -> float:
        """Send the next request if it may go; returns in how many seconds to look again."""
        manager = self._manager
        denied = manager.authorization_failed()
        if denied is not None:
            self._accumulator.abort_batches(denied)
        manager.add_partitions(self._accumulator.undrained_partitions())
        if manager.states.is_aborting:
            self._drop_unsent_batches()
        if manager.requests.in_flight is not None:
            return inf
        request = manager.next_request(self._accumulator.has_incomplete())
        if request is None:
            return inf
        if now < request.retry_at:
            return request.retry_at - now
        node = self._node_for(request, now)
        return 0.0 if node is None else self._send_to(node, request, now)

    def _drop_unsent_batches(self) -> None:
        if self._accumulator.has_undrained():
            self._accumulator.abort_batches(_follow_up(self._manager.last_error), lambda batch: not batch.has_sequence)

    def _node_for(self, request: TransactionalRequest, now: float) -> Node | None:
        """Return the broker for the request; None when another request, or the next turn, has to find it."""
        requests = self._manager.requests
        if request.COORDINATOR is not None:
            node = requests.coordinator(request)
            if node is None:
                requests.look_up_coordinator(request)
            return node
        found = self._client.least_loaded_node(now)
        if found is None:
            self._metadata.request_update()
            requests.put_off(request, now)
        return found

    def _send_to(self, node: Node, request: TransactionalRequest, now: float) -> float:
        client, requests = self._client, self._manager.requests
        if not client.ready(node, now):
            error = client.authentication_error(node)
            if error is not None:
                self._manager.transition_to_fatal_error(error)
            elif client.connection_failed(node):
                if request.COORDINATOR is not None:
                    requests.look_up_coordinator(request, now)
                else:
                    requests.put_off(request, now)
            return client.poll_delay(node, now)
        sent = client.new_client_request(
            node.id,
            request.build(),
            now,
            timeout=self._request_timeout,
            callback=partial(self._manager.on_response, request),
        )
        requests.set_in_flight(request)
        try:
            client.send(sent, now)
        except BaseException as error:
            # As with a value that no request can carry: no answer will come.
            self._manager.on_not_sent(request, error)
            if not isinstance(error, KafkaError):
                raise
        return inf


def _follow_up(error: KafkaError | None) -> KafkaError:
    """Return what batches are told that were not sent because of another one's error, which is its cause."""
    if error is None:
        return TransactionAbortedError()
    found = copy.copy(error)
    found.__cause__ = error
    return found
