"""WriteTxnMarkers: ends transactions in single partitions; administrators send it for hanging ones (KIP-664).

Versions 1-2. v2 transaction version of the marker (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.transactions.marker import Marker
from barnabas.broker.transactions.partition_markers import PartitionMarkers
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest

API = 27
VERSIONS = (1, 2)
OPERATION = AclOperation.CLUSTER_ACTION
RESOURCE = ResourceType.CLUSTER

_SECOND_PROTOCOL = 2


def handle(broker: BrokerState, context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Each partition has its own result."""
    markers = PartitionMarkers(broker.replica_manager, lambda: broker.group_coordinator)
    return WriteTxnMarkersResponse(markers=[_one(markers, marker, context.now_ms) for marker in request.markers])


def _one(markers: PartitionMarkers, asked: WritableTxnMarker, now_ms: int) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[
                WritableTxnMarkerPartitionResult(index, _append(markers, _marker(asked, topic.name, index), now_ms))
                for index in topic.partition_indexes
            ],
        )
        for topic in asked.topics
    ]
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)


def _marker(asked: WritableTxnMarker, topic: str, index: int) -> Marker:
    return Marker(
        (topic, index),
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )


def _append(markers: PartitionMarkers, marker: Marker, now_ms: int) -> int:
    try:
        if marker.transaction_version >= _SECOND_PROTOCOL:
            markers.check_marker_epoch(marker.partition, marker.producer_id, marker.producer_epoch)
        markers.append(marker, now_ms)
    except (errors.CoordinatorLoadInProgressError, errors.NotCoordinatorError):
        return errors.NotLeaderOrFollowerError.code
    except errors.KafkaError as error:
        return error.code
    return 0
