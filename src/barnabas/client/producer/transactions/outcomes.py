"""What an answer to a transactional request means, as a value: a request returns it, the manager applies it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.producer.transactions.states import PreparedTxnState
from barnabas.errors import (
    ClusterAuthorizationError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
    UnsupportedVersionError,
)
from barnabas.network.node import Node
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata


_FATAL_FOR_BATCHES = (
    ClusterAuthorizationError,
    TransactionalIdAuthorizationError,
    ProducerFencedError,
    UnsupportedVersionError,
    InvalidPidMappingError,
)


class Action(Enum):
    """What the producer does about an error."""

    RETRY = "send again after a while"
    FIND_COORDINATOR = "look for the coordinator, then send again"
    ABORT = "only aborting helps"
    ABORT_AND_BUMP = "only aborting with a new epoch helps"
    FENCED = "another producer has taken over"
    FATAL = "the producer cannot go on"


class Retry(NamedTuple):
    """Send the request again after its backoff, to a coordinator that is looked for first if need be.

    `is_concurrent` says that the coordinator is still ending the transaction before.
    """

    needs_coordinator: bool = False
    is_concurrent: bool = False


class Failed(NamedTuple):
    """The request has failed; the action says in which state that leaves the producer."""

    action: Action
    error: KafkaError


class CoordinatorFound(NamedTuple):
    """The broker that coordinates a transactional id or a group."""

    key_type: int
    key: str
    node: Node


class EpochStarted(NamedTuple):
    """The producer's id and new epoch; with it the prepared transaction that was kept, if one was (KIP-939)."""

    producer: ProducerIdAndEpoch
    prepared: PreparedTxnState | None


class PartitionsAdded(NamedTuple):
    """The transaction may write to these partitions."""

    partitions: frozenset[TopicPartition]


class OffsetsAdded(NamedTuple):
    """The transaction may commit these offsets of a group; the application waits on until the group has them."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata


class OffsetsCommitted(NamedTuple):
    """The group's coordinator has the offsets."""


class TransactionEnded(NamedTuple):
    """The transaction is committed or aborted; in transaction version 2 with the epoch of the next one."""

    producer: ProducerIdAndEpoch | None


Outcome = (
    Retry
    | Failed
    | CoordinatorFound
    | EpochStarted
    | PartitionsAdded
    | OffsetsAdded
    | OffsetsCommitted
    | TransactionEnded
)


def failure_of_batch(error: KafkaError) -> Failed:
    """Return what the failure of one of its batches means for a transaction: it is aborted, or the producer ends."""
    if isinstance(error, _FATAL_FOR_BATCHES):
        return Failed(Action.FATAL, error)
    if error.retriable or isinstance(error, InvalidTxnStateError):
        abortable = TransactionAbortableError(f"A record could not be stored, whatever was tried: {error}")
        abortable.__cause__ = error
        error = abortable
    return Failed(Action.ABORT, error)
