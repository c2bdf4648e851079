"""The settings of share groups: a group's own, and the broker's behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.share.share_partition import ShareLimits
from barnabas.protocol.kinds import IsolationLevel

if TYPE_CHECKING:
    from barnabas.config.config import Config


class ShareGroupSettings:
    """Read each time: both the group's settings and the broker's may change while groups live."""

    __slots__ = ("_config", "_group_configs")

    def __init__(self, config: Config, group_configs: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._group_configs = group_configs

    @property
    def max_sessions(self) -> int:
        """How many share sessions there may be."""
        return self._config.get_int("group.share.max.share.sessions")

    def limits(self, group_id: str) -> ShareLimits:
        """Return what a group's share-partitions go by."""
        own = self._group_configs(group_id)

        def number(name: str) -> int:
            text = own.get(f"share.{name}")
            return self._config.get_int(f"group.share.{name}") if text is None else int(text)

        return ShareLimits(
            number("partition.max.record.locks"),
            number("delivery.count.limit"),
            number("record.lock.duration.ms") / 1000,
            own.get("share.renew.acknowledge.enable", "true").lower() == "true",
        )

    def isolation(self, group_id: str) -> IsolationLevel:
        """Return which records a group sees."""
        text = self._group_configs(group_id).get("share.isolation.level", "read_uncommitted")
        return IsolationLevel[text.upper()]

    def auto_offset_reset(self, group_id: str) -> str:
        """Return where a share-partition begins: earliest, latest or by_duration:PnDTnHnMn.nS."""
        return self._group_configs(group_id).get("share.auto.offset.reset", "latest")
