"""A Produce whose records are in the log, and not yet committed (DelayedProduce)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.partition import Partition
    from barnabas.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse


class Uncommitted(NamedTuple):
    """One partition's records up to `last_offset`, which wait, and what their producer is to be told."""

    partition: Partition
    last_offset: int
    response: PartitionProduceResponse


class DelayedProduce(DelayedOperation):
    """Answers when every partition's records are committed, or cannot be any more.

    Now they wait for a flush, however long the disk takes; with replicas they will wait for those in sync, until the
    request's timeout.
    """

    __slots__ = ("_finish", "_waiting")

    def __init__(self, waiting: list[Uncommitted], finish: Callable[[], ProduceResponse]):
        super().__init__(keys=tuple({found.partition: None for found in waiting}))
        self._waiting = waiting
        self._finish = finish

    def try_complete(self, now: float) -> ProduceResponse | None:
        """Return the response, once nothing waits any more."""
        self._waiting = [found for found in self._waiting if not _is_settled(found)]
        return None if self._waiting else self._finish()


def _is_settled(waiting: Uncommitted) -> bool:
    partition, offset, response = waiting
    if partition.is_committed(offset):
        return True
    problem: errors.KafkaError | None = None
    if partition.deleted:
        problem = errors.UnknownTopicOrPartitionError(f"{partition.topic} was deleted before the records were flushed.")
    elif not partition.is_flushing:
        problem = errors.KafkaStorageError(
            f"The records of {partition.topic}-{partition.index} could not be brought to the disk: "
            f"{', '.join(partition.log.troubles.values())}"
        )
    if problem is None:
        return False
    response.error_code, response.error_message, response.base_offset = problem.code, str(problem), -1
    return True
