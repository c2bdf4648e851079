"""The topic in which controllers keep a cluster's metadata (KIP-595)."""

from __future__ import annotations

from typing import Final

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
CLUSTER_METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
