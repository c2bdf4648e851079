"""The brokers of the cluster and who has which partition, as clients are told (KRaftMetadataCache)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.metadata.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.protocol.epochs import INITIAL_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from barnabas.broker.metadata.metadata_image import BrokerRegistration, MetadataImage

#: A partition that never had a leader, of which a controller under ZooKeeper tells nothing.
_WITHOUT_LEADER = PartitionRegistration((), (), NO_LEADER, -1, -1)


class BrokerAddress(NamedTuple):
    """A broker, and where clients of one listener reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class PartitionView(NamedTuple):
    """A partition as clients see it; `leader` is -1 where none can be reached."""

    number: int
    leader: int
    leader_epoch: int
    replicas: Collection[int]
    isr: Collection[int]
    offline: Collection[int]
    elr: Collection[int] = ()
    last_known_elr: Collection[int] = ()


class ClusterView(Protocol):
    """What Metadata, DescribeCluster, DescribeTopicPartitions and FindCoordinator tell."""

    @property
    def controller_id(self) -> int:
        """To whom clients send what is for the controller; -1 for none."""

    def brokers(self, listener: str, *, fenced: bool = False) -> list[BrokerAddress]:
        """Return the brokers that are alive and have the listener, in order; with `fenced` the fenced ones too."""

    def broker(self, broker_id: int, listener: str) -> BrokerAddress | None:
        """Return one broker that is alive and has the listener."""

    def partitions(self, topic: str, listener: str, first: int = 0, count: int = -1) -> Iterator[PartitionView]:
        """Give the partitions of a topic that is there, from one on."""


class SoleBroker:
    """A cluster of one: `count(topic)` is how many partitions there are, `offline(topic)` which cannot be served."""

    def __init__(
        self,
        me: int,
        rack: str | None,
        advertised: Mapping[str, tuple[str, int]],
        count: Callable[[str], int],
        offline: Callable[[str], Collection[int]],
    ) -> None:
        self._me = me
        self._rack = rack
        self._advertised = advertised
        self._count = count
        self._offline = offline

    @property
    def controller_id(self) -> int:
        """See `ClusterView`."""
        return self._me

    def brokers(self, listener: str, *, fenced: bool = False) -> list[BrokerAddress]:
        """See `ClusterView`."""
        return [BrokerAddress(self._me, *self._advertised[listener], self._rack)]

    def broker(self, broker_id: int, listener: str) -> BrokerAddress | None:
        """See `ClusterView`."""
        return self.brokers(listener)[0] if broker_id == self._me else None

    def partitions(self, topic: str, listener: str, first: int = 0, count: int = -1) -> Iterator[PartitionView]:
        """See `ClusterView`."""
        mine, offline, total = [self._me], self._offline(topic), self._count(topic)
        for index in range(first, total if count < 0 else min(total, first + count)):
            if index in offline:
                yield PartitionView(index, NO_LEADER, INITIAL_LEADER_EPOCH, mine, mine, mine)
            else:
                yield PartitionView(index, self._me, INITIAL_LEADER_EPOCH, mine, mine, ())


class ImageView:
    """A cluster as its newest metadata image has it; `controller_id()` is None where any broker forwards."""

    def __init__(
        self, image: Callable[[], MetadataImage], controller_id: Callable[[], int | None] = lambda: None
    ) -> None:
        self._image = image
        self._controller_id = controller_id

    @property
    def controller_id(self) -> int:
        """See `ClusterView`: where any broker forwards it is the first that is alive."""
        known = self._controller_id()
        if known is not None:
            return known
        return min((found.id for found in self._image().brokers.values() if found.is_alive), default=NO_LEADER)

    def brokers(self, listener: str, *, fenced: bool = False) -> list[BrokerAddress]:
        """See `ClusterView`."""
        found = sorted(self._image().brokers.items())
        nodes = [_node(broker, listener) for _, broker in found if broker.is_alive or fenced]
        return [node for node in nodes if node is not None]

    def broker(self, broker_id: int, listener: str) -> BrokerAddress | None:
        """See `ClusterView`."""
        found = self._image().brokers.get(broker_id)
        return _node(found, listener) if found is not None and found.is_alive else None

    def partitions(self, topic: str, listener: str, first: int = 0, count: int = -1) -> Iterator[PartitionView]:
        """See `ClusterView`."""
        image = self._image()
        found = image.topic(topic)
        if found is None:
            return
        alive = {node.id for node in self.brokers(listener)}
        total = found.partition_count
        for index in range(first, total if count < 0 else min(total, first + count)):
            yield _view(index, found.partitions.get(index, _WITHOUT_LEADER), alive)


def _view(index: int, found: PartitionRegistration, alive: Collection[int]) -> PartitionView:
    leader = found.leader if found.leader in alive else NO_LEADER
    offline = [replica for replica in found.replicas if replica not in alive]
    return PartitionView(
        index, leader, found.leader_epoch, found.replicas, found.isr, offline, found.elr, found.last_known_elr
    )


def _node(broker: BrokerRegistration, listener: str) -> BrokerAddress | None:
    endpoint = broker.listeners.get(listener)
    if endpoint is None:
        return None
    return BrokerAddress(broker.id, endpoint.host, endpoint.port, broker.rack, broker.fenced)
