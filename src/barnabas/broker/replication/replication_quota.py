"""Throttled replication: how much of some partitions is sent to, or fetched by, replicas that are not in sync (KIP-73).

The rate is a dynamic setting of the broker (`leader.replication.throttled.rate`, `follower.replication.throttled.rate`,
bytes a second); which replicas it is for is a setting of each topic (`leader.replication.throttled.replicas` and the
follower's: `*`, or `partition:broker,...`). Replicas in sync are never held back.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEADER, FOLLOWER = "leader", "follower"
RATES = {LEADER: "leader.replication.throttled.rate", FOLLOWER: "follower.replication.throttled.rate"}
ALTER_LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
ALL: Final = "*"
_REPLICAS = {LEADER: "leader.replication.throttled.replicas", FOLLOWER: "follower.replication.throttled.replicas"}


class Throttle:
    """How many bytes may be copied at a rate, `setting` of the broker, in bytes a second (Kafka's ReplicationQuota).

    `limit` is None where there is none. What was not used is kept for `windows` of `seconds`, all but one, as Apache
    Kafka measures. What was used too much, because a batch is never cut, is owed until the rate has paid it.
    """

    __slots__ = ("_at", "_kept_for", "_left", "_setting", "limit")

    def __init__(self, setting: str, windows: int, seconds: float) -> None:
        self._setting = setting
        self._kept_for = max(1, windows - 1) * seconds
        self._left = inf
        self._at = 0.0
        self.limit: float | None = None

    def take_settings(self, configs: Mapping[str, str]) -> None:
        """Take over the limit from the settings of the broker; one that is no number counts as none."""
        text = configs.get(self._setting, "")
        self.limit = float(text) if text.isdecimal() else None
        if self.limit is None:
            self._left = inf

    def left(self, now: float) -> float:
        """Return how many bytes may be copied at once: infinite without a limit, negative while bytes are owed."""
        if self.limit is None:
            return inf
        rate = max(self.limit, 1.0)
        self._left = min(self._left + max(0.0, now - self._at) * rate, self._kept_for * rate)
        self._at = now
        return self._left

    def is_exceeded(self, now: float) -> bool:
        """Whether more was used than the limit allows."""
        return self.left(now) < 0

    def record(self, size: int, now: float) -> None:
        """Count bytes that were copied."""
        self._left = self.left(now) - size


class ReplicationQuota(Throttle):
    """What a broker may send as a leader, or fetch as a follower, of the partitions that are throttled there.

    `kind` is `LEADER` or `FOLLOWER`; `configs_of(topic)` gives what a topic sets.
    """

    __slots__ = ("_configs_of", "_kind", "_me")

    def __init__(
        self, kind: str, me: int, configs_of: Callable[[str], Mapping[str, str]], windows: int, seconds: float
    ) -> None:
        super().__init__(RATES[kind], windows, seconds)
        self._kind = kind
        self._me = me
        self._configs_of = configs_of

    def is_throttled(self, topic: str, index: int) -> bool:
        """Whether the replica of this broker is one of those that are throttled."""
        text = self._configs_of(topic).get(_REPLICAS[self._kind], "")
        return text == ALL or (bool(text) and index in _partitions_of(text, self._me))


@lru_cache(maxsize=256)
def _partitions_of(text: str, me: int) -> frozenset[int]:
    """Return the partitions of a list `partition:broker,...` that name this broker."""
    pairs = [entry.partition(":") for entry in text.split(",")]
    return frozenset(
        int(index) for index, _, broker in pairs if index.strip().isdecimal() and broker.strip() == str(me)
    )
