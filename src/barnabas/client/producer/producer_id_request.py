"""How an idempotent producer without transactions gets its producer id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.producer.transactions.states import State
from barnabas.errors import UnsupportedVersionError

if TYPE_CHECKING:
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.refusing_brokers import RefusingBrokers
    from barnabas.client.producer.sender_config import SenderConfig
    from barnabas.client.producer.transactions.idempotence import IdempotenceManager
    from barnabas.client.producer_metadata import ProducerMetadata
    from barnabas.network.client_request import ClientResponse
    from barnabas.network.network_client import NetworkClient
    from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse


class ProducerIdRequest:
    """Asks any broker for a producer id, until there is one. Belongs to the Sender; times in seconds."""

    def __init__(
        self,
        client: NetworkClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        idempotence: IdempotenceManager,
        refusing: RefusingBrokers,
        config: SenderConfig,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._idempotence = idempotence
        self._refusing = refusing
        self._config = config
        self._next_attempt = 0.0

    def tick(self, now: float) -> bool:
        """Send the request if it is due; tells whether there is an id that records may be stamped with."""
        idempotence = self._idempotence
        idempotence.bump_epoch_and_reset_id_if_needed()
        if idempotence.sequences.has_producer_id:
            return True
        self._maybe_send(now)
        return idempotence.sequences.has_producer_id

    def _maybe_send(self, now: float) -> None:
        from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest

        idempotence = self._idempotence
        if idempotence.state is not State.UNINITIALIZED or now < self._next_attempt:
            return
        node = self._client.least_loaded_node(now)
        if node is None:
            self._metadata.request_update()
            return
        self._refusing.fail_waiting(node, None, now)
        if self._refusing.wait_for_records or not self._client.ready(node, now):
            return
        self._refusing.forget()
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        request = self._client.new_client_request(
            node.id, message, now, timeout=self._config.request_timeout, callback=self._on_response
        )
        self._next_attempt = now + self._config.retry_backoff
        try:
            idempotence.begin_initializing()
            self._client.send(request, now)
        except BaseException:
            idempotence.on_initialize_failed()
            raise

    def _on_response(self, response: ClientResponse) -> None:
        try:
            self._apply(response)
        finally:
            if self._idempotence.state is State.INITIALIZING:
                # An unexpected error: the request is answered, and has to be sent again.
                self._idempotence.on_initialize_failed()

    def _apply(self, response: ClientResponse) -> None:
        if response.version_mismatch:
            self._idempotence.transition_to_fatal_error(
                UnsupportedVersionError(
                    "The broker knows no idempotent producers (it is older than 0.11); set enable_idempotence=False"
                )
            )
        elif response.message is None:
            self._idempotence.on_initialize_failed()
        else:
            self._handle_response(response.message)

    def _handle_response(self, message: InitProducerIdResponse) -> None:
        error = self._idempotence.handle_init_producer_id(
            message.error_code, message.producer_id, message.producer_epoch
        )
        if error is not None:
            self._accumulator.abort_batches(error)
