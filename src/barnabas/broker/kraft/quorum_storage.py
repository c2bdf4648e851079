"""The directory of a node of the quorum: whose it is, and with what the metadata log of a new cluster begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config import BROKER, is_loopback
from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.kraft.formatter import (
    BOOTSTRAP_CHECKPOINT,
    Format,
    default_levels,
    format_directories,
    is_formatted,
    random_uuid_text,
    scram_records,
    standalone_voters,
)
from barnabas.broker.log.checkpoint_files import META_PROPERTIES, Owner, read_meta_properties
from barnabas.broker.log.log_directory import LogDirectory
from barnabas.broker.metadata.metadata_records import decode_versioned_record
from barnabas.broker.raft.kafka_metadata_log import log_directory_of, snapshot_file_name
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from barnabas.errors import KafkaError, KafkaStorageError
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.records import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
    from barnabas.broker.security.scram_users import Alterations


class QuorumStorage:
    """A directory that is locked, and whose it is. Raises `KafkaStorageError`; `close` lets it go.

    `cluster_id` and `first_users` are for a node that is all of its quorum, and formats its directory by itself;
    `has_formatted` says whether it has.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_directory: str,
        filesystem: FileSystem,
        random_bytes: Callable[[int], bytes],
        cluster_id: str | None = None,
        first_users: Callable[[], Alterations] = dict,
    ) -> None:
        self.path = config.metadata_directory or data_directory
        self.filesystem = filesystem
        self._config = config
        self._first_users = first_users
        self.has_formatted = False
        self._directory = LogDirectory(filesystem, self.path)
        self._directory.lock()
        try:
            if not is_formatted(filesystem, self.path):
                self._format(random_bytes, cluster_id)
            found = read_meta_properties(filesystem, f"{self.path}/{META_PROPERTIES}")
            assert found is not None
            assert found.cluster_id is not None, "it is formatted"
            self.cluster_id = found.cluster_id
            self._directory.identify(lambda known: Owner(self.cluster_id, config.node_id), random_bytes)
            self.directory_id: bytes = self._directory.directory_id or ZERO_UUID
            self.bootstrap = self._read_bootstrap()
        except OSError as problem:
            self._directory.release()
            raise KafkaStorageError(f"the directory {self.path} cannot be used: {problem}") from problem
        except KafkaError:
            self._directory.release()
            raise

    def hand_over(self, directories: Sequence[str]) -> None:
        """Let the broker of this process lock the directory, where it is one of its own."""
        if self.path in directories:
            self._directory.release()

    def take_back(self) -> None:
        """Lock it again where the broker had it, which has ended; the controller still writes.

        Raises `KafkaStorageError`.
        """
        if not self._directory.is_locked:
            self._directory.lock()

    def close(self) -> None:
        """Let another process have it."""
        if self._directory.is_locked:
            self._directory.release()

    def _format(self, random_bytes: Callable[[int], bytes], cluster_id: str | None) -> None:
        config = self._config
        if not is_alone(config):
            raise KafkaStorageError(
                f"the directory {self.path} is not formatted, and the nodes of a quorum have to be of one cluster: "
                "choose an id (`barnabas format --random-uuid`), and run `barnabas format --cluster-id ID --config "
                "FILE` for each node, as docs/guide/clusters.md says"
            )
        levels = default_levels()
        directory_id = random_bytes(16)
        voters = None if config.voters else standalone_voters(config, directory_id)
        wanted = Format(
            cluster_id or random_uuid_text(random_bytes),
            config.node_id,
            BootstrapMetadata([*BootstrapMetadata.of_levels(levels).records, *scram_records(self._first_users())]),
            voters,
            directory_id,
        )
        format_directories(self.filesystem, wanted, [self.path], random_bytes)
        self.has_formatted = True

    def _read_bootstrap(self) -> BootstrapMetadata:
        """Return the records of the log's first snapshot, where formatting has put them there (KIP-1170).

        Up to release 4.3 they are in a file of their own, and the snapshot has the voters only.
        """
        first = f"{log_directory_of(self.path)}/{snapshot_file_name(BOOTSTRAP_SNAPSHOT_ID)}"
        found = self._records_of(first) or self._records_of(f"{self.path}/{BOOTSTRAP_CHECKPOINT}")
        return BootstrapMetadata.of_levels(default_levels()) if found is None else BootstrapMetadata(found)

    def _records_of(self, path: str) -> list[ApiMessageAndVersion] | None:
        if not self.filesystem.exists(path):
            return None
        return [
            decode_versioned_record(bytes(record.value or b""))
            for batch in read_batches(self.filesystem.read(path))
            if not batch.is_control
            for record in batch
        ]


def is_alone(config: BrokerConfig) -> bool:
    """Whether a node is all of its quorum: the only voter, or its own and only bootstrap server."""
    if config.voters:
        return list(config.voters) == [config.node_id]
    if config.role == BROKER or len(config.controllers) != 1:
        return False
    host, port = config.controllers[0]
    reached = [config.advertised.get(found.name, found) for found in config.listeners]
    return any(
        found.port == port and (found.host == host or (is_loopback(found.host) and is_loopback(host)))
        for found in reached
    )
