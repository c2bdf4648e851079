"""What share groups ask other brokers of a cluster: states of share-partitions, and where partitions end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.membership.end_offsets import BrokerEndOffsets, EndOffsets
from barnabas.broker.membership.share_states import BrokerStates, ShareStates

if TYPE_CHECKING:
    from barnabas.broker.groups.share.offsets import EndOffset
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.share.state_operation import Answer, StateOperation
    from barnabas.network.node import Node

#: Gives a queue its way to a broker, under the name of a client.
Open = Callable[["BrokerStates | BrokerEndOffsets", str], None]


class ShareGroupChannels:
    """The `ShareGroupPort` of a member: its ways to other brokers, opened when they are first needed."""

    def __init__(
        self, me: int, image: Callable[[], MetadataImage], node: Callable[[int], Node | None], open_way: Open
    ) -> None:
        self._me = me
        self._image = image
        self._node = node
        self._open = open_way
        self._states: dict[tuple[int, int], BrokerStates] = {}
        self._ends: dict[int, BrokerEndOffsets] = {}
        self._asked = ShareStates(me, image, self._states_of)

    def ask(self, operation: StateOperation, tell: Callable[[Answer], None]) -> bool:
        """Ask the broker that coordinates a share-partition; False: that is this one.

        Raises CoordinatorNotAvailableError.
        """
        return self._asked.ask(operation, tell)

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
