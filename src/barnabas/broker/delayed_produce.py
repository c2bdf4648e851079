"""A Produce whose records are in the log, and not yet committed (DelayedProduce)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.partition import ACKS_ALL
from barnabas.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.partition import Partition
    from barnabas.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse


class Uncommitted(NamedTuple):
    """One partition's records up to `last_offset`, in which leadership they were written, and what to tell of them."""

    partition: Partition
    last_offset: int
    leaderships: int
    acks: int
    response: PartitionProduceResponse


class DelayedProduce(DelayedOperation):
    """Answers when every partition's records are committed, or cannot be any more, or when the request's time is over.

    They wait for a flush, however long the disk takes, and with acks=all for the replicas in sync.
    """

    __slots__ = ("_finish", "_waiting")

    def __init__(self, waiting: list[Uncommitted], finish: Callable[[], ProduceResponse], deadline: float = inf):
        super().__init__(deadline, tuple({found.partition: None for found in waiting}))
        self._waiting = waiting
        self._finish = finish

    def try_complete(self, now: float) -> ProduceResponse | None:
        """Return the response, once nothing waits any more."""
        self._waiting = [found for found in self._waiting if not _is_settled(found)]
        return None if self._waiting else self._finish()

    def on_expiration(self, now: float) -> ProduceResponse:
        """Tell that the replicas have not answered in time: whether the records will be committed is open."""
        for found in self._waiting:
            if not _is_settled(found):
                where = f"{found.partition.topic}-{found.partition.index}"
                _fail(found, errors.KafkaTimeoutError(f"The replicas of {where} have not confirmed in time."))
        return self._finish()

    def answer_fault(self) -> ProduceResponse:
        """Tell that it is not known whether the records will be committed."""
        for found in self._waiting:
            if not found.response.error_code:
                _fail(found, errors.UnknownServerError("The broker failed while it waited for the records' commit."))
        return self._finish()


def is_done(waiting: Uncommitted) -> bool:
    """Whether the records are where their producer wants them to be."""
    partition = waiting.partition
    if waiting.acks == ACKS_ALL or partition.in_sync is None:
        return partition.is_committed(waiting.last_offset)
    return partition.is_written(waiting.last_offset)


def _is_settled(waiting: Uncommitted) -> bool:
    problem = _problem(waiting)
    if problem is not None:
        _fail(waiting, problem)
        return True
    return is_done(waiting)


def _problem(waiting: Uncommitted) -> errors.KafkaError | None:
    partition = waiting.partition
    where = f"{partition.topic}-{partition.index}"
    # A leader that was another's follower in between may have truncated the records.
    still_leads = partition.is_leader and partition.leaderships == waiting.leaderships
    if still_leads and is_done(waiting):
        if waiting.acks == ACKS_ALL and not partition.has_enough_in_sync:
            return errors.NotEnoughReplicasAfterAppendError(
                f"{where} has fewer replicas in sync than min.insync.replicas asks for."
            )
        return None
    if partition.deleted:
        return errors.UnknownTopicOrPartitionError(f"{partition.topic} was deleted before the records were committed.")
    if not still_leads:
        return errors.NotLeaderOrFollowerError(f"{where} has another leader; the records may not have been kept.")
    if partition.log.is_offline or (partition.log.must_flush and not partition.is_flushing):
        return errors.KafkaStorageError(
            f"The records of {where} could not be brought to the disk: {', '.join(partition.log.troubles.values())}"
        )
    return None


def _fail(waiting: Uncommitted, problem: errors.KafkaError) -> None:
    response = waiting.response
    response.error_code, response.error_message, response.base_offset = problem.code, str(problem), -1
