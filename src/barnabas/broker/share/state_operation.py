"""What share-partitions ask the share coordinator, one share-partition at a time: the payload of each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from barnabas.broker.share.persister import (
    SharePartitionKey,
    SharePartitionState,
    StateSummary,
    StateUpdate,
)

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator
    from barnabas.errors import KafkaError


class InitializeState(NamedTuple):
    """Begin anew at an offset, which is -1 where the group says."""

    state_epoch: int
    start_offset: int


class ReadState(NamedTuple):
    """Give what is stored, and note who leads."""

    leader_epoch: int


class DeleteState(NamedTuple):
    """Forget all of it."""


class ReadSummary(NamedTuple):
    """Give how far it is."""


#: What is asked; a `StateUpdate` is to be stored.
Asked: TypeAlias = InitializeState | ReadState | StateUpdate | DeleteState | ReadSummary
#: What is answered: None where something was done.
Answer: TypeAlias = "SharePartitionState | StateSummary | KafkaError | None"


class StateOperation(NamedTuple):
    """A question about one share-partition, and since when it is asked."""

    key: SharePartitionKey
    asked: Asked
    tell: Callable[[Any], None]
    at: Instant


def _initialize(coordinator: ShareCoordinator, key: SharePartitionKey, asked: InitializeState, at: Instant) -> None:
    coordinator.initialize(key, asked.state_epoch, asked.start_offset, at)


def _read(coordinator: ShareCoordinator, key: SharePartitionKey, asked: ReadState, at: Instant) -> SharePartitionState:
    found = coordinator.read(key, asked.leader_epoch, at)
    return SharePartitionState(found.state_epoch, found.start_offset, found.state_batches)


def _write(coordinator: ShareCoordinator, key: SharePartitionKey, asked: StateUpdate, at: Instant) -> None:
    coordinator.write(key, asked, at)


def _delete(coordinator: ShareCoordinator, key: SharePartitionKey, asked: DeleteState, at: Instant) -> None:
    coordinator.delete(key, at)


def _read_summary(
    coordinator: ShareCoordinator, key: SharePartitionKey, asked: ReadSummary, at: Instant
) -> StateSummary:
    return coordinator.read_summary(key)


_SERVED: dict[type, Callable[[ShareCoordinator, SharePartitionKey, Any, Instant], Answer]] = {
    InitializeState: _initialize,
    ReadState: _read,
    StateUpdate: _write,
    DeleteState: _delete,
    ReadSummary: _read_summary,
}


def ask_here(coordinator: ShareCoordinator, operation: StateOperation, at: Instant) -> Answer:
    """Return what the coordinator of this broker answers. Raises KafkaError."""
    return _SERVED[type(operation.asked)](coordinator, operation.key, operation.asked, at)
