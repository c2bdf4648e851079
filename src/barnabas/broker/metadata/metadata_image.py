"""A cluster's metadata at one offset of its metadata log, immutable (MetadataImage)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.metadata.partition_registration import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
)

if TYPE_CHECKING:
    from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
    from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
    from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

#: Entity type → name, None for the default of that type.
QuotaEntity = frozenset[tuple[str, str | None]]
#: The kind and name of what has settings (ConfigResource).
Resource = tuple[int, str]


class Endpoint(NamedTuple):
    """Where one listener of a node is reached; `security_protocol` is Kafka's number (0: PLAINTEXT)."""

    host: str
    port: int
    security_protocol: int = 0


class BrokerRegistration(NamedTuple):
    """A broker as the controller knows it; `epoch` is that of its present life.

    `cordoned_directories` is None until the broker has told of them.
    """

    id: int
    epoch: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether clients are sent there."""
        return not self.fenced

    @property
    def is_active(self) -> bool:
        """Whether partitions may be led there."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_directory(self, directory: bytes) -> bool:
        """Whether a replica in that directory can be read; a broker that named none is believed (KAFKA-16162)."""
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        if directory == LOST_DIRECTORY:
            return False
        return not self.directories or directory in self.directories

    @property
    def has_open_directory(self) -> bool:
        """Whether new replicas may be placed there (KIP-1066)."""
        cordoned = self.cordoned_directories
        return not self.directories or cordoned is None or bool(set(self.directories) - set(cordoned))

    @property
    def default_directory(self) -> bytes:
        """Where a new replica lies, as far as that is known before the broker says so (KIP-858)."""
        if not self.directories:
            return MIGRATING_DIRECTORY
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED_DIRECTORY


class ControllerRegistration(NamedTuple):
    """A controller as it has registered."""

    id: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]] = {}


class TopicImage(NamedTuple):
    """One topic with its partitions by number; under ZooKeeper one that never had a leader may be missing."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionRegistration]

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, those that are missing here included."""
        count = len(self.partitions)
        return count if not count or count - 1 in self.partitions else max(self.partitions) + 1


class MetadataImage(NamedTuple):
    """All that the records up to and with `offset`, written in the controllers' `epoch`, say.

    Nothing in it is ever changed: `MetadataDelta` makes another image, which shares with this one all that is the same,
    so that two images are compared by identity, part by part. `next_producer_id` is the first that no broker has.
    """

    offset: int = -1
    epoch: int = 0
    features: Mapping[str, int] = {}
    brokers: Mapping[int, BrokerRegistration] = {}
    controllers: Mapping[int, ControllerRegistration] = {}
    topics: Mapping[bytes, TopicImage] = {}
    topic_ids: Mapping[str, bytes] = {}
    configs: Mapping[Resource, Mapping[str, str]] = {}
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
    next_producer_id: int = 0
    acls: Mapping[bytes, AccessControlEntryRecord] = {}
    scram_credentials: Mapping[tuple[str, int], UserScramCredentialRecord] = {}
    delegation_tokens: Mapping[str, DelegationTokenRecord] = {}

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of that name."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, name: str, index: int) -> PartitionRegistration | None:
        """Return a partition of a topic."""
        topic = self.topic(name)
        return None if topic is None else topic.partitions.get(index)
