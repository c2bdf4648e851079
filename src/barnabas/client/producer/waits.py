"""How the calls of a producer wait: all in which its shells for threads and for event loops differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.client.producer.produce_request_result import ProduceRequestResult
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.client.producer_metadata import ProducerMetadata
    from barnabas.client.steps import Steps
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender


class Waits(Protocol):
    """Waits for what the Sender brings about: a thread blocks, on an event loop the steps yield what is awaited.

    Times are in seconds. No wait raises `KafkaTimeoutError` but `wait_for_metadata`.
    """

    def check_may_wait(self, operation: str) -> None:
        """Raise `IllegalStateError` where the wait would never end: in a callback, which runs where the Sender does."""

    def wait_for_turn(self) -> Steps[None]:
        """Let others have a turn if it is time, before a record is taken."""

    def wait_for_metadata(self, metadata: ProducerMetadata, version: int, timeout: float) -> Steps[None]:
        """Wait until the metadata is newer than `version`. Raises as `Metadata.await_update` does."""

    def wait_for_results(self, results: list[ProduceRequestResult], timeout: float | None) -> Steps[bool]:
        """Wait until all records of these batches have their results; tells whether they have."""

    def wait_for_transaction(self, result: TransactionalRequestResult, timeout: float) -> Steps[None]:
        """Wait until the result of an operation is there."""

    def wait_for_instance_id(self, sender: ClientTelemetrySender, timeout: float) -> Steps[None]:
        """Wait until the cluster has answered what this client's id is."""

    def wait_for_end(self, timeout: float | None) -> Steps[None]:
        """End the Sender: what is left is sent first, and fails after `timeout`."""

    def on_new_batch(self, result: ProduceRequestResult) -> None:
        """Note that there is a new batch."""
