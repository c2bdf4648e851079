"""AddOffsetsToTxn: the transaction is going to commit offsets of a group (KIP-98).

Versions 0-4. v1 throttled after the response (KIP-219). v2 PRODUCER_FENCED (KIP-588). v3 flexible. v4
TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.broker.transactions.fencing import fenced_code
from barnabas.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest

API = 25
VERSIONS = (0, 4)

_FIRST_PROTOCOL = 0


def handle(broker: BrokerState, context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the partition of `__consumer_offsets` that holds the group."""
    try:
        groups = broker.group_coordinator
        groups.ensure_topic(context.now_ms)
        broker.transaction_coordinator.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset([(GROUP_METADATA_TOPIC, groups.partition_for(request.group_id))]),
            context.instant,
            version=_FIRST_PROTOCOL,
        )
    except errors.ProducerFencedError:
        return AddOffsetsToTxnResponse(error_code=fenced_code(API, context.api_version))
    except errors.KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    return AddOffsetsToTxnResponse()
