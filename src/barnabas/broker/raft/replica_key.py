"""A replica of the quorum's log: the node, and the directory that its log lives in (ReplicaKey, KIP-853)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.message import ZERO_UUID


class ReplicaKey(NamedTuple):
    """A node's id and its directory's; the zero uuid where the directory is not known, as for `kraft.version` 0."""

    id: int
    directory_id: bytes = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Say whether `other` is this replica; any directory will do while this one's is not known."""
        return self.id == other.id and self.directory_id in (ZERO_UUID, other.directory_id)
