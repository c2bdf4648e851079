"""AlterPartitionReassignments: other replicas for partitions (KIP-455). One broker can only be told what is so.

Versions 0-1. v1 changes of the replication factor can be refused (KIP-860).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest

API = 45
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Each partition has its own result; a reassignment to where the partition is already has no effect."""
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                _result(broker, topic.name, partition.partition_index, partition.replicas)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _result(
    broker: BrokerState, topic: str, index: int, replicas: Sequence[int] | None
) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=index, error_message=None)
    try:
        _check(broker, topic, index, replicas)
    except errors.KafkaError as problem:
        result.error_code, result.error_message = problem.code, str(problem)
    return result


def _check(broker: BrokerState, name: str, index: int, replicas: Sequence[int] | None) -> None:
    topic = broker.metadata.topic(name)
    if topic is None:
        raise errors.UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    if not 0 <= index < topic.partitions:
        raise errors.UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise errors.NoReassignmentInProgressError("No partition reassignment is in progress.")
    if not replicas:
        raise errors.InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    for replica in replicas:
        if replica != broker.node_id:
            raise errors.InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
    if len(replicas) > 1:
        raise errors.InvalidReplicaAssignmentError(
            f"The manual partition assignment includes the broker {replicas[0]} more than once."
        )
