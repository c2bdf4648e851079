"""Transactions that one process writes and another one ends (KIP-890, transaction version 2).

A producer detaches its open transaction once all records are acknowledged; a process that knows transactional id,
producer id and epoch may then commit it. That raises the epoch by one, under which the producer may `resume` the id,
without asking the coordinator. One producer may so go from id to id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import IllegalStateError, UnsupportedVersionError
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.producer.producer import Producer
    from barnabas.client.producer.transactions.transaction_manager import TransactionManager


class DetachedTransaction(NamedTuple):
    """An open transaction that no producer will end by itself; the cluster does after transaction.timeout.ms."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


def initialize(producer: Producer[Any, Any], transactional_id: str) -> tuple[int, int]:
    """Take this id from now on, with a new epoch; an open transaction of it is aborted. Returns producer id and epoch.

    Raises UnsupportedVersionError where the cluster has no transaction version 2, and what init_transactions() raises.
    """
    manager = _manager(producer)
    manager.adopt(transactional_id)
    producer.init_transactions()
    if not manager.is_v2:
        raise UnsupportedVersionError(
            "the cluster's feature transaction.version is below 2, so a late request to end one transaction could end "
            "the next (KIP-890); upgrade it: kafka-features.sh upgrade --feature transaction.version=2"
        )
    return manager.sequences.producer.producer_id, manager.sequences.producer.epoch


def resume(producer: Producer[Any, Any], transactional_id: str, producer_id: int, epoch: int) -> None:
    """Take this id from now on, whose last transaction another process has ended, which gave it this epoch."""
    _manager(producer).adopt(transactional_id, ProducerIdAndEpoch(producer_id, epoch))


def detach(producer: Producer[Any, Any]) -> DetachedTransaction:
    """Leave the open transaction to others. Flushes; raises what begin_transaction() would if a record failed."""
    producer.flush()
    manager = _manager(producer)
    transactional_id, identity = manager.transactional_id, manager.sequences.producer
    return DetachedTransaction(transactional_id, *identity, manager.detach())


def _manager(producer: Producer[Any, Any]) -> TransactionManager:
    manager = producer._core.parts.transactions
    if manager is None:
        raise IllegalStateError("this needs a producer with a transactional.id")
    return manager
