"""What a producer is told that another one has replaced (KIP-588)."""

from __future__ import annotations

from barnabas.errors import InvalidProducerEpochError, ProducerFencedError

#: API key (InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn) → its first version in which clients know
#: PRODUCER_FENCED.
_KNOWN_FROM = {22: 4, 24: 2, 25: 2, 26: 2}


def fenced_code(api_key: int, version: int) -> int:
    """Return PRODUCER_FENCED, or INVALID_PRODUCER_EPOCH in a version that does not know it."""
    return (ProducerFencedError if version >= _KNOWN_FROM[api_key] else InvalidProducerEpochError).code
