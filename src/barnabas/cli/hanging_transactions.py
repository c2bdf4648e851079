"""Open transactions that no coordinator will ever end (KIP-664): what `barnabas txn find-hanging` looks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.cli.output import time_text
from barnabas.client.admin.hanging_transactions import OpenTransaction, hanging, ids_of, open_transactions
from barnabas.errors import IllegalArgumentError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.transactions import ProducerState
    from barnabas.protocol.topic_partition import TopicPartition


def all_partitions(admin: AdminClient, named: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of `TOPIC` or `TOPIC:LIST`, of all topics where nothing is named.

    Raises for what is not there.
    """
    from argparse import ArgumentTypeError

    from barnabas.cli.arguments import partition_numbers
    from barnabas.protocol.topic_partition import TopicPartition

    wanted: dict[str, list[int] | None] = {}
    for text in named:
        topic, colon, numbers = text.rpartition(":")
        try:
            wanted[topic if colon else text] = partition_numbers(numbers) if colon else None
        except ArgumentTypeError as problem:
            raise IllegalArgumentError(f"{text}: {problem}") from None
    topics = admin.describe_topics(wanted or admin.list_topics(include_internal=True))
    found = []
    for description in topics.values():
        topic = description.name
        there = [partition.partition for partition in description.partitions]
        chosen = wanted.get(topic) or there
        missing = sorted(set(chosen) - set(there))
        if missing:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {missing[0]}")
        found += [TopicPartition(topic, number) for number in chosen]
    return sorted(found)


def find_hanging(admin: AdminClient, partitions: list[TopicPartition], oldest_ms: int) -> list[OpenTransaction]:
    """Return what is open there, was last written to before `oldest_ms`, and is in no transaction of an id."""
    candidates = open_transactions(admin.describe_producers(partitions), oldest_ms)
    if not candidates:
        return []
    listed = admin.list_transactions(producer_ids=sorted({one.producer.producer_id for one in candidates}))
    ids = ids_of(listed.values())
    return hanging(candidates, ids, admin.describe_transactions(ids.values(), raise_errors=False))


def producer_rows(found: Mapping[TopicPartition, list[ProducerState]]) -> list[dict[str, Any]]:
    """Return a row for each producer in each partition."""
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "producerId": producer.producer_id,
            "producerEpoch": producer.producer_epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "lastSequence": producer.last_sequence,
            "lastTimestampMs": producer.last_timestamp,
            "lastTime": time_text(producer.last_timestamp),
            "startOffset": (
                producer.current_transaction_start_offset if producer.current_transaction_start_offset >= 0 else None
            ),
        }
        for partition, producers in found.items()
        for producer in producers
    ]
