"""Formats a directory for a node of a quorum, as `kafka-storage format` does (Formatter; KIP-631, 853, 900, 1022).

`meta.properties` says whose directory it is, `bootstrap.checkpoint` with which records a new cluster begins, and the
snapshot `00000000000000000000-0000000000.checkpoint` of the metadata log who votes, where voters may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.features import FEATURES, unmet_dependency
from barnabas.broker.log.checkpoint_files import (
    META_PROPERTIES,
    MetaProperties,
    decode_uuid,
    encode_uuid,
    read_meta_properties,
    sync_parent,
)
from barnabas.broker.log.disk_steps import done_at_once
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.metadata_version import KRAFT_VERSION, METADATA_VERSION, NAMES
from barnabas.broker.raft.kafka_metadata_log import log_directory_of, snapshot_file_name
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.raft_config import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from barnabas.broker.raft.snapshots import RecordsSnapshotWriter
from barnabas.broker.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.broker.security.scram_users import MECHANISMS
from barnabas.errors import ConfigError, KafkaStorageError
from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.security.scram_users import Alterations
    from barnabas.protocol.message import Buffer

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
#: Feature → from which level of metadata.version on a new cluster has it, and at which level.
_SINCE = {
    "transaction.version": (24, 2),
    "group.version": (22, 1),
    "eligible.leader.replicas.version": (26, 1),
    "share.version": (28, 1),
    "streams.version": (29, 1),
}


class Format(NamedTuple):
    """What a directory is formatted with; `voters` is None for static voters, and where others name them."""

    cluster_id: str
    node_id: int
    bootstrap: BootstrapMetadata
    voters: VoterSet | None = None
    #: The id that the metadata directory is to have; None for a new one.
    directory_id: bytes | None = None


def default_levels(release: str | None = None) -> dict[str, int]:
    """Return the levels of a new cluster, of a release by its name such as 4.1 or 4.1-IV1. Raises `ConfigError`."""
    if release is None:
        return _levels_of(max(NAMES))
    fitting = [level for level, name in NAMES.items() if name == release or name.startswith(f"{release}-")]
    if not fitting:
        raise ConfigError(f"{release} is no release that is known: there are {', '.join(NAMES.values())}")
    return _levels_of(max(fitting))


def _levels_of(version: int) -> dict[str, int]:
    return {METADATA_VERSION: version} | {name: level for name, (since, level) in _SINCE.items() if version >= since}


def chosen_levels(release: str | None, features: Iterable[str], *, do_voters_change: bool) -> dict[str, int]:
    """Return the levels of a new cluster with those of `name=level` in place of their own. Raises `ConfigError`."""
    given = dict(map(_named_level, features))
    if METADATA_VERSION not in given:
        levels = default_levels(release)
    elif release is None:
        levels = _levels_of(given[METADATA_VERSION])
    else:
        raise ConfigError("--release-version and --feature metadata.version say the same: give one of them")
    levels |= {KRAFT_VERSION: int(do_voters_change)} | given
    if levels[KRAFT_VERSION] != do_voters_change:
        raise ConfigError(
            f"--feature kraft.version={levels[KRAFT_VERSION]}: it is 1 with --standalone, --initial-controllers and "
            "--no-initial-controllers, whose voters may change, and else 0"
        )
    for name, level in levels.items():
        if problem := unmet_dependency(name, level, levels):
            raise ConfigError(f"--feature {name}={level}: {problem}")
    return levels


def _named_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    bounds = {found: (feature.lowest, feature.highest) for found, feature in FEATURES.items()}
    bounds[KRAFT_VERSION] = MIN_KRAFT_VERSION, MAX_KRAFT_VERSION
    if name not in bounds or not equals or not level.isdecimal():
        raise ConfigError(f"--feature {text}: it must be NAME=LEVEL, with one of {', '.join(bounds)}")
    low, high = bounds[name]
    if not low <= int(level) <= high:
        raise ConfigError(f"--feature {text}: the levels of {name} are {low} to {high}")
    return name, int(level)


def scram_records(users: Alterations) -> list[ApiMessageAndVersion]:
    """Return the records of users that are there from the start."""
    numbers = {name: number for number, name in MECHANISMS.items()}
    return [
        ApiMessageAndVersion(
            UserScramCredentialRecord(
                name, numbers[mechanism], found.salt, found.stored_key, found.server_key, found.iterations
            )
        )
        for (name, mechanism), found in users.items()
        if found is not None
    ]


def standalone_voters(config: BrokerConfig, directory_id: bytes) -> VoterSet:
    """Return the voter set of a node that is the only one, under the address that others reach it by."""
    endpoints = tuple(
        sorted(
            Endpoint(found.name, found.host or "localhost", found.port)
            for found in (config.advertised.get(one.name, one) for one in config.listeners)
        )
    )
    key = ReplicaKey(config.node_id, directory_id)
    return VoterSet([VoterNode(key, endpoints, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)])


def initial_voters(text: str, listener: str) -> VoterSet:
    """Return the voter set of `--initial-controllers`: `id@host:port:directory-id`, by commas. Raises `ConfigError`."""
    nodes = []
    for item in text.split(","):
        voter, at, rest = item.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        try:
            key = ReplicaKey(int(voter), decode_uuid(directory))
            endpoint = Endpoint(listener, host.strip("[]"), int(port))
        except ValueError as problem:
            raise ConfigError(
                f"--initial-controllers holds {item!r}, and needs ID@HOST:PORT:DIRECTORY-ID, where the last is 22 "
                f"characters of `barnabas format random-uuid`: {problem}"
            ) from None
        if not at or not host:
            raise ConfigError(f"--initial-controllers holds {item!r}, and needs ID@HOST:PORT:DIRECTORY-ID")
        nodes.append(VoterNode(key, (endpoint,), MIN_KRAFT_VERSION, MAX_KRAFT_VERSION))
    found = VoterSet(nodes)
    if len(found) < len(nodes):
        raise ConfigError(f"--initial-controllers {text}: each id may stand there once")
    return found


def format_directories(
    filesystem: FileSystem, wanted: Format, directories: Sequence[str], random_bytes: Callable[[int], bytes]
) -> list[str]:
    """Format directories, the first one for the metadata; gives those that were formatted, not those that were before.

    Raises `KafkaStorageError` for a directory of another cluster or node, and where it cannot be written.
    """
    formatted = []
    for path in directories:
        try:
            if not is_formatted(filesystem, path):
                is_first = path == directories[0]
                _format(filesystem, wanted, path, is_metadata=is_first, random_bytes=random_bytes)
                formatted.append(path)
                continue
            found = read_meta_properties(filesystem, f"{path}/{META_PROPERTIES}")
            assert found is not None, "it is formatted"
            found.check_owner(f"{path}/{META_PROPERTIES}", wanted.cluster_id, wanted.node_id)
        except OSError as problem:
            raise KafkaStorageError(f"the directory {path} cannot be formatted: {problem}") from problem
    return formatted


def is_formatted(filesystem: FileSystem, path: str) -> bool:
    """Whether a directory belongs to a cluster. Raises `CorruptCheckpointError`."""
    found = read_meta_properties(filesystem, f"{path}/{META_PROPERTIES}")
    return found is not None and found.cluster_id is not None


def _format(
    filesystem: FileSystem, wanted: Format, path: str, *, is_metadata: bool, random_bytes: Callable[[int], bytes]
) -> None:
    filesystem.make_directory(path)
    sync_parent(filesystem, path)
    directory_id = (wanted.directory_id if is_metadata else None) or random_bytes(16)
    if is_metadata:
        _write_snapshot(filesystem, f"{path}/{BOOTSTRAP_CHECKPOINT}", bootstrap_snapshot(wanted.bootstrap))
        if wanted.voters is not None:
            log = log_directory_of(path)
            filesystem.make_directory(log, private=True)
            filesystem.sync_directory(path)
            voters = voters_snapshot(wanted.voters)
            _write_snapshot(filesystem, f"{log}/{snapshot_file_name(BOOTSTRAP_SNAPSHOT_ID)}", voters)
    # Last: with it the directory is formatted.
    content = MetaProperties(wanted.cluster_id, wanted.node_id, directory_id).encode()
    filesystem.replace(f"{path}/{META_PROPERTIES}", content, sync=True)


def _write_snapshot(filesystem: FileSystem, path: str, content: bytes) -> None:
    # It may hold what the first users log in with, though salted and hashed.
    filesystem.replace(path, content, sync=True, private=True)


class _Buffered:
    """A snapshot in memory; a `RawSnapshotWriter`."""

    snapshot_id = OffsetAndEpoch(0, 0)

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def append(self, data: Buffer) -> None:
        """See `RawSnapshotWriter`."""
        self.data += data
        self.size = len(self.data)

    def freeze(self) -> Steps[None]:
        """See `RawSnapshotWriter`."""
        yield from ()

    def close(self) -> None:
        """See `RawSnapshotWriter`."""


def bootstrap_snapshot(bootstrap: BootstrapMetadata) -> bytes:
    """Return the content of `bootstrap.checkpoint`."""
    raw = _Buffered()
    writer = RecordsSnapshotWriter(raw, 0, 0, None)
    writer.append(bootstrap.records)
    done_at_once(writer.freeze())
    return bytes(raw.data)


def voters_snapshot(voters: VoterSet | None, bootstrap: BootstrapMetadata | None = None) -> bytes:
    """Return the first snapshot of a log whose voters may change; with `bootstrap` as formatted by KIP-1170."""
    raw = _Buffered()
    writer = RecordsSnapshotWriter(raw, 0, MAX_KRAFT_VERSION if voters is not None else 0, voters)
    writer.append(bootstrap.records if bootstrap is not None else ())
    done_at_once(writer.freeze())
    return bytes(raw.data)


def random_uuid_text(random_bytes: Callable[[int], bytes]) -> str:
    """Return a new id as Kafka writes it, which begins with no dash: tools would take it for an option."""
    while True:
        text = encode_uuid(random_bytes(16))
        if not text.startswith("-"):
            return text
