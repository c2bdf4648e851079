"""Brokers that do not let this producer in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.in_flight_batches import InFlightBatches
    from barnabas.client.producer.producer_batch import ProducerBatch
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.transactions.transaction_manager import TransactionManager
    from barnabas.network.network_client import NetworkClient
    from barnabas.network.node import Node


class RefusingBrokers:
    """Fails, with the reason, what waits for a broker that refused the client's authentication. Belongs to the Sender.

    Each refusal counts once: the broker is tried again only when more records have come.
    """

    def __init__(
        self,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        in_flight: InFlightBatches,
        transactions: TransactionManager | None,
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._in_flight = in_flight
        self._transactions = transactions
        # Those not tried again since the waiting batches failed.
        self._refusing: set[int] = set()

    @property
    def wait_for_records(self) -> bool:
        """Whether a broker has refused, and nothing has come since that would be worth another try."""
        return bool(self._refusing) and not self._accumulator.has_incomplete()

    def forget(self) -> None:
        """Forget all of them: a broker has let the client in."""
        self._refusing.clear()

    def fail_waiting(self, node: Node, cluster: Cluster | None, now: float) -> None:
        """Fail what waits for this broker, if it refuses: waiting will not help.

        That is everything, or with a `cluster` what the node leads. Batches that may have been stored keep waiting, for
        only a broker can say what became of them.
        """
        error = self._client.authentication_error(node) if self._client.connection_failed(node) else None
        if error is None:
            return
        if node.id in self._refusing:
            if self._client.connection_delay(node, now) <= 0 and self._accumulator.has_incomplete():
                self._refusing.discard(node.id)
            return
        self._refusing.add(node.id)
        if self._transactions is not None:
            self._transactions.transition_to_fatal_error(error)
            return

        def waits_for_it(batch: ProducerBatch) -> bool:
            leader = None if cluster is None else cluster.partition(batch.topic_partition)
            return (
                not batch.has_sequence and batch not in self._in_flight and (leader is None or leader.leader == node.id)
            )

        self._accumulator.abort_batches(error, waits_for_it)
