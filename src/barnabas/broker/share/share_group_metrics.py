"""What is counted of share-partitions while they are served (ShareGroupMetrics, SharePartitionMetrics)."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from barnabas.broker.share.latencies import Latencies
from barnabas.protocol.kinds import AcknowledgementKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.share.share_partition import Acknowledgement

#: So many groups have numbers of their own.
MOST_GROUPS = 1000


class ShareGroupMetrics:
    """Plain numbers; `clock` gives monotonic seconds."""

    __slots__ = ("acknowledged", "clock", "failed", "loads", "requests", "shares", "waits")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        #: Records by type of acknowledgement.
        self.acknowledged: Counter[int] = Counter()
        self.loads = Latencies()
        #: By group, of each fetch: which share of its partitions could be acquired from, in percent, and how many
        #: seconds it took until there was one.
        self.shares: defaultdict[str, Latencies] = defaultdict(Latencies)
        self.waits: defaultdict[str, Latencies] = defaultdict(Latencies)
        #: Topic's name and API → how often a request asked for a partition of it, and how often that failed.
        self.requests: Counter[tuple[str, int]] = Counter()
        self.failed: Counter[tuple[str, int]] = Counter()

    def count_acknowledged(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Count what a member has said of records."""
        for first, last, types in acknowledgements:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)

    def count_fetch(self, group_id: str, percent: int, seconds: float, now: float) -> None:
        """Count a fetch that is answered at `now`; of many groups the first ones are forgotten."""
        self.shares[group_id].record(percent, now)
        self.waits[group_id].record(seconds, now)
        if len(self.shares) > MOST_GROUPS:
            first = next(iter(self.shares))
            del self.shares[first], self.waits[first]

    def count_load(self, began: float) -> None:
        """Count a share-partition that was asked for at `began` and is loaded now."""
        now = self.clock()
        self.loads.record(now - began, now)


#: As Kafka labels them.
ACKNOWLEDGEMENT_NAMES = {
    AcknowledgementKind.ACCEPT: "accept",
    AcknowledgementKind.RELEASE: "release",
    AcknowledgementKind.REJECT: "reject",
    AcknowledgementKind.RENEW: "renew",
}
