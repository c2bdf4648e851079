"""What happened to groups since the broker was started, as its metrics tell it."""

from __future__ import annotations


class GroupCounts:
    """Plain counters, under the names of Kafka's GroupCoordinatorMetrics."""

    __slots__ = (
        "consumer_group_rebalance", "group_completed_rebalance", "offset_commit", "offset_deletion",
        "offset_expiration",
    )  # fmt: skip

    def __init__(self) -> None:
        self.offset_commit = 0
        self.offset_expiration = 0
        self.offset_deletion = 0
        #: Of groups of the classic protocol, when all members have their assignments.
        self.group_completed_rebalance = 0
        #: Group epochs that groups of the consumer protocol have begun.
        self.consumer_group_rebalance = 0
