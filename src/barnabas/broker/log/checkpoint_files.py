"""The small text files beside the log, in Apache Kafka's formats.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks) and
`leader-epoch-checkpoint` are a version, the number of entries, and the entries, one a line (CheckpointFile).
`partition.metadata` holds the topic id, and `meta.properties` whose directory it is. `.kafka_cleanshutdown` is there
when the last broker closed all its logs. All are replaced as a whole, so a crash leaves the old content or the new.
"""

from __future__ import annotations

import base64
import json
import posixpath
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from barnabas.broker.log.filesystem import FileSystem
from barnabas.errors import KafkaError, KafkaStorageError
from barnabas.protocol.topic_partition import TopicPartition

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"

CURRENT_VERSION = 0
META_PROPERTIES_VERSION = 1
DATA_FORMAT = 1
"""The version of all that lies in a data directory together; docs/internals/data-format.md says what each one is."""
_DATA_FORMAT = "barnabas.data.format"


class CorruptCheckpointError(KafkaError):
    """A checkpoint file cannot be understood."""


def encode_checkpoint(lines: list[str]) -> bytes:
    """Return a checkpoint file of these entries."""
    return "".join(f"{line}\n" for line in (str(CURRENT_VERSION), str(len(lines)), *lines)).encode()


def read_checkpoint(filesystem: FileSystem, path: str, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint file, `fields` words each; none when there is no file, or an empty one.

    Raises `CorruptCheckpointError`.
    """
    try:
        text = filesystem.read(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path} is not text: {error}") from error
    lines = text.splitlines()
    if not lines:
        return []
    if lines[0] != str(CURRENT_VERSION):
        raise CorruptCheckpointError(f"{path} has version {lines[0]!r}; only {CURRENT_VERSION} is known")
    entries = [line.split() for line in lines[2:]]
    if len(lines) > 1 and lines[1] != str(len(entries)):
        raise CorruptCheckpointError(f"{path} promises {lines[1]} entries and holds {len(entries)}")
    for entry in entries:
        if len(entry) != fields or not all(word.lstrip("-").isdecimal() for word in entry[-2:]):
            raise CorruptCheckpointError(f"{path} has a malformed line: {' '.join(entry)!r}")
    return entries


class OffsetCheckpointFile:
    """Offsets by partition: `topic partition offset` lines."""

    __slots__ = ("_filesystem", "path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """Return what was written last; `CorruptCheckpointError` when that cannot be read."""
        entries = read_checkpoint(self._filesystem, self.path, 3)
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}

    def write(self, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
        """Replace the content."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        self._filesystem.replace(self.path, encode_checkpoint(lines), sync=sync)


def encode_uuid(uuid: bytes) -> str:
    """Return a uuid as Kafka writes it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    """Return the 16 bytes of a uuid in Kafka's form; `ValueError` for anything else."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not the base64 form of a uuid")
    return uuid


def read_partition_metadata(filesystem: FileSystem, path: str) -> bytes | None:
    """Return the topic id in a `partition.metadata` file; None when there is none. Raises `CorruptCheckpointError`."""
    try:
        text = filesystem.read(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(CURRENT_VERSION):
        raise CorruptCheckpointError(f"{path} is malformed: {text!r}")
    try:
        return decode_uuid(fields.get("topic_id", "").strip())
    except ValueError as error:
        raise CorruptCheckpointError(f"{path} is malformed: {error}") from error


def topic_id_of(filesystem: FileSystem, directory: str | None) -> bytes | None:
    """Return the topic id of the log in a directory; None where that is not known."""
    try:
        return read_partition_metadata(filesystem, f"{directory}/{PARTITION_METADATA}")
    except (OSError, CorruptCheckpointError):
        return None


def write_partition_metadata(filesystem: FileSystem, path: str, topic_id: bytes, *, sync: bool = False) -> None:
    """Record whose topic's partition the directory holds."""
    data = f"version: {CURRENT_VERSION}\ntopic_id: {encode_uuid(topic_id)}"
    filesystem.replace(path, data.encode(), sync=sync)


class Owner(NamedTuple):
    """Whose data a directory has, and the version of `meta.properties`: 0 is what brokers under ZooKeeper read."""

    cluster_id: str
    node_id: int
    version: int = META_PROPERTIES_VERSION


class MetaProperties:
    """`meta.properties`: the cluster, node and directory that the data belongs to, and the version of its format.

    `version` is that of the file, Apache Kafka's; `data_format` is ours (docs/internals/data-format.md), 0 where
    Apache Kafka wrote the file, which ignores that line.
    """

    __slots__ = ("cluster_id", "data_format", "directory_id", "node_id", "version")

    def __init__(
        self,
        cluster_id: str | None,
        node_id: int,
        directory_id: bytes | None,
        version: int = META_PROPERTIES_VERSION,
        data_format: int = 0,
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.directory_id = directory_id
        self.version = version
        self.data_format = data_format

    def encode(self) -> bytes:
        """Return the file's content, its lines sorted by name."""
        fields = {"version": str(self.version), ("node.id" if self.version else "broker.id"): str(self.node_id)}
        if self.cluster_id is not None:
            fields["cluster.id"] = self.cluster_id
        if self.directory_id is not None:
            fields["directory.id"] = encode_uuid(self.directory_id)
        if self.data_format:
            fields[_DATA_FORMAT] = str(self.data_format)
        return "".join(f"{name}={fields[name]}\n" for name in sorted(fields)).encode()

    def check_owner(self, path: str, cluster_id: str, node_id: int) -> None:
        """Raise `KafkaStorageError` if the file at `path` says that the data is not this node's, or is too new."""
        problem = None
        if self.version > META_PROPERTIES_VERSION or self.data_format > DATA_FORMAT:
            problem = (
                f"was written by a newer version (version={self.version}, {_DATA_FORMAT}={self.data_format}; this one "
                f"knows {META_PROPERTIES_VERSION} and {DATA_FORMAT}): upgrade barnabas"
            )
        elif self.cluster_id not in (None, cluster_id):
            problem = (
                f"belongs to the cluster {self.cluster_id}, and this broker to {cluster_id}: choose another directory, "
                "or bring the metadata back that belongs to it"
            )
        elif self.node_id not in (-1, node_id):
            problem = (
                f"belongs to node {self.node_id}, and this is node {node_id}: set node.id={self.node_id}, "
                "or choose another directory"
            )
        if problem is not None:
            raise KafkaStorageError(f"the data directory of {path} {problem}")


def read_meta_properties(filesystem: FileSystem, path: str) -> MetaProperties | None:
    """Return what `meta.properties` says, of version 0 (ZooKeeper's brokers) or 1; None when there is no such file.

    Raises `CorruptCheckpointError`.
    """
    try:
        text = filesystem.read(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    lines = [line.strip() for line in text.splitlines()]
    fields = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    try:
        version = int(fields.get("version", "0"))
        node_id = int(fields.get("node.id" if version else "broker.id", "-1"))
        directory = fields.get("directory.id")
        directory_id = decode_uuid(directory) if directory else None
        return MetaProperties(
            fields.get("cluster.id"), node_id, directory_id, version, int(fields.get(_DATA_FORMAT, "0"))
        )
    except ValueError as error:
        raise CorruptCheckpointError(f"{path} is malformed: {error}") from error


def claim_directory(
    filesystem: FileSystem,
    path: str,
    identify: Callable[[str | None], tuple[str, int] | Owner],
    random_bytes: Callable[[int], bytes],
) -> bytes:
    """Write whose data it is into `meta.properties`; returns the directory's id.

    `identify` is as for `LogManager.start`.

    Raises `KafkaStorageError` where it is another's, and `OSError`.
    """
    try:
        found = read_meta_properties(filesystem, path)
    except CorruptCheckpointError as error:
        raise KafkaStorageError(f"{error}; whose data this is cannot be told: repair the file") from error
    cluster_id, node_id, version = Owner(*identify(found.cluster_id if found is not None else None))
    if found is not None:
        found.check_owner(path, cluster_id, node_id)
    else:
        sync_parent(filesystem, posixpath.dirname(path))
    directory_id = (found.directory_id if found is not None else None) or random_bytes(16)
    wanted = MetaProperties(cluster_id, node_id, directory_id, version, DATA_FORMAT).encode()
    if found is None or found.encode() != wanted:
        filesystem.replace(path, wanted, sync=True)
    return directory_id


def sync_parent(filesystem: FileSystem, directory: str) -> None:
    """Bring the name of a new data directory to the disk: with it goes all that is in it."""
    parent = posixpath.dirname(posixpath.normpath(directory)) or "."
    # Who may make a directory there may not always read it.
    with suppress(PermissionError):
        filesystem.sync_directory(parent)


def read_clean_shutdown_file(filesystem: FileSystem, path: str) -> int:
    """Return the broker epoch in which the directory was closed (KIP-966); -1 where that is not known."""
    try:
        found = json.loads(filesystem.read(path))
        return int(found["brokerEpoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def write_clean_shutdown_file(filesystem: FileSystem, path: str, broker_epoch: int = -1) -> None:
    """Say that every log in the directory was flushed and closed."""
    data = f'{{"version":{CURRENT_VERSION},"brokerEpoch":{broker_epoch}}}'
    filesystem.replace(path, data.encode(), sync=True)
