"""Coordinators follow the leaders of their topics' partitions: loaded when elected, unloaded when another leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.replica_manager import ReplicaManager


class ElectedCoordinator(Protocol):
    """What all coordinators have."""

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Serve a partition from a leader epoch on."""

    def on_resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Serve a partition no more; without an epoch it is deleted."""


class CoordinatorElections:
    """Tells the coordinators of this broker what it leads; `published` is called with each image that it goes by.

    A coordinator is made when it is first elected. It is elected only once the partition leads here, in whichever
    order its log and the metadata are there.
    """

    def __init__(
        self,
        me: int,
        replica_manager: ReplicaManager,
        coordinators: dict[str, Callable[[], ElectedCoordinator]],
    ) -> None:
        self._me = me
        self._replicas = replica_manager
        self._coordinators = coordinators
        self._elected: dict[str, dict[int, int]] = {topic: {} for topic in coordinators}

    def published(self, old: MetadataImage, new: MetadataImage) -> None:
        """Elect and resign, as the roles of the partitions are now."""
        for topic, make in self._coordinators.items():
            self._follow(topic, make, new)

    def _follow(self, topic: str, make: Callable[[], ElectedCoordinator], image: MetadataImage) -> None:
        found = image.topic(topic)
        partitions = {} if found is None else found.partitions
        elected = self._elected[topic]
        for index in [index for index in elected if index not in partitions]:
            make().on_resigned(index)
            del elected[index]
        for index, registration in partitions.items():
            epoch = registration.leader_epoch
            if registration.leader != self._me:
                if index in elected:
                    make().on_resigned(index, epoch)
                    del elected[index]
            elif elected.get(index, -1) < epoch and self._leads(topic, index, epoch):
                make().on_elected(index, epoch)
                elected[index] = epoch

    def _leads(self, topic: str, index: int, epoch: int) -> bool:
        partition = self._replicas.used_partition(topic, index)
        return partition is not None and partition.is_leader and partition.leader_epoch == epoch


def coordinators_of(
    groups: Callable[[], ElectedCoordinator],
    transactions: Callable[[], ElectedCoordinator],
    shares: Callable[[], ElectedCoordinator],
) -> dict[str, Callable[[], ElectedCoordinator]]:
    """Return who serves which topic."""
    return {GROUP_METADATA_TOPIC: groups, TRANSACTION_STATE_TOPIC: transactions, SHARE_GROUP_STATE_TOPIC: shares}
