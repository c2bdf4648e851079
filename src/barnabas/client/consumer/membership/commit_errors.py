"""What is said of commits that cannot be made."""

from __future__ import annotations

from typing import Final

COMMIT_FAILED: Final = (
    "The offsets were not committed: this consumer is no longer part of the group, which has given its partitions to "
    "others. Usually poll() was not called for max.poll.interval.ms: raise that, or lower max.poll.records"
)
REBALANCING: Final = (
    "The offsets were not committed: the group is rebalancing. Call poll() to complete the rebalance, then commit again"
)
NOT_A_MEMBER: Final = (
    "The offsets were not committed: this consumer is not part of its group; it was put out of it, or has not joined "
    "it yet (poll() does that)"
)
