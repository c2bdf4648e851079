"""Proposals of ISRs to the controller, those of many partitions in one request (AlterPartitionManager, KIP-497)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.faults import run_all
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_response import PartitionData as AlteredPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.broker.replication.partition_state import LeaderAndIsr
    from barnabas.protocol.message import Message
    from barnabas.protocol.topic_partition import TopicPartition


class _Proposal(NamedTuple):
    proposed: LeaderAndIsr
    done: Callable[[PartitionRegistration | int, int], None]


class AlterPartitions:
    """Implements `AlterPartitionManager` over the queue of requests to the controller.

    One request is in flight. What is proposed meanwhile goes with the next. A controller's error for the whole request
    says nothing of the partitions: they are proposed again.
    """

    def __init__(self, me: int, broker_epoch: Callable[[], int], requests: ControllerRequests) -> None:
        self._me = me
        self._broker_epoch = broker_epoch
        self._requests = requests
        self._unsent: dict[tuple[bytes, int], _Proposal] = {}
        self._sent: dict[tuple[bytes, int], _Proposal] = {}
        self._is_queued = False

    def submit(
        self,
        name: TopicPartition,
        topic_id: bytes,
        proposed: LeaderAndIsr,
        done: Callable[[PartitionRegistration | int, int], None],
    ) -> None:
        """See `AlterPartitionManager`."""
        self._unsent[topic_id, name.partition] = _Proposal(proposed, done)
        self._queue()

    def _queue(self) -> None:
        if not self._is_queued and (self._unsent or self._sent):
            self._requests.submit(ControllerRequest(self._make, self._answered, give_up=self._queue_again))
            self._is_queued = True

    def _queue_again(self) -> None:
        self._is_queued = False
        self._queue()

    def _make(self) -> AlterPartitionRequest:
        self._sent.update(self._unsent)
        self._unsent = {}
        topics: dict[bytes, TopicData] = {}
        for (topic_id, index), (proposed, _) in self._sent.items():
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
            members = [BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposed.isr]
            topic.partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposed.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=proposed.partition_epoch,
                    leader_recovery_state=proposed.leader_recovery_state,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._me, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, response: Message, now: Instant) -> None:
        outcomes: list[Callable[[], object]] = []
        # Of an error, a stale broker epoch or a controller that is not ready, the registration goes on beside this.
        if isinstance(response, AlterPartitionResponse) and not response.error_code:
            outcomes = self._outcomes(response, now)
        run_all((*outcomes, self._queue_again))

    def _outcomes(self, response: AlterPartitionResponse, now: Instant) -> list[Callable[[], object]]:
        """Return what takes the proposals for answered, and tells each partition what has become of its own."""
        answers: dict[tuple[bytes, int], PartitionRegistration | int] = {
            (topic.topic_id, found.partition_index): found.error_code or _accepted(found)
            for topic in response.topics
            for found in topic.partitions
        }
        told = [
            partial(one.done, answers.get(key, errors.UnknownServerError.code), now.now_ms)
            for key, one in self._sent.items()
        ]
        return [self._sent.clear, *told]


def _accepted(found: AlteredPartition) -> PartitionRegistration:
    return PartitionRegistration(
        (),
        tuple(found.isr),
        found.leader_id,
        found.leader_epoch,
        found.partition_epoch,
        leader_recovery_state=found.leader_recovery_state,
    )
