"""Tells the controller in which data directory each replica of this broker lies (AssignmentsManager, KIP-858).

When a directory fails the controller moves the leaderships of the replicas there, so it has to know them. Where a
broker has one directory the controller assigns that one itself, and is told of another one that took its place: it lets
no replica lead whose directory it takes for lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.membership.broker_metadata_publisher import changed_replicas
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.metadata.metadata_version import METADATA_VERSION, MetadataVersion
from barnabas.broker.metadata.partition_registration import MIGRATING_DIRECTORY
from barnabas.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from barnabas.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.protocol.message import Message

#: So many are told in one request, as Apache Kafka does.
MOST_ASSIGNMENTS: Final = 2250


class DirectoryAssignments:
    """Compares where replicas lie with what the metadata say, and tells the controller what differs.

    `directory_of(name)` gives the id of the directory in service that has a replica, None if none has; with `has_one`
    it is always the same, and what was never assigned need not be. One request is in flight; what fails is told again
    with the next change of the partition.
    """

    def __init__(
        self,
        me: int,
        broker_epoch: Callable[[], int],
        requests: ControllerRequests,
        directory_of: Callable[[TopicPartition], bytes | None],
        *,
        has_one: bool,
    ) -> None:
        self._me = me
        self._broker_epoch = broker_epoch
        self._requests = requests
        self._directory_of = directory_of
        self._has_one = has_one
        self._unsent: dict[tuple[bytes, int], bytes] = {}
        self._sent: dict[tuple[bytes, int], bytes] = {}
        self._is_queued = False
        #: Replicas that lay nowhere when they were looked at: their log was not made, or not read yet.
        self._unplaced: set[TopicPartition] = set()

    def published(self, old: MetadataImage, new: MetadataImage) -> None:
        """Look at the replicas that have changed, and those that had no place."""
        if not MetadataVersion(new.features.get(METADATA_VERSION, 0)).is_directory_assignment_supported:
            return
        unplaced, self._unplaced = self._unplaced, set()
        changed = changed_replicas(old, new, self._me).changed
        for name, (topic_id, registration) in changed.items():
            self.check(name, topic_id, registration)
        for name in unplaced - changed.keys():
            topic = new.topic(name.topic)
            if topic is not None and name.partition in topic.partitions:
                self.check(name, topic.id, topic.partitions[name.partition])

    def check(self, name: TopicPartition, topic_id: bytes, registration: PartitionRegistration) -> None:
        """Tell the controller where a replica lies if it does not know that."""
        if self._me not in registration.replicas or not registration.directories:
            return
        directory = self._directory_of(name)
        known = registration.directory(self._me)
        if directory is None:
            self._unplaced.add(name)
        elif known != directory and not (self._has_one and known == MIGRATING_DIRECTORY):
            self._tell((topic_id, name.partition), directory)

    def is_known(self, name: TopicPartition, topic_id: bytes, registration: PartitionRegistration) -> bool:
        """Whether the controller knows where a replica lies, or is to lie; it is told if it does not."""
        self.check(name, topic_id, registration)
        known = registration.directory(self._me)
        return known in (MIGRATING_DIRECTORY, self._directory_of(name))

    def _tell(self, key: tuple[bytes, int], directory: bytes) -> None:
        if self._unsent.get(key, self._sent.get(key)) != directory:
            self._unsent[key] = directory
            self._queue()

    def _queue(self) -> None:
        if not self._is_queued and (self._unsent or self._sent):
            self._requests.submit(ControllerRequest(self._make, self._answered, give_up=self._queue_again))
            self._is_queued = True

    def _queue_again(self) -> None:
        self._is_queued = False
        self._queue()

    def _make(self) -> AssignReplicasToDirsRequest:
        while self._unsent and len(self._sent) < MOST_ASSIGNMENTS:
            key = next(iter(self._unsent))
            self._sent[key] = self._unsent.pop(key)
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory in self._sent.items():
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._me,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=n) for n in indexes])
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory, topics in directories.items()
            ],
        )

    def _answered(self, response: Message, now: Instant) -> None:
        if isinstance(response, AssignReplicasToDirsResponse) and not response.error_code:
            # What was refused for a partition is of a topic that is gone, or was moved on.
            self._sent = {}
        self._queue_again()
