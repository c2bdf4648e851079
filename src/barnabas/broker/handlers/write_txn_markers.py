"""WriteTxnMarkers: ends transactions in single partitions; administrators send it for hanging ones (KIP-664).

Versions 1-2. v2 transaction version of the marker (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log_opening import when_open
from barnabas.broker.piecewise import Pieces, PiecewiseResponse
from barnabas.broker.transactions.marker import Marker
from barnabas.broker.transactions.partition_markers import PartitionMarkers
from barnabas.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.partition import Partition
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest

API = 27
VERSIONS = (1, 2)

_SECOND_PROTOCOL = 2


#: What coordinators of Apache Kafka know as an answer: any other error they take for a fault of theirs, and send the
#: marker no more (TransactionMarkerRequestCompletionHandler).
_UNDERSTOOD = frozenset(
    error.code
    for error in (
        errors.UnknownTopicOrPartitionError,
        errors.NotLeaderOrFollowerError,
        errors.NotEnoughReplicasError,
        errors.NotEnoughReplicasAfterAppendError,
        errors.KafkaTimeoutError,
        errors.KafkaStorageError,
        errors.InvalidProducerEpochError,
        errors.TransactionCoordinatorFencedError,
    )
)
#: Appends that are made before others are served.
_APPENDS_AT_ONCE = 20


def handle(
    broker: BrokerState, context: RequestContext, request: WriteTxnMarkersRequest
) -> Message | PiecewiseResponse:
    """Each partition of a marker has its own result, once."""
    markers = PartitionMarkers(broker.replica_manager, lambda: broker.group_coordinator)
    names = (
        (topic.name, index) for asked in request.markers for topic in asked.topics for index in topic.partition_indexes
    )
    return when_open(
        broker, names, lambda: broker.large_responses.answer(_append_all(markers, request, context.now_ms))
    )


def _append_all(markers: PartitionMarkers, request: WriteTxnMarkersRequest, now_ms: int) -> Pieces:
    results = []
    appends = 0
    written: list[tuple[WritableTxnMarkerPartitionResult, Partition, int]] = []
    for asked in request.markers:
        result = WritableTxnMarkerResult(producer_id=asked.producer_id)
        for topic in asked.topics:
            partitions = []
            for index in dict.fromkeys(topic.partition_indexes):
                code = _append(markers, _marker(asked, topic.name, index), now_ms)
                partitions.append(WritableTxnMarkerPartitionResult(index, code))
                partition = markers.partition(topic.name, index) if not code else None
                if partition is not None:
                    written.append((partitions[-1], partition, partition.leaderships))
                appends += 1
                if appends % _APPENDS_AT_ONCE == 0:
                    yield None
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
        results.append(result)
    for told, partition, leaderships in written:
        # Between two pieces another broker may have come to lead it, which has no marker.
        if not partition.is_leader or partition.leaderships != leaderships:
            told.error_code = errors.NotLeaderOrFollowerError.code
    return WriteTxnMarkersResponse(markers=results)


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
    except errors.KafkaError as error:
        return error.code if error.code in _UNDERSTOOD else errors.NotLeaderOrFollowerError.code
    return 0
