"""Who leads partitions now, in the responses of a broker that does not (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas import errors

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
    from barnabas.protocol.messages.share_fetch_response import ShareFetchResponse

_MOVED = (errors.NotLeaderOrFollowerError.code, errors.FencedLeaderEpochError.code)


def add_current_leaders(
    broker: BrokerState,
    listener: str,
    response: ShareFetchResponse | ShareAcknowledgeResponse,
    node_endpoint: type[Any],
) -> None:
    """Say where the partitions are led whose result is that it is not here, as far as this broker knows."""
    endpoints: dict[int, Any] = {}
    for topic in response.responses:
        for result in topic.partitions:
            if result.error_code not in _MOVED:
                continue
            known = broker.metadata.topic_by_id(topic.topic_id)
            result.current_leader.leader_id = result.current_leader.leader_epoch = -1
            views = () if known is None else broker.view.partitions(known.name, listener, result.partition_index, 1)
            for view in views:
                result.current_leader.leader_id = view.leader
                result.current_leader.leader_epoch = view.leader_epoch
                node = broker.view.broker(view.leader, listener)
                if node is not None:
                    endpoints[node.id] = node_endpoint(node.id, node.host, node.port, node.rack)
    response.node_endpoints = list(endpoints.values())
