"""Producer ids: each is given once, out of blocks that the metadata keeps account of (KIP-98, KIP-730)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata


class ProducerIdManager:
    """The block of producer ids that this broker gives out."""

    __slots__ = ("_block", "_metadata")

    def __init__(self, metadata: ClusterMetadata):
        self._metadata = metadata
        self._block: Iterator[int] = iter(())

    def next(self) -> int:
        """Return a producer id that was never given before; every thousandth one costs a write to the metadata."""
        for id in self._block:
            return id
        self._block = iter(self._metadata.allocate_producer_ids())
        return next(self._block)
