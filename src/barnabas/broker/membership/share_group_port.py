"""What share groups ask other brokers of a cluster: states of share-partitions, and where partitions end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.membership.end_offsets import BrokerEndOffsets, EndOffsets
from barnabas.broker.membership.share_states import BrokerStates, ShareStates

if TYPE_CHECKING:
    from barnabas.broker.groups.share.offsets import EndOffset
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.node import BrokerNode
    from barnabas.network.node import Node

#: Gives a queue its way to a broker, under the name of a client.
Open = Callable[["BrokerStates | BrokerEndOffsets", str], None]


class ShareGroupPort:
    """The ways of share groups to other brokers, opened when they are first needed."""

    def __init__(
        self, me: int, image: Callable[[], MetadataImage], node: Callable[[int], Node | None], open_way: Open
    ) -> None:
        self._me = me
        self._image = image
        self._node = node
        self._open = open_way
        self._states: dict[tuple[int, int], BrokerStates] = {}
        self._ends: dict[int, BrokerEndOffsets] = {}
        self.states = ShareStates(me, image, self._states_of)

    def end_offsets(self, local: EndOffset) -> EndOffsets:
        """Return what tells where partitions end, wherever they are led; `local` is for this broker's."""
        return EndOffsets(self._me, local, self._image, self._ends_of)

    def _states_of(self, broker_id: int, lane: int) -> BrokerStates:
        found = self._states.get((broker_id, lane))
        if found is None:
            found = self._states[broker_id, lane] = BrokerStates(lambda: self._node(broker_id))
            self._open(found, "share-states")
        return found

    def _ends_of(self, broker_id: int) -> BrokerEndOffsets:
        found = self._ends.get(broker_id)
        if found is None:
            found = self._ends[broker_id] = BrokerEndOffsets(lambda: self._node(broker_id))
            self._open(found, "end-offsets")
        return found


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
