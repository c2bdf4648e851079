"""What an admin client does with transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from barnabas.client.admin.admin_operations import AdminOperations
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
from barnabas.client.arguments import INT32, as_integer, as_keys, as_partitions, as_text, as_texts
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
        node = None if broker_id is None else as_integer(broker_id, "broker_id", 0, INT32)
        wanted = as_keys(as_partitions(partitions), "partitions")
        return self._run(describe_producers(node), wanted, timeout, raise_errors)

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, TransactionDescription]:
        """Return what the coordinators know of transactional ids.

        Raises `TransactionalIdNotFoundError`, `TransactionalIdAuthorizationError`, ...

        """
        asked = as_texts(transactional_ids, "transactional_ids")
        return self._run(DescribeTransactionsHandler(), asked, timeout, raise_errors)

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
        return self._done(abort_transaction(spec), spec.topic_partition, timeout)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, ProducerIdAndEpoch]:
        """End the transactions that are open under these ids, and shut their producers out.

        Raises `TransactionalIdAuthorizationError`, ...

        """
        asked = as_texts(transactional_ids, "transactional_ids")
        return self._run(fence_producers("fence_producers"), asked, timeout, raise_errors)

    def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """End the transaction that is open under an id, even a prepared one (KIP-939), and shut its producer out."""
        fenced = fence_producers("force_terminate_transaction")
        return self._done(fenced, as_text(transactional_id, "transactional_id"), timeout)
