"""What a broker does about topics that are gone, and partitions that others lead, once the metadata say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.node import BrokerNode


class GoneTopics:
    """Tells this broker's coordinators of topics that are gone, and its share-partitions of leaders that moved."""

    def __init__(self, node: BrokerNode, instant: Callable[[], Instant]) -> None:
        self._broker = node
        self._instant = instant

    def published(self, old: MetadataImage, new: MetadataImage) -> None:
        """Look at what has changed."""
        if old.topics is new.topics:
            return
        groups, shares = self._broker.loaded_groups, self._broker.loaded_shares
        led = self._broker.loaded_share_partitions
        if led is not None:
            led.drop_not_led()
        for topic_id, topic in old.topics.items():
            if topic_id in new.topics:
                continue
            if groups is not None:
                groups.on_topic_deleted(topic.name, self._instant())
            if shares is not None:
                shares.on_topic_deleted(topic_id, self._instant())
