"""Open transactions that no coordinator will ever end (KIP-664): told apart from those that one still knows of.

The three answers that this takes (DescribeProducers, ListTransactions of the producers that have something open,
DescribeTransactions of what that names) are asked for by who calls: the command line, and the console.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from barnabas.client.admin.transactions import (
        AbortTransactionSpec,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )
    from barnabas.protocol.topic_partition import TopicPartition


class OpenTransaction(NamedTuple):
    """A producer that has a transaction open in a partition."""

    partition: TopicPartition
    producer: ProducerState


def open_transactions(found: Mapping[TopicPartition, list[ProducerState]], oldest_ms: int) -> list[OpenTransaction]:
    """Return what is open in partitions, and was last written to before `oldest_ms` (epoch)."""
    return [
        OpenTransaction(partition, producer)
        for partition, producers in found.items()
        for producer in producers
        if producer.current_transaction_start_offset >= 0 and producer.last_timestamp < oldest_ms
    ]


def ids_of(listed: Iterable[TransactionListing]) -> dict[int, str]:
    """Return producer id → transactional id."""
    return {listing.producer_id: listing.transactional_id for listing in listed}


def hanging(
    candidates: Iterable[OpenTransaction], ids: Mapping[int, str], described: Mapping[str, TransactionDescription]
) -> list[OpenTransaction]:
    """Return those whose partition is in no transaction of their producer's id."""
    found = []
    for one in candidates:
        transactional_id = ids.get(one.producer.producer_id, "")
        known = described[transactional_id].topic_partitions if transactional_id in described else frozenset()
        if one.partition not in known:
            found.append(one)
    return found


def abort_of(
    partition: TopicPartition, start_offset: int, found: Mapping[TopicPartition, list[ProducerState]]
) -> AbortTransactionSpec:
    """Return what aborts the transaction that is open in a partition since an offset.

    `found` is what DescribeProducers tells of the partition. Raises `IllegalArgumentError` where nothing is open that
    began there.
    """
    # With it come the messages of requests: the help of a command does without.
    from barnabas.client.admin.transactions import AbortTransactionSpec

    for producer in found[partition]:
        if producer.current_transaction_start_offset == start_offset:
            # A coordinator that never wrote a marker there has epoch -1; its first is 0.
            epoch = max(producer.coordinator_epoch, 0)
            return AbortTransactionSpec(partition, producer.producer_id, producer.producer_epoch, epoch)
    raise IllegalArgumentError(
        f"no transaction is open in {partition} that began at offset {start_offset}; "
        "`barnabas txn producers` shows what is"
    )
