"""What an admin client does with transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from barnabas.client.admin.admin_operations import AdminOperations, unique
from barnabas.client.admin.requests import KeyedRequest
from barnabas.client.admin.results import FromBrokers, Results
from barnabas.client.admin.transactions import (
    AbortTransactionSpec,
    DescribeTransactionsHandler,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    abort_transaction,
    describe_producers,
    fence_producers,
    list_transactions,
)
from barnabas.client.steps import Steps
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition


class TransactionOperations(AdminOperations):
    """Transactions and producers."""

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, list[ProducerState]]:
        """Return the producers that partitions know, as their leaders tell, or this broker's replicas.

        Raises `UnknownTopicOrPartitionError`, `TopicAuthorizationError`, ...

        """
        wanted = unique(TopicPartition(*partition) for partition in partitions)
        return self._run(describe_producers(broker_id), wanted, timeout, raise_errors)

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, TransactionDescription]:
        """Return what the coordinators know of transactional ids.

        Raises `TransactionalIdNotFoundError`, `TransactionalIdAuthorizationError`, ...

        """
        return self._run(DescribeTransactionsHandler(), unique(transactional_ids), timeout, raise_errors)

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> FromBrokers[TransactionListing]:
        """Return the transactional ids of the cluster, in alphabetical order.

        Only those in one of `states`, of one of `producer_ids`, with a transaction open for more than `longer_than`
        seconds, and with an id that matches the pattern (RE2's syntax), if given.
        """
        longer_than_ms = -1 if longer_than is None else int(longer_than * 1000)
        handler = list_transactions(states, producer_ids, longer_than_ms, transactional_id_pattern)
        return self._complete(self._gather_transactions(handler, timeout, raise_errors))

    def _gather_transactions(
        self, handler: KeyedRequest[int, list[TransactionListing]], timeout: float | None, raise_errors: bool
    ) -> Steps[FromBrokers[TransactionListing]]:
        results = yield from self._ask_all_brokers(handler, timeout, raise_errors)
        return FromBrokers(results, lambda listing: listing.transactional_id)

    def abort_transaction(self, spec: AbortTransactionSpec, *, timeout: float | None = None) -> None:
        """End a transaction that hangs in a partition, which its coordinator knows nothing of any more.

        Raises `InvalidProducerEpochError`, `TransactionCoordinatorFencedError`, `ClusterAuthorizationError`,
        ...

        """
        self._run_one(abort_transaction(spec), spec.topic_partition, timeout)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, ProducerIdAndEpoch]:
        """End the transactions that are open under these ids, and shut their producers out.

        Raises `TransactionalIdAuthorizationError`, ...

        """
        return self._run(fence_producers("fence_producers"), unique(transactional_ids), timeout, raise_errors)

    def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """End the transaction that is open under an id, even a prepared one (KIP-939), and shut its producer out."""
        self._run_one(fence_producers("force_terminate_transaction"), transactional_id, timeout)
