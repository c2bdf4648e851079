"""ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455): none, with one broker.

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

API = 46
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List only partitions in reassignment, of which there are none; unknown ones are left out, as in Apache Kafka."""
    return ListPartitionReassignmentsResponse(error_message=None)
