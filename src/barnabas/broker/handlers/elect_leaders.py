"""ElectLeaders: another leader for partitions (KIP-183, KIP-460). With one broker the right one leads already.

Versions 0-2. v1 types of election (KIP-460), a top-level error. v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.kinds import ElectionType
from barnabas.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest

API = 43
VERSIONS = (0, 2)

_ELECTION_TYPES = tuple(ElectionType)
"""Preferred, unclean."""


def handle(broker: BrokerState, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """No partition needs an election; for all partitions (null) Kafka names only those that did."""
    bad_type = request.election_type not in _ELECTION_TYPES
    if request.topic_partitions is None:
        results = [ReplicaElectionResult(topic=topic.name) for topic in broker.metadata.topics()]
    else:
        results = [
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    _result(broker, asked.topic, index, request.election_type, bad_type) for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions
        ]
    code = errors.InvalidRequestError.code if bad_type else errors.NONE
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _result(broker: BrokerState, name: str, index: int, election_type: int, bad_type: bool) -> PartitionResult:
    topic = broker.metadata.topic(name)
    problem: errors.KafkaError
    if bad_type:
        problem = errors.InvalidRequestError(f"Unknown election type {election_type}")
    elif topic is None:
        problem = errors.UnknownTopicOrPartitionError(f"No such topic as {name}")
    elif not 0 <= index < topic.partitions:
        problem = errors.UnknownTopicOrPartitionError(f"No such partition as {name}-{index}")
    else:
        problem = errors.ElectionNotNeededError("Leader election not needed for topic partition.")
    return PartitionResult(partition_id=index, error_code=problem.code, error_message=str(problem))
