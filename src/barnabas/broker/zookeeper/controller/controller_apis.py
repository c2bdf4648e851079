"""Requests that the controller answers, from brokers and from clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.broker.membership.refusals import refused
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.alter_partitions import alter_partition
from barnabas.broker.zookeeper.controller.controller_context import PartitionState, Replica, ReplicaState
from barnabas.broker.zookeeper.controller.election import ElectionStrategy
from barnabas.broker.zookeeper.operations import BadVersionError, Get, SetData, Znode, expect
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse
from barnabas.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse, RemainingPartition
from barnabas.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from barnabas.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from barnabas.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.controller.active_controller import ActiveController
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
    from barnabas.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
    from barnabas.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
    from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest
    from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
    from barnabas.protocol.messages.update_features_request import UpdateFeaturesRequest

#: What only brokers ask: name, lowest and highest version.
OF_BROKERS: dict[int, tuple[str, int, int]] = {
    ApiKey.CONTROLLED_SHUTDOWN: ("controller_apis", 1, 3),
    ApiKey.ALTER_PARTITION: ("controller_apis", 2, 3),
    ApiKey.ALLOCATE_PRODUCER_IDS: ("controller_apis", 0, 0),
}
_PREFERRED, _UNCLEAN = 0, 1
_UNKNOWN_EPOCH = -1
#: From here on the response of UpdateFeatures has one error for all.
_ONE_ERROR_FROM = 2


def serves(api_key: int) -> bool:
    """Whether an API is answered here."""
    return api_key in _ANSWERS


def handle(controller: ActiveController | None, request: Message, version: int) -> DelayedOperation:
    """Answer a request when its turn comes; NOT_CONTROLLER where this broker is no controller, or one no more.

    What fails otherwise is answered with its error.
    """
    operation = DelayedOperation()

    def refuse(problem: errors.KafkaError) -> None:
        operation.complete(refused(request, problem.code))

    def answer(active: ActiveController) -> Program[None]:
        response = yield from _ANSWERS[request.API_KEY](active, request, version)
        operation.complete(response)
        if isinstance(response, AlterPartitionResponse):
            changed = [TopicPartition(*name) for name in _changed(active, response)]
            yield from active.reassignments.complete(changed)

    if controller is None:
        refuse(errors.NotControllerError())
    else:
        controller.put(request.NAME, partial(answer, controller), refuse)
    return operation


def _changed(active: ActiveController, response: AlterPartitionResponse) -> list[tuple[str, int]]:
    return [
        (active.context.topic_names[topic.topic_id], part.partition_index)
        for topic in response.topics
        for part in topic.partitions
        if not part.error_code
    ]


# -- brokers ---------------------------------------------------------------------------------------------------------


def _allocate_producer_ids(
    active: ActiveController, request: AllocateProducerIdsRequest, version: int
) -> Program[Message]:
    """Reserve a block of producer ids for a broker (ZkProducerIdManager, KIP-730)."""
    broker = active.context.brokers.get(request.broker_id)
    if broker is None:
        return AllocateProducerIdsResponse(error_code=errors.BrokerIdNotRegisteredError.code)
    if broker.epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=errors.StaleBrokerEpochError.code)
    while True:
        (result,) = yield [Get(controller_znodes.PRODUCER_IDS)]
        found = expect(result, Znode)
        block, data = controller_znodes.next_block(request.broker_id, found.data)
        (written,) = yield from active.environment.zk.write(
            [SetData(controller_znodes.PRODUCER_IDS, data, found.version)]
        )
        if not isinstance(written, BadVersionError):
            expect(written, int)
            return AllocateProducerIdsResponse(
                producer_id_start=block.first, producer_id_len=block.last - block.first + 1
            )


def _controlled_shutdown(
    active: ActiveController, request: ControlledShutdownRequest, version: int
) -> Program[Message]:
    """Move what a broker leads elsewhere, and take it out of ISRs; the response names what no other can lead."""
    context, number = active.context, request.broker_id
    broker = context.brokers.get(number)
    if broker is None:
        return ControlledShutdownResponse(error_code=errors.BrokerNotAvailableError.code)
    if _UNKNOWN_EPOCH != request.broker_epoch < broker.epoch:
        return ControlledShutdownResponse(error_code=errors.StaleBrokerEpochError.code)
    context.shutting_down.add(number)
    names = [
        replica.partition
        for replica in context.replicas_on((number,))
        if len(context.assignment(replica.partition).replicas) > 1
        and replica.partition in context.leadership
        and not context.is_queued_for_deletion(replica.partition.topic)
    ]
    led = [name for name in names if context.leadership[name].leader == number]
    followed = [name for name in names if context.leadership[name].leader != number]
    yield from active.partitions.handle(led, PartitionState.ONLINE, ElectionStrategy.CONTROLLED_SHUTDOWN)
    yield from active.replicas.handle([Replica(name, number) for name in followed], ReplicaState.OFFLINE)
    remaining = [RemainingPartition(*name) for name in context.led_by(number)]
    return ControlledShutdownResponse(remaining_partitions=remaining)


# -- clients ---------------------------------------------------------------------------------------------------------


def _elect_leaders(active: ActiveController, request: ElectLeadersRequest, version: int) -> Program[Message]:
    asked = request.topic_partitions
    is_all = asked is None
    if asked is None:
        names = active.context.partitions
    else:
        names = [TopicPartition(one.topic, index) for one in asked for index in one.partitions]
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return ElectLeadersResponse(error_code=errors.InvalidRequestError.code)
    is_unclean = version > 0 and request.election_type == _UNCLEAN
    outcomes = yield from active.preferred.elect(dict.fromkeys(names), is_unclean=is_unclean)
    by_topic: dict[str, list[PartitionResult]] = {}
    for name, problem in outcomes.items():
        if is_all and isinstance(problem, errors.ElectionNotNeededError):
            continue
        by_topic.setdefault(name.topic, []).append(PartitionResult(name.partition, *_told(problem)))
    results = [ReplicaElectionResult(topic, parts) for topic, parts in by_topic.items()]
    return ElectLeadersResponse(replica_election_results=results)


def _alter_reassignments(
    active: ActiveController, request: AlterPartitionReassignmentsRequest, version: int
) -> Program[Message]:
    may_change = getattr(request, "allow_replication_factor_change", True)
    wanted = {
        TopicPartition(topic.name, part.partition_index): None if part.replicas is None else tuple(part.replicas)
        for topic in request.topics
        for part in topic.partitions
    }
    fixed: dict[TopicPartition, errors.KafkaError | None] = {}
    for name, target in wanted.items() if not may_change else ():
        factor = len(active.context.assignment(name).target)
        if target is not None and factor and factor != len(target):
            text = f"The replication factor is changed from {factor} to {len(target)}"
            fixed[name] = errors.InvalidReplicationFactorError(text)
    outcomes = yield from active.reassignments.alter(
        {name: target for name, target in wanted.items() if name not in fixed}
    )
    outcomes |= fixed
    results = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    part.partition_index, *_told(outcomes[TopicPartition(topic.name, part.partition_index)])
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change, error_message=None, responses=results
    )


def _list_reassignments(
    active: ActiveController, request: ListPartitionReassignmentsRequest, version: int
) -> Program[Message]:
    yield from ()  # nothing is asked of ZooKeeper
    context = active.context
    if request.topics is None:
        names = sorted(context.partitions_being_reassigned)
    else:
        names = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    topics: dict[str, OngoingTopicReassignment] = {}
    for name in names:
        found = active.reassignments.shown(name)
        if found.is_being_reassigned:
            part = OngoingPartitionReassignment(name.partition, *map(list, found))
            topics.setdefault(name.topic, OngoingTopicReassignment(name=name.topic)).partitions.append(part)
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


def _update_features(active: ActiveController, request: UpdateFeaturesRequest, version: int) -> Program[Message]:
    """Refuse every feature: brokers of 3.9 under ZooKeeper support none that could be finalized."""
    yield from ()  # nothing is asked of ZooKeeper
    results = []
    for update in request.feature_updates:
        if not update.feature:
            text = "Feature name can not be empty."
        elif update.max_version_level < 1:
            text = "Can not delete non-existing finalized feature."
        else:
            text = "Could not apply finalized feature update because the provided feature is not supported."
        results.append(UpdatableFeatureResult(update.feature, errors.InvalidRequestError.code, text))
    if results and version >= _ONE_ERROR_FROM:
        return UpdateFeaturesResponse(error_code=results[0].error_code, error_message=results[0].error_message)
    return UpdateFeaturesResponse(error_message=None, results=results)


def _told(problem: errors.KafkaError | None) -> tuple[int, str | None]:
    return (errors.NONE, None) if problem is None else (problem.code, str(problem) or None)


_ANSWERS: dict[int, Callable[[ActiveController, Any, int], Program[Message]]] = {
    ApiKey.ALTER_PARTITION: alter_partition,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
    ApiKey.CONTROLLED_SHUTDOWN: _controlled_shutdown,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.UPDATE_FEATURES: _update_features,
}
