"""Partitions by what the controller looks for: the brokers in ISR and ELR, directories, leaders (BrokersToIsrs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.metadata.cluster_metadata import folded
from barnabas.broker.metadata.partition_registration import NO_LEADER, is_reserved_directory

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from barnabas.broker.metadata.metadata_image import MetadataImage, TopicImage
    from barnabas.broker.metadata.partition_registration import PartitionRegistration


class TopicIdPartition(NamedTuple):
    """A partition of a topic that is named by its id."""

    topic_id: bytes
    partition: int


class _Groups:
    """Partitions under keys, each in the order in which it came there."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, dict[TopicIdPartition, None]] = {}

    def change(self, whose: TopicIdPartition, old: Iterable[Hashable], new: Iterable[Hashable]) -> None:
        before, after = set(old), set(new)
        for key in before - after:
            group = self._groups[key]
            del group[whose]
            if not group:
                del self._groups[key]
        for key in after - before:
            self._groups.setdefault(key, {})[whose] = None

    def __getitem__(self, key: Hashable) -> list[TopicIdPartition]:
        return sorted(self._groups.get(key, ()))

    def __contains__(self, key: object) -> bool:
        return key in self._groups


_ALL = "all"


class PartitionIndexes:
    """Follows the image of the controller, change by change; `of(image)` makes it anew.

    It exists only while this controller is active, and holds nothing that is not in the image.
    """

    def __init__(self) -> None:
        self._in_isr = _Groups()
        self._in_elr = _Groups()
        self._led_by = _Groups()
        self._in_directory = _Groups()
        self._imbalanced = _Groups()
        self._folded_names: dict[str, set[str]] = {}

    @classmethod
    def of(cls, image: MetadataImage) -> PartitionIndexes:
        """Return the indexes of a whole image."""
        made = cls()
        for topic in image.topics.values():
            made.change(None, topic)
        return made

    def change(self, old: TopicImage | None, new: TopicImage | None) -> None:
        """Take in that a topic is another now; None: it is not there."""
        if (old is None) != (new is None):
            self._name(old, new)
        found = new or old
        assert found is not None
        before: Mapping[int, PartitionRegistration] = old.partitions if old is not None else {}
        after: Mapping[int, PartitionRegistration] = new.partitions if new is not None else {}
        for index in {**before, **after}:
            one, other = before.get(index), after.get(index)
            if one is not other:
                self._partition(TopicIdPartition(found.id, index), one, other)

    def _name(self, old: TopicImage | None, new: TopicImage | None) -> None:
        if new is not None:
            self._folded_names.setdefault(folded(new.name), set()).add(new.name)
        elif old is not None:
            names = self._folded_names[folded(old.name)]
            names.discard(old.name)
            if not names:
                del self._folded_names[folded(old.name)]

    def _partition(
        self, whose: TopicIdPartition, old: PartitionRegistration | None, new: PartitionRegistration | None
    ) -> None:
        self._in_isr.change(whose, old.isr if old else (), new.isr if new else ())
        self._in_elr.change(whose, old.elr if old else (), new.elr if new else ())
        self._led_by.change(whose, (old.leader,) if old else (), (new.leader,) if new else ())
        self._in_directory.change(whose, _directories(old), _directories(new))
        self._imbalanced.change(
            whose,
            (_ALL,) if old and not old.has_preferred_leader else (),
            (_ALL,) if new and not new.has_preferred_leader else (),
        )

    def with_broker_in_isr(self, broker_id: int) -> list[TopicIdPartition]:
        """Return the partitions whose ISR has the broker."""
        return self._in_isr[broker_id]

    def with_broker_in_elr(self, broker_id: int) -> list[TopicIdPartition]:
        """Return the partitions whose ELR has the broker."""
        return self._in_elr[broker_id]

    def without_leader(self) -> list[TopicIdPartition]:
        """Return the partitions without a leader."""
        return self._led_by[NO_LEADER]

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether the broker leads any partition."""
        return broker_id in self._led_by

    def in_directory(self, directory: bytes) -> list[TopicIdPartition]:
        """Return the partitions with a replica in a directory."""
        return self._in_directory[directory]

    def imbalanced(self) -> list[TopicIdPartition]:
        """Return the partitions that are not led by their first replica."""
        return self._imbalanced[_ALL]

    def colliding(self, name: str) -> str | None:
        """Return a topic whose name is the same for metrics."""
        return min(self._folded_names.get(folded(name), ()), default=None)


def _directories(partition: PartitionRegistration | None) -> list[bytes]:
    if partition is None:
        return []
    return [found for found in partition.directories if not is_reserved_directory(found)]
