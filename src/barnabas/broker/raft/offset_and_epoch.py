"""Positions in the log of the quorum, and who leads it (OffsetAndEpoch, LeaderAndEpoch)."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndEpoch(NamedTuple):
    """The end of a log or snapshot: the first offset that is not in it, and the epoch of the last record that is."""

    offset: int
    epoch: int

    def is_at_least(self, other: OffsetAndEpoch) -> bool:
        """Say whether this log has all that `other` may have committed: a later epoch, or the same and as long."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class LeaderAndEpoch(NamedTuple):
    """Who leads in an epoch; `leader_id` is None while that is not known."""

    leader_id: int | None
    epoch: int

    def is_leader(self, node_id: int) -> bool:
        """Say whether this node leads."""
        return self.leader_id == node_id
