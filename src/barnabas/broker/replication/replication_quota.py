"""Throttled replication: how much of some partitions is sent to, or fetched by, replicas that are not in sync (KIP-73).

The rate is a dynamic setting of the broker (`leader.replication.throttled.rate`, `follower.replication.throttled.rate`,
bytes a second); which replicas it is for is a setting of each topic (`leader.replication.throttled.replicas` and the
follower's: `*`, or `partition:broker,...`). Replicas in sync are never held back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from barnabas.broker.client_quota_manager import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEADER, FOLLOWER = "leader", "follower"
ALL: Final = "*"
_REPLICAS = {LEADER: "leader.replication.throttled.replicas", FOLLOWER: "follower.replication.throttled.replicas"}


class ReplicationQuota:
    """What a broker may send as a leader, or fetch as a follower, of the partitions that are throttled there.

    `kind` is `LEADER` or `FOLLOWER`; `configs_of(topic)` gives what a topic sets; `windows` of `seconds` are measured.
    `limit` is in bytes a second, None where there is none.
    """

    __slots__ = ("_configs_of", "_kind", "_me", "_rate", "limit")

    def __init__(
        self, kind: str, me: int, configs_of: Callable[[str], Mapping[str, str]], windows: int, seconds: float
    ) -> None:
        self._kind = kind
        self._me = me
        self._configs_of = configs_of
        self._rate = Rate(windows, seconds)
        self.limit: float | None = None

    def take_settings(self, configs: Mapping[str, str]) -> None:
        """Take over the limit from the settings of the broker; one that is no number counts as none."""
        text = configs.get(f"{self._kind}.replication.throttled.rate", "")
        self.limit = float(text) if text.isdecimal() else None

    def is_throttled(self, topic: str, index: int) -> bool:
        """Whether the replica of this broker is one of those that are throttled."""
        text = self._configs_of(topic).get(_REPLICAS[self._kind], "")
        return text == ALL or (bool(text) and index in _partitions_of(text, self._me))

    def is_exceeded(self, now: float) -> bool:
        """Whether more was used than the limit allows."""
        return self.limit is not None and self._rate.throttle(max(self.limit, 1.0), now) > 0

    def record(self, size: int, now: float) -> None:
        """Count bytes of throttled replicas."""
        self._rate.record(size, now)


@lru_cache(maxsize=256)
def _partitions_of(text: str, me: int) -> frozenset[int]:
    """Return the partitions of a list `partition:broker,...` that name this broker."""
    pairs = [entry.partition(":") for entry in text.split(",")]
    return frozenset(
        int(index) for index, _, broker in pairs if index.strip().isdecimal() and broker.strip() == str(me)
    )
