"""Carries the changes of the cluster's metadata into the broker (BrokerMetadataPublisher)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.assigned_logs import LogBusyError
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.errors import NotLeaderOrFollowerError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.image_store import ImageStore
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.errors import KafkaError

#: When a role that could not be taken is tried again, in seconds.
_RETRY_AFTER = 0.1

Assigned = dict[TopicPartition, tuple[bytes, "PartitionRegistration"]]


class Roles(NamedTuple):
    """What has changed of the partitions that a broker has or had, and those that it is to delete."""

    changed: Assigned
    deleted: Collection[TopicPartition] = ()


class ImagePublisher:
    """Publishes one image after the other; a service of the dispatcher, for what has to be tried again.

    `on_published(old, new)` is called when the broker goes by the new image. `failed` are the partitions whose role
    could not be taken, with the reason.
    """

    def __init__(self, me: int, store: ImageStore, replica_manager: ReplicaManager) -> None:
        self._me = me
        self._store = store
        self._replicas = replica_manager
        self._retry_at = inf
        #: Partitions whose log can be opened now.
        self._ready: set[TopicPartition] = set()
        self._was_whole = False
        self.image = MetadataImage()
        #: The last image that everything here has gone by: another one is compared with that after a fault.
        self._published = self.image
        self.failed: dict[TopicPartition, KafkaError] = {}
        self.on_published: list[Callable[[MetadataImage, MetadataImage], None]] = []
        replica_manager.assigned_logs.on_ready = self._logs_are_ready

    @property
    def is_recovering(self) -> bool:
        """Whether a role waits for its log, which a crash has left to be read; a broken disk is not waited for.

        What is opened in a moment counts at the start only: a broker at work goes on with its other partitions.
        """
        ignored = LogBusyError if self._was_whole else ()
        problems = self.failed.values()
        return any(isinstance(found, NotLeaderOrFollowerError) and not isinstance(found, ignored) for found in problems)

    def publish(self, image: MetadataImage, now: Instant, roles: Roles | None = None) -> None:
        """Go by another image from now on; the broker's roles are in it, unless they are given."""
        # After a fault some parts go by the image before, and some by the one before that.
        before = [self._published] if self.image is self._published else [self._published, self.image]
        self.image = image
        changed, deleted = self._changed_since(before) if roles is None else roles
        self._replicas.apply_delta({}, deleted, now.now_ms)
        self._store.publish_image(image)
        for name in [*deleted, *changed]:
            self.failed.pop(name, None)
        self._take_roles(changed, now)
        if roles is None and not self._published.brokers:
            # What was moved away since the logs were opened has no change that tells of it.
            self._replicas.look_for_strays()
        for old in before:
            for listener in self.on_published:
                listener(old, image)
        self._published = image

    def _changed_since(self, before: Sequence[MetadataImage]) -> Roles:
        found = [changed_replicas(old, self.image, self._me) for old in before]
        changed = {name: role for roles in found for name, role in roles.changed.items()}
        return Roles(changed, [name for roles in found for name in roles.deleted if not self._is_another(name)])

    def _is_another(self, name: TopicPartition) -> bool:
        """Whether the replica of that name is of a topic that is there: a publishing that then failed has made it."""
        found = self._replicas.used_partition(*name)
        return found is not None and found.topic_id in self.image.topics

    def look_on(self, image: MetadataImage) -> None:
        """Have the broker tell what another image says, without a role of its own in it."""
        self._store.publish_image(image)

    def _take_roles(self, changed: Assigned, now: Instant) -> None:
        self.failed.update(self._replicas.apply_delta(changed, (), now.now_ms))
        self._retry_at = min(self._retry_at, now.now + _RETRY_AFTER) if self.failed else inf
        self._was_whole |= bool(self.image.topics) and not self.failed

    def _logs_are_ready(self, names: Collection[TopicPartition]) -> None:
        self._ready |= self.failed.keys() & names

    def next_deadline(self) -> float:
        """When roles that could not be taken are tried again."""
        return -inf if self._ready else self._retry_at

    def tick(self, instant: Instant) -> None:
        """Try again what has failed, with what holds now: those whose logs are ready, and now and then all others."""
        names, self._ready = self._ready & self.failed.keys(), set[TopicPartition]()
        if instant.now >= self._retry_at:
            self._retry_at = inf
            preparing = self._replicas.assigned_logs.is_preparing
            names |= {name for name in self.failed if not preparing(name)}
        for name in names:
            del self.failed[name]
        again: Assigned = {}
        for name in names:
            topic = self.image.topic(name.topic)
            registration = None if topic is None else topic.partitions.get(name.partition)
            if topic is not None and registration is not None:
                again[name] = topic.id, registration
        self._take_roles(again, instant)
        if not self.failed or again.keys() - self.failed.keys():
            # A coordinator is not to wait for the role of another partition, whose disk is broken.
            for listener in self.on_published:
                listener(self.image, self.image)


def changed_replicas(old: MetadataImage, new: MetadataImage, me: int) -> Roles:
    """Return what has changed of the partitions that a broker has or had, and those whose topics are gone."""
    changed: Assigned = {}
    deleted: list[TopicPartition] = []
    if old.topics is new.topics:
        return Roles(changed, deleted)
    for topic_id, topic in old.topics.items():
        if topic_id not in new.topics:
            mine = [index for index, registration in topic.partitions.items() if me in registration.replicas]
            deleted += [TopicPartition(topic.name, index) for index in mine]
    for topic_id, topic in new.topics.items():
        before = old.topics.get(topic_id)
        if before is topic:
            continue
        for index, registration in topic.partitions.items():
            known = None if before is None else before.partitions.get(index)
            if known is not registration and (
                me in registration.replicas or (known is not None and me in known.replicas)
            ):
                changed[TopicPartition(topic.name, index)] = topic_id, registration
    return Roles(changed, deleted)
