"""Where a replica's log ends, as brokers tell controllers of ours in their heartbeats (KIP-966's replica log info).

Kafka 4.3 has no message for it. It goes in a tagged field of BrokerHeartbeat that the schema lacks; controllers of
Apache Kafka pass over tagged fields that they do not know.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest

#: Far from the tags that Kafka gives out one after the other.
_TAG = 0x6261726E
_ROW = Struct(">16siiiq")


class ReplicaLogEnd(NamedTuple):
    """The end of one replica's log while its partition has no leader.

    `leader_epoch` is the partition's, as the broker goes by it: nothing was appended since. `last_epoch` is the leader
    epoch of the last record, -1 without one.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int
    last_epoch: int
    end_offset: int


def tell(request: BrokerHeartbeatRequest, ends: Iterable[ReplicaLogEnd]) -> None:
    """Put the ends of logs into a heartbeat; none at all tells that this broker would."""
    request.unknown_tagged_fields = {_TAG: b"".join(_ROW.pack(*end) for end in ends)}


def told(request: BrokerHeartbeatRequest) -> list[ReplicaLogEnd] | None:
    """Return what a heartbeat tells; None where its broker does not tell, as Apache Kafka's."""
    data = (request.unknown_tagged_fields or {}).get(_TAG)
    if data is None or len(data) % _ROW.size:
        return None
    return [ReplicaLogEnd(*row) for row in _ROW.iter_unpack(data)]
