"""ISRs as leaders propose them (KafkaController.alterPartitions, KIP-497)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper.controller.controller_context import RECOVERED, RECOVERING, LeaderAndIsr
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.controller.active_controller import ActiveController
    from barnabas.broker.zookeeper.controller.controller_context import ControllerContext
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages import alter_partition_request
    from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest

#: From here on an ISR comes with the epochs of its brokers.
_WITH_EPOCHS_FROM = 3


def alter_partition(controller: ActiveController, request: AlterPartitionRequest, version: int) -> Program[Message]:
    """Write proposed ISRs, and tell all brokers of them."""
    context = controller.context
    broker = context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=errors.StaleBrokerEpochError.code)
    results: dict[TopicPartition, LeaderAndIsr | int] = {}
    proposed: dict[TopicPartition, LeaderAndIsr] = {}
    for topic in request.topics:
        name = context.topic_names.get(topic.topic_id)
        for asked in topic.partitions if name is not None else ():
            partition = TopicPartition(name or "", asked.partition_index)
            proposal = _proposal(request.broker_id, asked, version)
            refusal = _refusal(context, partition, proposal)
            if refusal is None:
                proposed[partition] = proposal
            else:
                results[partition] = refusal
    written, stale = yield from controller.environment.zk.update_states(proposed)
    context.leadership.update(written)
    results.update(written)
    results.update(dict.fromkeys(stale, errors.InvalidUpdateVersionError.code))
    if results:
        controller.tell_metadata(context.brokers, results)
    return _response(context, request, results)


def _proposal(leader: int, asked: alter_partition_request.PartitionData, version: int) -> LeaderAndIsr:
    isr = [one.broker_id for one in asked.new_isr_with_epochs] if version >= _WITH_EPOCHS_FROM else asked.new_isr
    return LeaderAndIsr(leader, tuple(isr), asked.leader_epoch, asked.partition_epoch, asked.leader_recovery_state)


def _refusal(context: ControllerContext, name: TopicPartition, new: LeaderAndIsr) -> LeaderAndIsr | int | None:
    """Return why a proposal is refused, or the state where it has come true already; None where it is to be written."""
    known = context.leadership.get(name)
    if known is None:
        return errors.UnknownTopicOrPartitionError.code
    if new.partition_epoch > known.partition_epoch or new.leader_epoch > known.leader_epoch:
        # This controller knows less than the leader: it is none any more.
        return errors.NotControllerError.code
    if new.leader_epoch < known.leader_epoch:
        return errors.FencedLeaderEpochError.code
    if new._replace(partition_epoch=0, controller_epoch=0) == known._replace(partition_epoch=0, controller_epoch=0):
        return known
    if new.partition_epoch < known.partition_epoch:
        return errors.InvalidUpdateVersionError.code
    recovers = new.leader_recovery_state == RECOVERING
    if recovers and (len(new.isr) > 1 or known.leader_recovery_state == RECOVERED):
        return errors.InvalidRequestError.code
    if new.leader != known.leader or new.leader not in new.isr:
        return errors.InvalidRequestError.code
    return None if context.live_brokers.issuperset(new.isr) else errors.IneligibleReplicaError.code


def _response(
    context: ControllerContext, request: AlterPartitionRequest, results: dict[TopicPartition, LeaderAndIsr | int]
) -> AlterPartitionResponse:
    response = AlterPartitionResponse()
    for topic in request.topics:
        name, told = context.topic_names.get(topic.topic_id), TopicData(topic_id=topic.topic_id)
        for asked in topic.partitions:
            index = asked.partition_index
            unknown = errors.UnknownTopicIdError.code
            found = unknown if name is None else results[TopicPartition(name, index)]
            if isinstance(found, int):
                told.partitions.append(PartitionData(partition_index=index, error_code=found))
            else:
                told.partitions.append(
                    PartitionData(
                        partition_index=index,
                        leader_id=found.leader,
                        leader_epoch=found.leader_epoch,
                        isr=list(found.isr),
                        leader_recovery_state=found.leader_recovery_state,
                        partition_epoch=found.partition_epoch,
                    )
                )
        response.topics.append(told)
    return response
